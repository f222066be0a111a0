//! Several manifests as one stream.

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
        if !all_json && !text.starts_with("---") && !out.is_empty() {
            // A directive has to come after the end of a document.
            out.push_str(if text.starts_with('%') { "..." } else { "---" });
            out.push_str(newline);
        }
        out.push_str(text);
    }
    out
}

fn is_json(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
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
    }
}
