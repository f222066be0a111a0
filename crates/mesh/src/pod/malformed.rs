//! Why a text is not YAML that we take: what is wrong, where, and what to write instead.
//!
//! The parser reports what it did not find. Authors want to know what to change, so the faults that people make
//! get a remedy.

use super::node::TextPosition;
use granit_parser::{ErrorKind, Marker, ScanError};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    place: Option<TextPosition>,
    text: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(f, "{place}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// How deep values may lie in each other.
pub(super) const DEEPEST: usize = 100;

impl From<ScanError> for Malformed {
    fn from(error: ScanError) -> Self {
        if *error.kind() == ErrorKind::RecursionLimitExceeded {
            return Self::too_deep(error.marker());
        }
        let fault = error.info();
        Self::at(
            error.marker(),
            match remedy(error.kind()) {
                Some(remedy) => format!("{fault}; {remedy}"),
                None => fault,
            },
        )
    }
}

impl Malformed {
    pub(super) fn at(marker: &Marker, text: impl Into<String>) -> Self {
        Self { place: Some(place(marker)), text: text.into() }
    }

    pub(super) fn too_deep(marker: &Marker) -> Self {
        Self::at(marker, format!("more than {DEEPEST} lists and mappings lie in each other"))
    }

    /// Of the text as a whole.
    pub(super) fn whole(text: impl Into<String>) -> Self {
        Self { place: None, text: text.into() }
    }
}

pub(super) fn place(marker: &Marker) -> TextPosition {
    TextPosition { line: marker.line(), column: marker.col() + 1 }
}

/// What to write instead. The parser has more kinds of faults than anybody makes.
fn remedy(kind: &ErrorKind) -> Option<String> {
    let remedy = match kind {
        ErrorKind::TabInIndentation
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabNotAllowed
        | ErrorKind::InvalidBlockEntryWhitespace
        | ErrorKind::InvalidMappingValueWhitespace => "indent with spaces instead of tabs",
        // Its place is where the text begins.
        ErrorKind::TabInPlainScalar => "indent the lines behind it with spaces instead of tabs",
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry => {
            "begin what is of one level in one column, and write nothing behind a bracket that closes"
        }
        ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::InvalidColonPlacement => {
            "put one comma between what is in brackets, and close each bracket"
        }
        ErrorKind::UnclosedFlowCollection { open } => {
            return Some(format!("close it with {}", if *open == '{' { '}' } else { ']' }));
        }
        ErrorKind::MismatchedFlowCollectionEnd { .. } | ErrorKind::MisplacedFlowCollectionEnd => {
            "close brackets in the order in which they open"
        }
        ErrorKind::BlockEntryInFlowCollection | ErrorKind::PlainScalarStartsWithDashFlowIndicator => {
            "in brackets, write items without dashes, and a text that is a dash in quotes; {{- begins a template: fill \
             templates in before"
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::DocumentIndicatorInQuotedScalar => {
            "end the text with the quote that it begins with"
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar => {
            "write a quote within single quotes twice, and nothing behind the last"
        }
        ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "write a quote within double quotes as \\\", and nothing behind the last"
        }
        ErrorKind::UnknownQuotedScalarEscape => {
            "write the backslash twice, or the text in single quotes, which know no escapes"
        }
        ErrorKind::MappingValueNotAllowed => {
            "begin keys of one level in one column, with a space behind the colon; write a text that has a colon and a \
             space in it in quotes"
        }
        ErrorKind::SimpleKeyExpected => "write a space behind a dash, and a colon and a space behind a key",
        ErrorKind::ExpectedDocumentStart => "write --- between documents, and a space behind a key's colon",
        ErrorKind::BlockSequenceEntryNotAllowed => "begin the list on a new line",
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => {
            "leave it out, or write its escape within double quotes"
        }
        ErrorKind::UnexpectedCharacter { character } => {
            return Some(format!("write a text that begins with {} in quotes", character.escape_default()));
        }
        ErrorKind::CommentNotSeparated => "write a space before the #",
        ErrorKind::CommentInterceptedScalar => {
            "write the comment before the text or behind it, or the text behind | or >"
        }
        ErrorKind::InvalidBlockScalarHeader => {
            "begin the text on the line below; write a text that begins with | or > in quotes"
        }
        ErrorKind::InvalidBlockScalarIndent => "take the spaces out of the empty lines that begin the text",
        ErrorKind::MissingAnchorOrAliasName => {
            "write a text that begins with * or & in quotes, such as \"*\""
        }
        ErrorKind::UnknownAnchor => {
            "set the anchor (&name) before it is used, in the same document; write a text that begins with * in quotes"
        }
        ErrorKind::BomInsideDocument => "save the file without a byte order mark",
        _ => return None,
    };
    Some(remedy.to_owned())
}
