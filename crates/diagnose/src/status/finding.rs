//! Something to look at in a network namespace, and how much it matters.

use crate::Style;
use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StatusLevel {
    /// It may be intended.
    #[serde(rename = "warning")]
    Warn,
    /// Traffic fails, or passes the proxy by.
    #[serde(rename = "failure")]
    Fail,
}

/// A problem or an observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusFinding {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub level: StatusLevel,
    /// The topic: `ipv6`, `foreign`, `listeners`, `rules`, `routing`, `drift`.
    pub topic: &'static str,
    pub text: String,
    pub remedy: Option<String>,
}

impl StatusFinding {
    /// Something that may be intended.
    pub fn warn(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: StatusLevel::Warn, topic, text: text.into(), remedy: Some(remedy.into()) }
    }

    /// Something by which traffic fails, or passes the proxy by.
    pub fn fail(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: StatusLevel::Fail, ..Self::warn(topic, text, remedy) }
    }
}

/// How a level is shown.
pub(super) fn style(level: StatusLevel) -> Style {
    match level {
        StatusLevel::Warn => Style::Passing,
        StatusLevel::Fail => Style::Dropped,
    }
}
