//! Text for a terminal as pieces with names for their colours, which a style sheet knows.

use diagnose::Style;
use serde::Serialize;

/// A piece of text in one style.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub style: Option<&'static str>,
    pub text: String,
}

/// Each style with the word by which the style sheet knows it. Of styles whose sequences begin alike the longer comes first.
const STYLES: [(Style, &str); 5] = [
    (Style::Captured, "captured"),
    (Style::Passing, "passing"),
    (Style::Dropped, "dropped"),
    (Style::Strong, "strong"),
    (Style::Quiet, "quiet"),
];

/// The pieces of a text. Their texts, one after the other, are the text without its escape sequences.
pub(crate) fn spans(text: &str) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut style = None;
    let mut rest = text;
    while !rest.is_empty() {
        let begun = STYLES.iter().find_map(|(begins, word)| {
            Some((rest.strip_prefix(begins.escapes().render().to_string().as_str())?, *word))
        });
        if let Some((behind, word)) = begun {
            (style, rest) = (Some(word), behind);
        } else if let Some(sequence) = rest.strip_prefix('\u{1b}') {
            // The end of a style, or an unknown sequence.
            style = None;
            rest = sequence.split_once('m').map_or("", |(_, behind)| behind);
        } else {
            let end = rest.find('\u{1b}').unwrap_or(rest.len());
            spans.push(Span { style, text: rest[..end].to_owned() });
            rest = &rest[end..];
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_is_named_and_ends() {
        for (style, word) in STYLES {
            let text = format!("a {} b", style.paint("x"));
            let piece = |style, text: &str| Span { style, text: text.to_owned() };
            assert_eq!(spans(&text), [piece(None, "a "), piece(Some(word), "x"), piece(None, " b")]);
        }
    }

    #[test]
    fn nothing_is_lost_of_plain_text() {
        assert_eq!(spans("m [0m\n"), [Span { style: None, text: "m [0m\n".to_owned() }]);
        assert_eq!(spans(""), []);
    }
}
