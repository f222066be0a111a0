//! What a piece of text means to a reader in a hurry, shown in colour.
//!
//! Text that is told to people carries its colours as escape sequences; whoever prints it takes them out where they
//! are not wanted. A colour never says what no word says: `captured` is blue and reads `captured`. Blue and orange
//! are told apart by nearly everybody, whatever their eyes; red alone never tells anything from green.

use anstyle::{AnsiColor, Style};
use std::fmt::{self, Display};

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tone {
    /// The proxy gets it; all is well; a line is wanted.
    Captured,
    /// It goes where it was sent; it may be meant so; a line that is there and not wanted.
    Passing,
    /// It ends; something failed.
    Dropped,
    /// What a reader looks for first: titles, names.
    Strong,
    /// What a reader may skip: reasons, advice, rules without effect.
    Quiet,
}

impl Tone {
    /// The style in a terminal. The sixteen basic colours follow the terminal's own theme, light or dark.
    pub const fn style(self) -> Style {
        match self {
            Self::Captured => AnsiColor::Blue.on_default().bold(),
            Self::Passing => AnsiColor::Yellow.on_default(),
            Self::Dropped => AnsiColor::Red.on_default().bold(),
            Self::Strong => Style::new().bold(),
            Self::Quiet => Style::new().dimmed(),
        }
    }

    /// The text in this tone.
    pub fn paint(self, text: impl Display) -> impl Display {
        Painted { style: self.style(), text }
    }
}

struct Painted<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The width asked for is that of the text: escape sequences take no room.
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
        let painted = format!("{:6}|", Tone::Strong.paint("rule"));
        assert_eq!(crate::plain(&painted), "rule  |");
    }
}
