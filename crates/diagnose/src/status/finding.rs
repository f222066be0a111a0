//! Findings in the report of a namespace: their form for programs, and how they are shown.

use crate::Style;
use rules::finding::{FindingLevel, NamespaceFinding};
use serde::{Serialize, Serializer};

/// A problem or an observation.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingReport<'a> {
    /// How much it matters: warning (it may be intended) or failure (traffic fails, or bypasses the proxy).
    level: &'static str,
    /// The topic: `ipv4`, `ipv6`, `foreign`, `addresses`, `listeners`, `rules`, `routing`, `drift`.
    topic: &'static str,
    text: &'a str,
    remedy: Option<&'a str>,
}

/// Writes findings, for `serialize_with`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_findings<S: Serializer>(
    findings: &[NamespaceFinding],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(findings.iter().map(|finding| FindingReport {
        level: match finding.level {
            FindingLevel::Ok | FindingLevel::Warn => "warning",
            FindingLevel::Fail => "failure",
        },
        topic: finding.topic,
        text: &finding.text,
        remedy: finding.remedy.as_deref(),
    }))
}

/// How a level is shown.
pub(super) fn style(level: FindingLevel) -> Style {
    match level {
        FindingLevel::Ok => Style::Captured,
        FindingLevel::Warn => Style::Passing,
        FindingLevel::Fail => Style::Dropped,
    }
}
