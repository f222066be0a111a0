//! Versions of the specification.

use super::{CniError, CniErrorCode, Verb};

/// A version that the plugin supports. Earlier ones have no `prevResult`, so that no plugin can be chained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CniVersion {
    V0_3_0,
    V0_3_1,
    V0_4_0,
    V1_0_0,
    V1_1_0,
}

impl CniVersion {
    pub(crate) const ALL: [Self; 5] = [Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];
    pub(crate) const LATEST: Self = Self::V1_1_0;

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// # Errors
    /// When the plugin does not support this version.
    pub(crate) fn parse(text: &str) -> Result<Self, CniError> {
        Self::ALL.into_iter().find(|version| version.name() == text).ok_or_else(|| {
            CniError::new(
                CniErrorCode::IncompatibleVersion,
                format!("cniVersion: {text:?} is not supported"),
                format!("expected one of {}", Self::ALL.map(Self::name).join(", ")),
            )
        })
    }

    /// # Errors
    /// When this version of the specification does not have the verb.
    pub(crate) fn require(self, verb: Verb) -> Result<(), CniError> {
        let since = match verb {
            Verb::Add | Verb::Del | Verb::Version => Self::V0_3_0,
            Verb::Check => Self::V0_4_0,
            Verb::Gc | Verb::Status => Self::V1_1_0,
        };
        if self >= since {
            return Ok(());
        }
        let (msg, details) = (
            format!("cniVersion {} does not have {}", self.name(), verb.name()),
            format!("it came with {}; raise cniVersion in the network configuration", since.name()),
        );
        Err(CniError::new(CniErrorCode::IncompatibleVersion, msg, details))
    }

    /// The answer to VERSION, in this version.
    pub(crate) fn answer(self) -> String {
        serde_json::json!({
            "cniVersion": self.name(),
            "supportedVersions": Self::ALL.map(Self::name),
        })
        .to_string()
    }
}
