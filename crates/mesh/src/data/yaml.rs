//! The only YAML writer, in block style, for reports, templates' `toYaml` and injected manifests. Only words are unquoted, as
//! YAML reads many strings as other types; other strings get double quotes, or single quotes to save escapes.

use super::{ScalarKind, Tree, TreeValue};

pub fn block(tree: &Tree) -> String {
    let mut out = String::new();
    match is_block(tree) {
        true => collection(&mut out, tree, 0),
        false => leaf(&mut out, tree, 0),
    }
    out
}

fn is_block(tree: &Tree) -> bool {
    !tree.items().is_empty() || !tree.fields().is_empty()
}

fn value(out: &mut String, tree: &Tree, depth: usize) {
    if is_block(tree) {
        out.push('\n');
        collection(out, tree, depth);
    } else {
        out.push(' ');
        leaf(out, tree, depth);
    }
}

fn leaf(out: &mut String, tree: &Tree, depth: usize) {
    match &tree.value {
        TreeValue::Scalar { text, kind: ScalarKind::Text } if has_plain_lines(text) => {
            return lines(out, text, depth);
        }
        TreeValue::Scalar { text, kind: ScalarKind::Text } => scalar(out, text),
        _ => out.push_str(&serde_json::to_string(tree).expect("a number or nothing is JSON")),
    }
    out.push('\n');
}

/// True for printable lines that fit a block scalar, such as a file in a ConfigMap.
fn has_plain_lines(text: &str) -> bool {
    let is_print = |c: char| c == ' ' || c.is_ascii_graphic();
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.starts_with([' ', '\n'])
        && !body.ends_with('\n')
        && body.split('\n').all(|line| line.chars().all(is_print) && !line.ends_with(' '))
}

fn lines(out: &mut String, text: &str, depth: usize) {
    out.push_str(if text.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in text.lines() {
        if !line.is_empty() {
            indent(out, depth.max(1));
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn collection(out: &mut String, tree: &Tree, depth: usize) {
    for (index, (key, tree)) in tree.fields().iter().enumerate() {
        if index > 0 || !out.ends_with("- ") {
            indent(out, depth);
        }
        scalar(out, key);
        out.push(':');
        value(out, tree, depth + 1);
    }
    for item in tree.items() {
        indent(out, depth);
        out.push('-');
        if item.fields().is_empty() {
            value(out, item, depth + 1);
        } else {
            out.push(' ');
            collection(out, item, depth + 1);
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

const WORDS: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan"];

/// Writes a string on one line: plain if it can't be read as another type, otherwise in quotes.
fn scalar(out: &mut String, text: &str) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || " _./-()+".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(is_word)
        && !text.ends_with(' ')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        return out.push_str(text);
    }
    // JSON in single quotes stays readable: its own quotes need no escapes.
    let is_single = text.contains(['"', '\\'])
        && !text.contains('\'')
        && text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    if is_single {
        return out.push_str(&format!("'{text}'"));
    }
    let quoted = serde_json::to_string(text).expect("text is JSON");
    for c in quoted.chars() {
        match c {
            // JSON leaves these unescaped; YAML forbids them or reads them as line breaks.
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reader::values;
    use super::*;
    use proptest::prelude::*;

    fn read_back(tree: &Tree) -> [serde_json::Value; 2] {
        let text = block(tree);
        let other = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
        let ours = values("file", &text).unwrap_or_else(|problems| panic!("{problems} in\n{text}"));
        [other, serde_json::Value::Array(ours)]
    }

    fn text() -> impl Strategy<Value = String> {
        let short = [
            "", " ", "no", "Null", "~", "1", "1e3", "0x1f", "0o17", "1_000", "12:30:45", ".inf", "-", "- a",
            "a: b", "a #b", "#", "---", "...", "%x", "@x", "`x`", "&x", "*x", "!x", "|", ">", "'", "\"",
            "\\", "a\nb", "a\nb\n", "---\nx", " a\nb", "a\nb\n\n", "a \nb", "\t", "a ", "\u{85}", "\u{2028}",
            "\u{7f}", "ü", "😀", "<<", "=", "[]", "{}", "a,b", "? a", "/", "\r", "\0", "y", "N", "On", "NaN",
            "+1", "e1", "a:", ":a", "a:b", "trueish", "null ",
        ];
        let odd = [
            "a: 1\n\n  - b #c\n",
            "%a\n...\n",
            "2026-11-22",
            "\u{feff}x",
            "/run/netns/x",
            "-o lo -j RETURN",
            "0.0.0.0/0",
        ];
        prop_oneof![
            3 => proptest::sample::select([&short[..], &odd].concat()).prop_map(str::to_owned),
            2 => "[a-zA-Z0-9 _./:#,'\"\\\\{}\\[\\]&*!|>%@`?=~+-]{0,12}",
            1 => proptest::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter),
        ]
    }

    fn of_text(text: String) -> Tree {
        Tree::scalar(text, ScalarKind::Text)
    }

    fn tree() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            "null|true|false|-?[1-9][0-9]{0,17}".prop_map(|json| Tree::read(&json)),
            text().prop_map(of_text),
            text().prop_map(of_text),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            let key = text().prop_filter("our reader merges a quoted << too", |key| key != "<<");
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Tree::list),
                proptest::collection::btree_map(key, inner, 0..4).prop_map(Tree::map),
            ]
        })
    }

    proptest! {
        #[test]
        fn written_yaml_reads_back(tree in tree()) {
            let expected = serde_json::to_value(&tree).expect("data");
            prop_assert_eq!(read_back(&tree), [expected.clone(), serde_json::json!([expected])], "{}", block(&tree));
        }
    }

    #[test]
    fn strings_are_plain_quoted_or_block_scalars() {
        for (text, expected) in [
            ("a b", "a b\n"),
            ("/run/x", "/run/x\n"),
            ("a_b.c/d-e()+", "a_b.c/d-e()+\n"),
            ("a ", "\"a \"\n"),
            ("No", "\"No\"\n"),
            ("1", "\"1\"\n"),
            ("-x", "\"-x\"\n"),
            ("a: b", "\"a: b\"\n"),
            ("", "\"\"\n"),
            ("a\"b", "'a\"b'\n"),
            ("a\\b", "'a\\b'\n"),
            ("it's \"x\"", "\"it's \\\"x\\\"\"\n"),
            ("a\t\"b", "\"a\\t\\\"b\"\n"),
            ("it's", "\"it's\"\n"),
            ("ü\"", "\"ü\\\"\"\n"),
            ("\u{85}", "\"\\u0085\"\n"),
            ("a\nb", "|-\n  a\n  b\n"),
            ("a\nb\n", "|\n  a\n  b\n"),
            ("a\n\n  b", "|-\n  a\n\n    b\n"),
            ("a\n", "\"a\\n\"\n"),
            (" a\nb", "\" a\\nb\"\n"),
            ("\na", "\"\\na\"\n"),
            ("a \nb", "\"a \\nb\"\n"),
            ("a\nb\n\n", "\"a\\nb\\n\\n\"\n"),
            ("a\tb\nc", "\"a\\tb\\nc\"\n"),
        ] {
            assert_eq!(block(&of_text(text.to_owned())), expected, "{text:?}");
        }
    }

    #[test]
    fn nested_collections_are_indented() {
        for (json, expected) in [
            ("[]", "[]\n"),
            ("{}", "{}\n"),
            ("null", "null\n"),
            (r#"{"a":{"b":"x\ny","c":{}}}"#, "a:\n  b: |-\n    x\n    y\n  c: {}\n"),
            (r#"["x\ny",{"a":"x\ny","b":[1]},[[2],{}]]"#, LISTS),
        ] {
            assert_eq!(block(&Tree::read(json)), expected, "{json}");
        }
    }

    const LISTS: &str = "\
- |-
  x
  y
- a: |-
    x
    y
  b:
    - 1
-
  -
    - 2
  - {}
";
}
