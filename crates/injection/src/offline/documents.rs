//! The text of each document of a file.

use serde::de::IgnoredAny;

/// The mark of the byte order, which belongs to the file and to no document.
pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';

/// The texts of the documents, which together are the file; `None` if they are not as many as expected.
///
/// A document includes the comments and directives before its `---`.
pub(super) fn split(text: &str, expected: usize) -> Option<Vec<&str>> {
    let yaml = by_markers(text);
    if yaml.len() == expected {
        return Some(yaml);
    }
    by_objects(text).filter(|objects| objects.len() == expected)
}

/// Whether a line is this marker. At the start of a line, YAML allows it nowhere else, not even within a scalar.
pub(super) fn is_marker(line: &str, marker: &str) -> bool {
    let line = line.trim_start_matches(BYTE_ORDER_MARK);
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn by_markers(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    // Whether the document from `start` on has its marker or a value, and whether it is over.
    let (mut has_begun, mut is_over) = (false, false);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches(BYTE_ORDER_MARK);
        let is_comment = bare.trim_start().is_empty() || bare.trim_start().starts_with('#');
        let is_directive = bare.starts_with('%') && (is_over || !has_begun);
        let is_start = is_marker(line, "---");
        if (has_begun && is_start) || (is_over && !is_comment) {
            found.push(&text[start..at]);
            (start, has_begun, is_over) = (at, false, false);
        }
        if has_begun && is_marker(line, "...") {
            is_over = true;
        } else if !is_comment && !is_directive {
            has_begun = true;
        }
        at += line.len();
    }
    found.push(&text[start..]);
    found
}

/// The objects of a stream of JSON.
fn by_objects(text: &str) -> Option<Vec<&str>> {
    let begin = text.len() - text.trim_start_matches(BYTE_ORDER_MARK).len();
    let mut objects = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<IgnoredAny>();
    let mut starts = vec![0];
    while let Some(object) = objects.next() {
        object.ok()?;
        starts.push(begin + objects.byte_offset());
    }
    // What is after the last object belongs to it.
    *starts.last_mut()? = text.len();
    Some(starts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_documents_are_the_whole_file() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(split(text, expected.len()).as_deref(), Some(expected), "{text:?}");
            let read = mesh::pod::values("file", text).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(read.len(), expected.len(), "{text:?}");
            let each: Vec<_> =
                expected.iter().flat_map(|text| mesh::pod::values("file", text)).flatten().collect();
            assert_eq!(each, read, "{text:?}");
        };
        check("a: 1\n", &["a: 1\n"]);
        check("# c\n---\na: 1\n---\r\nb: 2", &["# c\n---\na: 1\n", "---\r\nb: 2"]);
        check("\u{feff}--- # c\na: 1\n---\tb\n", &["\u{feff}--- # c\na: 1\n", "---\tb\n"]);
        check("---\n---\na: ---\n ---\n", &["---\n", "---\na: ---\n ---\n"]);
        check("a: |\n  ---\n---x: 1\n", &["a: |\n  ---\n---x: 1\n"]);
        check(
            "%YAML 1.1\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n",
            &["%YAML 1.1\n---\na: 1\n...\n", "%YAML 1.1\n---\nb: 2\n"],
        );
        check("a: 1\n...\n# end\n", &["a: 1\n...\n# end\n"]);
        check("a: 1\n...\nb: 2\n...\n", &["a: 1\n...\n", "b: 2\n...\n"]);
        check(" {\"a\": 1}\n{\"b\": 2} {}\n", &[" {\"a\": 1}", "\n{\"b\": 2}", " {}\n"]);
        assert_eq!(split("a: 1\n", 2), None);
    }
}
