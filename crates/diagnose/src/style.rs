//! The styles of text: what a piece of text means to a reader in a hurry, shown in colour.
//!
//! Text for people carries its colours as escape sequences; the printer removes them where they
//! are not wanted. Colour never carries meaning alone: `captured` is blue and reads `captured`. Nearly all
//! readers distinguish blue and orange; red alone never distinguishes anything from green.

use anstyle::AnsiColor;
use std::fmt::{self, Display};

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Style {
    /// The proxy gets it; all is well; a line is expected.
    Captured,
    /// It goes where it was sent; it may be intended; a line that is unexpected.
    Passing,
    /// It ends; something failed.
    Dropped,
    /// What a reader looks for first: titles, names.
    Strong,
    /// What a reader may skip: reasons, advice, rules without effect.
    Quiet,
}

impl Style {
    /// The style in a terminal. The sixteen basic colours follow the terminal's own theme, light or dark.
    pub const fn escapes(self) -> anstyle::Style {
        match self {
            Self::Captured => AnsiColor::Blue.on_default().bold(),
            Self::Passing => AnsiColor::Yellow.on_default(),
            Self::Dropped => AnsiColor::Red.on_default().bold(),
            Self::Strong => anstyle::Style::new().bold(),
            Self::Quiet => anstyle::Style::new().dimmed(),
        }
    }

    /// The style of a verdict by its name for programs.
    pub(crate) fn of_verdict(name: &str) -> Self {
        match name {
            "redirect" | "tproxy" => Self::Captured,
            "pass" => Self::Passing,
            _ => Self::Dropped,
        }
    }

    pub fn paint(self, text: impl Display) -> impl Display {
        Painted { style: self.escapes(), text }
    }
}

struct Painted<T> {
    style: anstyle::Style,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The width is that of the text: escape sequences take no room.
        let Self { style, text } = self;
        write!(f, "{style}")?;
        text.fmt(f)?;
        write!(f, "{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_counts_what_is_seen() {
        let painted = format!("{:6}|", Style::Strong.paint("rule"));
        assert_eq!(crate::plain(&painted), "rule  |");
    }
}
