//! Something found in a network namespace: a problem, or that a part of it is in order. Not about flags or manifests, whose
//! findings have codes.

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingLevel {
    /// As it should be.
    Ok,
    /// It may be intended.
    Warn,
    /// Capture can't work, or traffic bypasses the proxy.
    Fail,
}

/// A problem, an observation, or a part that is in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceFinding {
    pub level: FindingLevel,
    /// The topic: `ipv4`, `ipv6`, `foreign`, `addresses`, `listeners`, `rules`, `routing`, `drift`, and those of `doctor`
    /// alone.
    pub topic: &'static str,
    pub text: String,
    /// What helps; `None` where nothing has to.
    pub remedy: Option<String>,
}

impl NamespaceFinding {
    pub fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self { level: FindingLevel::Ok, topic, text: text.into(), remedy: None }
    }

    pub fn warn(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: FindingLevel::Warn, topic, text: text.into(), remedy: Some(remedy.into()) }
    }

    pub fn fail(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: FindingLevel::Fail, ..Self::warn(topic, text, remedy) }
    }
}
