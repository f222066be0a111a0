//! Text for a terminal as pieces with names for their colours, which a style sheet knows.

use diagnose::Tone;
use serde::Serialize;

/// A piece of text in one tone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tone: Option<&'static str>,
    pub text: String,
}

/// Each tone with the word by which the style sheet knows it. Of tones whose sequences begin alike the longer comes first.
const TONES: [(Tone, &str); 5] = [
    (Tone::Captured, "captured"),
    (Tone::Passing, "passing"),
    (Tone::Dropped, "dropped"),
    (Tone::Strong, "strong"),
    (Tone::Quiet, "quiet"),
];

/// The pieces of a text. Their texts, one behind the other, are the text without its escape sequences.
pub(crate) fn spans(text: &str) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut tone = None;
    let mut rest = text;
    while !rest.is_empty() {
        let begun = TONES.iter().find_map(|(begins, word)| {
            Some((rest.strip_prefix(begins.style().render().to_string().as_str())?, *word))
        });
        if let Some((behind, word)) = begun {
            (tone, rest) = (Some(word), behind);
        } else if let Some(sequence) = rest.strip_prefix('\u{1b}') {
            // The end of a style, or an unknown sequence.
            tone = None;
            rest = sequence.split_once('m').map_or("", |(_, behind)| behind);
        } else {
            let end = rest.find('\u{1b}').unwrap_or(rest.len());
            spans.push(Span { tone, text: rest[..end].to_owned() });
            rest = &rest[end..];
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tone_is_told_and_ends() {
        for (tone, word) in TONES {
            let text = format!("a {} b", tone.paint("x"));
            let piece = |tone, text: &str| Span { tone, text: text.to_owned() };
            assert_eq!(spans(&text), [piece(None, "a "), piece(Some(word), "x"), piece(None, " b")]);
        }
    }

    #[test]
    fn nothing_is_lost_of_plain_text() {
        assert_eq!(spans("m [0m\n"), [Span { tone: None, text: "m [0m\n".to_owned() }]);
        assert_eq!(spans(""), []);
    }
}
