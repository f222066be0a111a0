//! Lines, columns and comments around the bytes of a text, and changes of it.

use std::ops::Range;

/// A change: these bytes become this text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

/// A part of a text with all changes that lie in it. Of those at one place, what is put in comes first, in the order given.
pub(super) fn apply(text: &str, part: Range<usize>, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.range.start, !edit.range.is_empty()));
    let mut out = String::new();
    let mut at = part.start;
    for edit in edits {
        out.push_str(text.get(at..edit.range.start).unwrap_or_default());
        out.push_str(&edit.text);
        at = at.max(edit.range.end);
    }
    out.push_str(text.get(at..part.end).unwrap_or_default());
    out
}

/// Where the line of a byte begins.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    if text[start..].starts_with('\u{feff}') { start + '\u{feff}'.len_utf8() } else { start }
}

/// Where the next line begins; the text's end if there is none.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// Where the line of a byte ends, before what ends it.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    at + text[at..].find(['\r', '\n']).unwrap_or(text.len() - at)
}

/// How many characters stand before a byte in its line.
pub(super) fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].chars().count()
}

/// Whether nothing but space stands before it in its line.
pub(super) fn is_first(text: &str, at: usize) -> bool {
    text[line_start(text, at)..at].trim_matches([' ', '\t']).is_empty()
}

/// The space at the start of its line.
pub(super) fn indent(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// The number of its line, from 1.
pub(super) fn line_number(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Behind the line in which a value ends, and behind the lines after it that hold only comments of at least this column.
pub(super) fn behind(text: &str, end: usize, least: usize) -> usize {
    let mut found = if end > 0 && text[..end].ends_with('\n') { end } else { next_line(text, end) };
    let mut at = found;
    while at < text.len() {
        let next = next_line(text, at);
        let line = &text[at..next];
        let bare = line.trim_start_matches(' ');
        if bare.starts_with('#') && line.len() - bare.len() >= least {
            found = next;
        } else if !bare.trim().is_empty() {
            break;
        }
        at = next;
    }
    found
}

/// Where the comments begin that stand right above a line, at the same column; the line's start if there are none.
pub(super) fn above(text: &str, at: usize) -> usize {
    let mut start = line_start(text, at);
    let wanted = at - start;
    while start > 0 {
        let before = line_start(text, start - 1);
        let line = &text[before..start];
        let bare = line.trim_start_matches(' ');
        if !(bare.starts_with('#') && line.len() - bare.len() == wanted) {
            break;
        }
        start = before;
    }
    start
}
