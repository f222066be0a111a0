//! Pod Security Standards, by the label with which a namespace enforces one: the API server then refuses pods that ask for
//! more, such as for the capability that setting rules takes.

use std::fmt;

/// The label of a namespace.
pub const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// A standard that refuses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standard {
    Baseline,
    Restricted,
}

impl Standard {
    /// The one that is enforced by a value of the label; `None` where nothing is refused.
    pub fn enforced(label: Option<&str>) -> Option<Self> {
        match label? {
            "privileged" => None,
            "baseline" => Some(Self::Baseline),
            // The API server evaluates what is not a level as `restricted`.
            _ => Some(Self::Restricted),
        }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}
