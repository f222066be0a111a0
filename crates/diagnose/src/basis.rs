//! Basis of an answer: a configuration, or else the existing rules.

use crate::{Style, TextLine, painted};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Rules in a named network namespace, or in the current one.
    Rules {
        namespace: Option<String>,
    },
    /// Settings stored with the rules.
    Noted {
        namespace: Option<String>,
        settings: String,
    },
    Flags,
    Object(String),
    /// A listing of rules, by file name.
    Listing(String),
}

/// The basis as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BasisReport {
    /// `rules` (live), `noted` (stored settings), `flags`, `object` (of a manifest) or `listing`.
    kind: String,
    /// The basis in words.
    text: String,
}

impl Basis {
    /// First line of an answer, folded to `width` columns.
    pub fn line(&self, width: usize) -> String {
        painted(&[TextLine::hanging(2).styled(Style::Quiet, format!("{self}:"))], width)
    }

    /// Basis as a noun: `the rules in namespace web`.
    pub fn name(&self) -> String {
        self.kind_and_name().1
    }

    pub fn report(&self) -> BasisReport {
        BasisReport { kind: self.kind_and_name().0.to_owned(), text: self.to_string() }
    }

    fn kind_and_name(&self) -> (&'static str, String) {
        match self {
            Self::Rules { namespace } => ("rules", format!("the rules in {}", place(namespace.as_deref()))),
            Self::Noted { namespace, settings } => {
                let settings = if settings.is_empty() { "no flags" } else { settings };
                ("noted", format!("the settings stored in {} ({settings})", place(namespace.as_deref())))
            }
            Self::Flags => ("flags", "flags".to_owned()),
            Self::Object(title) => ("object", title.clone()),
            Self::Listing(file) if file == "-" => ("listing", "the listing".to_owned()),
            Self::Listing(file) => ("listing", format!("the rules of {file}")),
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {}", self.name())
    }
}

fn place(namespace: Option<&str>) -> String {
    namespace.map_or("this network namespace".to_owned(), |name| format!("namespace {name}"))
}
