//! Text in lines that fit a terminal, and its styles: escape sequences, which the printer removes where they are unsupported.
//! Colour is never the only sign: `captured` is blue and reads `captured`. Nearly all readers distinguish blue and orange; no
//! distinction relies on red and green.

use anstyle::AnsiColor;
use mesh::visible;
use serde::Serialize;
use std::fmt::Display;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Captured traffic; a good state; an expected line.
    Captured,
    /// Traffic that is not captured; a possibly intended state; an unexpected line.
    Passing,
    /// Dropped traffic; a failure.
    Dropped,
    Strong,
    /// Parts that a reader may skip: reasons, advice, rules without effect.
    Quiet,
}

impl Style {
    /// Style in a terminal. The sixteen basic colours follow the terminal's own theme, light or dark.
    pub const fn escapes(self) -> anstyle::Style {
        match self {
            Self::Captured => AnsiColor::Blue.on_default().bold(),
            Self::Passing => AnsiColor::Yellow.on_default(),
            Self::Dropped => AnsiColor::Red.on_default().bold(),
            Self::Strong => anstyle::Style::new().bold(),
            Self::Quiet => anstyle::Style::new().dimmed(),
        }
    }

    pub fn paint(self, text: impl Display) -> String {
        let style = self.escapes();
        format!("{style}{text}{style:#}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Span {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub style: Option<Style>,
    pub text: String,
}

/// Line of text. If folded, all lines except the first are indented.
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

    /// Adds a piece, with control characters escaped, since its text may be foreign.
    #[must_use]
    pub fn piece(mut self, style: Option<Style>, text: impl AsRef<str>) -> Self {
        self.spans.push(Span { style, text: visible(text.as_ref()) });
        self
    }
}

pub fn painted(lines: &[TextLine], width: usize) -> String {
    let paint = |Span { style, text }: &Span| match style {
        Some(style) => style.paint(text),
        None => text.clone(),
    };
    let painted = |line: &TextLine| line.spans.iter().map(paint).collect::<String>() + "\n";
    lines.iter().map(|line| fold(&painted(line), line.hang, width)).collect()
}

/// Folds each line between words to at most `width` columns, unless a word is longer; all lines except the first are indented.
pub fn fold(text: &str, hang: usize, width: usize) -> String {
    let mut folded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        fold_line(line, hang, width, &mut folded);
    }
    folded
}

fn fold_line(line: &str, hang: usize, width: usize, folded: &mut String) {
    let mut column = 0;
    // Breaking an empty line would gain nothing.
    let mut is_fresh = true;
    // Leading spaces are an indent, which stays with the first word.
    let start = line.len() - line.trim_start_matches(' ').len();
    let mut rest = line;
    let mut from = start;
    while !rest.is_empty() {
        let end = rest[from..].find(' ').map_or(rest.len(), |space| from + space);
        // Spaces after a word belong to it, and are dropped at the end of a line.
        let next = rest[end..].find(|c| c != ' ').map_or(rest.len(), |word| end + word);
        let (word, room) = (&rest[..next], columns(&rest[..end]));
        if !is_fresh && column + room > width {
            folded.truncate(folded.trim_end_matches(' ').len());
            folded.push('\n');
            folded.push_str(&" ".repeat(hang));
            column = hang;
        }
        folded.push_str(word);
        column += columns(word);
        (is_fresh, rest, from) = (false, &rest[next..], 0);
    }
}

/// Removes colours: a style (`ESC [ .. m`) is the only sequence in our texts.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = sequence.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

pub fn columns(text: &str) -> usize {
    plain(text).chars().filter(|c| *c != '\n').count()
}

pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next();
    first.into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// `a, b and c`
pub fn listed<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Number with a comma before each group of three digits.
pub(crate) fn grouped(number: impl Display) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Style;

    fn check(text: &str, width: usize, expected: &str) {
        assert_eq!(fold(text, 2, width), expected);
    }

    #[test]
    fn lines_break_between_words_only() {
        check("one two three\n", 80, "one two three\n");
        check("one two three\n", 13, "one two three\n");
        check("one two three\n", 12, "one two\n  three\n");
        check("one two three\nfour five", 7, "one two\n  three\nfour\n  five");
        check("a word-without-an-end b\n", 8, "a\n  word-without-an-end\n  b\n");
        check("    indented words\n", 12, "    indented\n  words\n");
        check("aligned   in columns", 14, "aligned   in\n  columns");
        check("", 1, "");
    }

    #[test]
    fn colours_can_be_taken_out() {
        let text = format!("{} and {}", Style::Captured.paint("one"), Style::Quiet.paint("two"));
        assert_eq!(plain(&text), "one and two");
    }

    #[test]
    fn colours_take_no_room() {
        let text = format!("{} {}", Style::Captured.paint("one two"), Style::Quiet.paint("three"));
        assert_eq!(fold(&text, 2, 13), text);
        assert!(fold(&text, 2, 12).contains("\n  "));
        assert_eq!(columns(&text), 13);
    }
}
