//! Several manifests as one stream.

use serde_json::{Deserializer, Map, Value};

/// The texts, one after the other. A single one is unchanged; between several a marker separates documents, where
/// nothing does yet.
pub(super) fn join(texts: &[&str]) -> String {
    let [first, rest @ ..] = texts else { return String::new() };
    let mut out = (*first).to_owned();
    let all_json = texts.iter().all(|text| is_json(text));
    for text in rest {
        // A mark of the byte order belongs to the start of a stream.
        let text = text.trim_start_matches('\u{feff}');
        let newline = if out.contains("\r\n") { "\r\n" } else { "\n" };
        if !out.is_empty() && !out.ends_with('\n') {
            out.push_str(newline);
        }
        let is_comment = |line: &str| matches!(line.trim_start().chars().next(), None | Some('#'));
        let begin = text.lines().find(|line| !is_comment(line)).unwrap_or_default();
        if !all_json && !begin.starts_with("---") && !out.is_empty() {
            // A directive has to come after the end of a document.
            out.push_str(if begin.starts_with('%') { "..." } else { "---" });
            out.push_str(newline);
        }
        out.push_str(text);
    }
    out
}

/// Whether a text is a stream of JSON objects. YAML may begin with a brace too.
fn is_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    Deserializer::from_str(text).into_iter::<Map<String, Value>>().all(|object| object.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_several_files_are_distinguished() {
        let check = |texts: &[&str], expected: &str| assert_eq!(join(texts), expected, "{texts:?}");
        check(&["a: 1"], "a: 1");
        check(&["a: 1", "b: 2\n"], "a: 1\n---\nb: 2\n");
        check(&["a: 1\r\n", "\u{feff}---\nb: 2\n"], "a: 1\r\n---\nb: 2\n");
        check(&["{}\n", "{}\n"], "{}\n{}\n");
        check(&["a: 1\n", "{}\n"], "a: 1\n---\n{}\n");
        check(&["a: 1\n", "%YAML 1.1\n---\nb: 2\n"], "a: 1\n...\n%YAML 1.1\n---\nb: 2\n");
        check(&["a: 1\n", "# c\n\n%YAML 1.1\n---\nb\n"], "a: 1\n...\n# c\n\n%YAML 1.1\n---\nb\n");
        check(&["a: 1\n", "# c\n---\nb: 2\n"], "a: 1\n# c\n---\nb: 2\n");
        check(&["a: 1\n", "# c\nb: 2\n"], "a: 1\n---\n# c\nb: 2\n");
    }

    #[test]
    fn yaml_that_begins_with_a_brace_is_not_taken_for_json() {
        for texts in [["{a: 1}\n", "{b: 2}\n"], ["{}\n---\n{}\n", "{}\n"], ["{}\n{}\n", "{}\n"]] {
            let joined = join(&texts);
            let values = mesh::pod::values("joined", &joined).unwrap_or_else(|problems| panic!("{problems}"));
            let each = texts.iter().flat_map(|text| mesh::pod::values("text", text)).flatten();
            assert_eq!(values, each.collect::<Vec<_>>(), "{joined}");
        }
    }
}
