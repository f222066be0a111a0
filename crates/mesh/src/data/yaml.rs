//! Data as YAML in blocks: the one writer of YAML, for answers, templates' `toYaml`, and what is injected into manifests.
//!
//! No crate for it: those that are maintained write YAML by serde, need a newer Rust than ours, or bring a reader as well. What
//! is hard about YAML is to know which text is taken for something else. So only text that is nothing but words is plain; all
//! other text is in double quotes, as JSON has it, whose escapes are YAML's, or in single quotes where those save escapes.

use super::Tree;
use std::fmt::Write;

pub fn block(tree: &Tree) -> String {
    let mut out = String::new();
    match tree {
        Tree::List(items) if !items.is_empty() => list(&mut out, items, 0),
        Tree::Map(fields) if !fields.is_empty() => map(&mut out, fields, 0),
        other => leaf(&mut out, other, 0),
    }
    out
}

/// What follows the colon of a key or a dash, up to the end of its last line.
fn value(out: &mut String, tree: &Tree, depth: usize) {
    match tree {
        Tree::List(items) if !items.is_empty() => {
            out.push('\n');
            list(out, items, depth);
        }
        Tree::Map(fields) if !fields.is_empty() => {
            out.push('\n');
            map(out, fields, depth);
        }
        other => {
            out.push(' ');
            leaf(out, other, depth);
        }
    }
}

/// A scalar, or an empty list or map, up to the end of its last line.
fn leaf(out: &mut String, tree: &Tree, depth: usize) {
    match tree {
        Tree::Null => out.push_str("null"),
        Tree::Bool(is) => push(out, is),
        Tree::Number(number) => push(out, number),
        Tree::Text(text) if has_plain_lines(text) => return lines(out, text, depth),
        Tree::Text(text) => scalar(out, text),
        Tree::List(_) => out.push_str("[]"),
        Tree::Map(_) => out.push_str("{}"),
    }
    out.push('\n');
}

/// Whether a text is printable lines, which can be written as they are: a file in a ConfigMap.
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

fn map(out: &mut String, fields: &[(String, Tree)], depth: usize) {
    for (index, (key, tree)) in fields.iter().enumerate() {
        if index > 0 || !out.ends_with("- ") {
            indent(out, depth);
        }
        scalar(out, key);
        out.push(':');
        value(out, tree, depth + 1);
    }
}

fn list(out: &mut String, items: &[Tree], depth: usize) {
    for item in items {
        indent(out, depth);
        out.push('-');
        match item {
            // The first field follows the dash.
            Tree::Map(fields) if !fields.is_empty() => {
                out.push(' ');
                map(out, fields, depth + 1);
            }
            other => value(out, other, depth + 1),
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

fn push(out: &mut String, word: impl std::fmt::Display) {
    write!(out, "{word}").expect("text takes all");
}

/// What YAML 1.1 or 1.2 takes for something else than text.
const WORDS: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan"];

/// A text as a scalar in one line: plain if it can't be taken for anything else, otherwise in quotes.
fn scalar(out: &mut String, text: &str) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || " _./-()+".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(is_word)
        && !text.ends_with(' ')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        return out.push_str(text);
    }
    // JSON within a text is read more easily if its own quotes need no escapes.
    let is_single = text.contains(['"', '\\'])
        && !text.contains('\'')
        && text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    if is_single {
        return push(out, format_args!("'{text}'"));
    }
    let quoted = serde_json::to_string(text).expect("text is JSON");
    for c in quoted.chars() {
        match c {
            // JSON leaves them as they are; YAML does not, or takes them for ends of lines.
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                push(out, format_args!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a reader of YAML makes of it.
    fn read_back(tree: &Tree) -> serde_json::Value {
        let text = block(tree);
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
    }

    fn json(tree: &Tree) -> serde_json::Value {
        serde_json::to_value(tree).expect("data")
    }

    fn text() -> impl Strategy<Value = String> {
        let odd = [
            "",
            " ",
            "no",
            "Null",
            "~",
            "1",
            "1e3",
            "0x1f",
            "0o17",
            "1_000",
            "12:30:45",
            ".inf",
            "-",
            "- a",
            "a: b",
            "a #b",
            "#",
            "---",
            "...",
            "%x",
            "@x",
            "`x`",
            "&x",
            "*x",
            "!x",
            "|",
            ">",
            "'",
            "\"",
            "\\",
            "a\nb",
            "a\nb\n",
            "a: 1\n\n  - b #c\n",
            "---\nx",
            " a\nb",
            "a\nb\n\n",
            "a \nb",
            "%a\n...\n",
            "\t",
            "a ",
            "2026-11-22",
            "\u{85}",
            "\u{2028}",
            "\u{feff}x",
            "\u{7f}",
            "ü",
            "😀",
            "<<",
            "=",
            "[]",
            "{}",
            "a,b",
            "? a",
            "/run/netns/x",
            "/",
            "\r",
            "\0",
            "y",
            "N",
            "On",
            "NaN",
            "+1",
            "-o lo -j RETURN",
            "0.0.0.0/0",
            "e1",
            "a:",
            ":a",
            "a:b",
            "trueish",
            "null ",
        ];
        prop_oneof![
            3 => proptest::sample::select(odd.to_vec()).prop_map(str::to_owned),
            2 => "[a-zA-Z0-9 _./:#,'\"\\\\{}\\[\\]&*!|>%@`?=~+-]{0,12}",
            1 => proptest::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter),
        ]
    }

    fn tree() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            Just(Tree::Null),
            any::<bool>().prop_map(Tree::Bool),
            any::<i64>().prop_map(|number| Tree::Number(number.into())),
            text().prop_map(Tree::Text),
            text().prop_map(Tree::Text),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Tree::List),
                proptest::collection::btree_map(text(), inner, 0..4)
                    .prop_map(|fields| Tree::Map(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(tree in tree()) {
            prop_assert_eq!(read_back(&tree), json(&tree), "{}", block(&tree));
        }
    }

    #[test]
    fn texts_are_plain_quoted_or_lines_as_they_need_to_be() {
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
            assert_eq!(block(&Tree::Text(text.to_owned())), expected, "{text:?}");
        }
    }

    #[test]
    fn what_lies_in_each_other_is_indented() {
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
