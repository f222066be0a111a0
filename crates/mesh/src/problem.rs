//! Problems of the input, which stop a command.

use std::fmt;

/// One problem, described so that its author can fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The flag, variable or argument.
    pub name: String,
    /// The offending item of its value; `None` where the value as a whole, or its absence, is at fault.
    pub item: Option<String>,
    /// What is wrong and what would be right.
    pub text: String,
}

impl Problem {
    /// A problem with one item of a setting's value.
    pub fn with_item(name: &(impl fmt::Display + ?Sized), item: &str, text: impl Into<String>) -> Self {
        Self { name: name.to_string(), item: Some(item.to_owned()), text: text.into() }
    }

    /// A problem that is not about a single item.
    pub fn of(name: &(impl fmt::Display + ?Sized), text: impl Into<String>) -> Self {
        Self { name: name.to_string(), item: None, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { name, item: Some(item), text } => write!(f, "{name}: {item:?} {text}"),
            Self { name, item: None, text } => write!(f, "{name}: {text}"),
        }
    }
}

/// All problems of one call; at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// The problems as a command reports them that would have changed something.
    pub fn unchanged(&self) -> String {
        self.headed("; nothing was changed")
    }

    fn headed(&self, addition: &str) -> String {
        let (count, noun) = (self.0.len(), if self.0.len() == 1 { "problem" } else { "problems" });
        let problems: String = self.0.iter().map(|problem| format!("\n  {problem}")).collect();
        format!("{count} {noun} in the input{addition}{problems}")
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headed(""))
    }
}
