//! The styles of text: the meaning of a piece of text to a reader in a hurry, shown in colour.
//!
//! Text for people carries its colours as escape sequences; the printer removes them where they
//! are not wanted. Colour never carries meaning alone: `captured` is blue and reads `captured`. Nearly all
//! readers distinguish blue and orange; red alone never distinguishes anything from green.

use crate::fold;
use anstyle::AnsiColor;
use mesh::visible;
use serde::Serialize;
use std::fmt::{self, Display};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// The proxy gets it; all is well; a line is expected.
    Captured,
    /// It goes where it was sent; it may be intended; a line that is unexpected.
    Passing,
    /// It ends; something failed.
    Dropped,
    /// Parts that a reader looks for first: titles, names.
    Strong,
    /// Parts that a reader may skip: reasons, advice, rules without effect.
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

    pub fn paint(self, text: impl Display) -> impl Display {
        Painted { style: self.escapes(), text }
    }
}

/// A piece of text in one style.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Span {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub style: Option<Style>,
    pub text: String,
}

/// A line of text. Where it is folded, all but its first part is indented.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct TextLine {
    #[serde(skip)]
    hang: usize,
    pub spans: Vec<Span>,
}

impl TextLine {
    pub fn hanging(hang: usize) -> Self {
        Self { hang, spans: Vec::new() }
    }

    #[must_use]
    pub fn plain(self, text: impl AsRef<str>) -> Self {
        self.piece(None, text)
    }

    #[must_use]
    pub fn styled(self, style: Style, text: impl AsRef<str>) -> Self {
        self.piece(Some(style), text)
    }

    /// Adds a piece. Whoever wrote its text, it moves no cursor.
    #[must_use]
    pub fn piece(mut self, style: Option<Style>, text: impl AsRef<str>) -> Self {
        self.spans.push(Span { style, text: visible(text.as_ref()) });
        self
    }
}

/// For a terminal of so many columns.
pub fn painted(lines: &[TextLine], width: usize) -> String {
    let paint = |Span { style, text }: &Span| match style {
        Some(style) => style.paint(text).to_string(),
        None => text.clone(),
    };
    let painted = |line: &TextLine| line.spans.iter().map(paint).collect::<String>() + "\n";
    lines.iter().map(|line| fold(&painted(line), line.hang, width)).collect()
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
