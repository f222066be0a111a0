//! YAML as people write it is read as kubectl reads it, and what is refused is reported with its place and a remedy.

use mesh::pod::values;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

#[test]
fn brackets_and_quotes_may_hang_anywhere() {
    let check =
        |text: &str, expected: Value| assert_eq!(values("file", text), Ok(vec![expected]), "{text:?}");
    let lists = json!([{"name": "a", "command": ["sh", "-c"]}]);
    check("- name: a\n  command: [\n    \"sh\", \"-c\",\n  ]\n", lists.clone());
    check("- name: a\n  command: [\n    sh,\n    -c\n]\n", lists.clone());
    check("- name: a\n  command: [\n  sh, # [ '\n\n-c\n  ]  # done\n", lists.clone());
    check("- name: a\r\n  command: [sh,\r\n  \"-c\"]\r\n", lists);
    check("a:\n  b: {c: 1,\n  d: [\n]}\n  e: f\n", json!({"a": {"b": {"c": 1, "d": []}, "e": "f"}}));
    check("a:\n  b: \"x\n  y\n\nz\"\n  c: 'q\n ''r'\n", json!({"a": {"b": "x y\nz", "c": "q 'r"}}));
    check("a:\n  b: \"x\\\ny\"\n", json!({"a": {"b": "xy"}}));
    check("name:\tA\n", json!({"name": "A"}));
    check("a: |\n  [\n  ---\n  '\nb: [\n]\n", json!({"a": "[\n---\n'\n", "b": []}));
    check("\u{feff}a: {\"b\":\"\\ud83d\\ude00\"\n}\n", json!({"a": {"b": "\u{1f600}"}}));
    check("a: &x [\n1]\nb: *x\n", json!({"a": [1], "b": [1]}));
    check(
        "a: &x {c: 1,\nd: 2}\nb:\n  <<: *x\n  d: 3\n",
        json!({"a": {"c": 1, "d": 2}, "b": {"c": 1, "d": 3}}),
    );
    check(
        "a: {b: , c: }\nd:\ne: &x\nf: ''\n",
        json!({"a": {"b": null, "c": null}, "d": null, "e": null, "f": ""}),
    );
}

#[test]
fn a_fault_behind_a_hanging_bracket_has_its_true_place() {
    let text = "a:\n  b: [ # é\n  \"x\n\",\n  ]\n  b: 1\n";
    let problems = values("file", text).expect_err("a key twice").to_string();
    assert!(
        problems.contains("line 6, column 3: the key \"b\" is repeated; the first is at line 2, column 3"),
        "{problems}"
    );
}

#[test]
fn what_is_refused_comes_with_a_remedy() {
    let check = |text: &str, place: &str, remedy: &str| {
        let problems = values("file", text).expect_err(text).to_string();
        assert!(
            problems.contains(&format!("{place}: ")) && problems.contains(remedy),
            "{text:?}: {problems}"
        );
    };
    check("a:\n\tb: 1\n", "line 2, column 2", "; indent with spaces instead of tabs");
    check(
        "a:\n  b: 1\n\tc: 2\n",
        "line 2, column 6",
        "; indent the lines behind it with spaces instead of tabs",
    );
    check("a: [1, 2\nb: 3\n", "line 2, column 2", "and close each bracket");
    check("a: {b: 1\nc: 2\n", "line 2, column 2", "and close each bracket");
    check("a: [1,,2]\n", "line 1, column 7", "; put one comma between");
    check("a: [b}\n", "line 1, column 4", "; close brackets in the order");
    check("a: [\n---\n]\n", "line 1, column 4", "; close it with ]");
    check("a: 'x\nb: y\n", "line 1, column 4", "; end the text with the quote");
    check("a: 'it's'\n", "line 1, column 8", "; write a quote within single quotes twice");
    check("a: \"\\d+\"\n", "line 1, column 4", "; write the backslash twice");
    check("a: b: c\n", "line 1, column 5", "write a text that has a colon and a space in it in quotes");
    check("a:b\nc: d\n", "line 2, column 2", "with a space behind the colon");
    check("a:\n   b: 1\n  c: 2\n", "line 3, column 3", "; begin what is of one level in one column");
    check("a: [-, x]\n", "line 1, column 5", "a text that is a dash in quotes");
    check("a: {{ .Values.x }}\n", "line 1, column 5", "fill templates in before");
    check("a: @x\n", "line 1, column 4", "; write a text that begins with @ in quotes");
    check("a: \u{7}\n", "line 1, column 4", "; leave it out, or write its escape");
    check("a: *\n", "line 1, column 4", "; write a text that begins with * or & in quotes");
    check("a: {{- if .x }}\n", "line 1, column 6", "fill templates in before");
    check("a: *x\n", "line 1, column 4", "; set the anchor (&name) before");
    check("a: - b\n", "line 1, column 4", "; begin the list on a new line");
    check("a: x # c\n  y\n", "line 1, column 6", "; write the comment before the text");
    check("a: \"x\" y\n", "line 1, column 8", "; write a quote within double quotes as \\\"");
    check("a: \"x\"#c\n", "line 1, column 7", "; write a space before the #");
    check("a: |x\n  y\n", "line 1, column 4", "; begin the text on the line below");
    check("a: |\n    \n  b\n", "line 3, column 3", "; take the spaces out of the empty lines");
    check("a: &\n", "line 1, column 4", "; write a text that begins with * or & in quotes");
    check("a\nb: c\n", "line 2, column 2", "with a space behind the colon");
    check("- a\nb\n", "line 2, column 1", "; write a space behind a dash, and a colon");
    check("[a]\nb\n", "line 2, column 1", "; write --- between documents");
    check("a: [b]c\n", "line 1, column 7", "write nothing behind a bracket that closes");
    check("a: b\n  c: d\n", "line 2, column 4", "; begin keys of one level in one column");
    check("a: {b: c]\n", "line 1, column 4", "; close brackets in the order");
    check("a: ]\n", "line 1, column 4", "; close brackets in the order");
    check("a: {b: c\n", "line 1, column 4", "; close it with }");
    check("a: [- b]\n", "line 1, column 5", "in brackets, write items without dashes");
    check("a: 1\n---\n\u{feff}b: 1\n", "line 3, column 1", "; save the file without a byte order mark");
}

/// Writes a value in lines, and what is in brackets or quotes with breaks and comments wherever one is allowed.
struct Writer {
    text: String,
    choices: std::iter::Cycle<std::vec::IntoIter<u8>>,
}

impl Writer {
    fn choose(&mut self, of: usize) -> usize {
        usize::from(self.choices.next().expect("it never ends")) % of
    }

    fn one_of(&mut self, texts: &[&str]) {
        let at = self.choose(texts.len());
        self.text += texts[at];
    }

    fn block(&mut self, value: &Value, column: usize) {
        let indent = format!("\n{}", " ".repeat(column));
        match value {
            Value::Object(map) if !map.is_empty() && self.choose(3) > 0 => {
                for (key, value) in map {
                    self.text += &format!("{indent}{key}:");
                    self.block(value, column + 2);
                }
            }
            Value::Array(items) if !items.is_empty() && self.choose(3) > 0 => {
                for item in items {
                    self.text += &format!("{indent}-");
                    self.block(item, column + 2);
                }
            }
            other => {
                self.text.push(' ');
                self.flow(other);
                self.one_of(&[" # ] it's \"", "", "  "]);
            }
        }
    }

    fn flow(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.text.push('[');
                for item in items {
                    self.gap();
                    self.flow(item);
                    self.gap();
                    self.text.push(',');
                }
                self.gap();
                self.text.push(']');
            }
            Value::Object(map) => {
                self.text.push('{');
                for (key, value) in map {
                    self.gap();
                    self.text += &format!("{key}: ");
                    self.gap();
                    self.flow(value);
                    self.gap();
                    self.text.push(',');
                }
                self.gap();
                self.text.push('}');
            }
            Value::String(text) => {
                let double = self.choose(2) > 0;
                self.text.push(if double { '"' } else { '\'' });
                for c in text.chars() {
                    match c {
                        ' ' => self.fold(double),
                        '\'' if !double => self.text += "''",
                        '"' if double => self.text += "\\\"",
                        c => self.text.push(c),
                    }
                }
                self.text.push(if double { '"' } else { '\'' });
            }
            other => self.text += &other.to_string(),
        }
    }

    /// Between two marks in brackets.
    fn gap(&mut self) {
        self.one_of(&["", "", " ", "\n", "\r\n", " # [ it's \" {\n", "\n\n", "\n# }\n"]);
        self.indent();
    }

    /// A space within quotes.
    fn fold(&mut self, double: bool) {
        self.one_of(&[" ", "\n", "  \r\n", if double { "\\\n\\ " } else { " " }]);
        if self.text.ends_with('\n') {
            self.indent();
        }
    }

    fn indent(&mut self) {
        if self.text.ends_with('\n') {
            let width = self.choose(7);
            self.text += &" ".repeat(width);
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-zé#:,'\"{}|>-]{1,5}( [a-z#:,'\"\\[\\]&*-]{1,5}){0,3}".prop_map(Value::from),
        Just(json!("")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("k[a-z0-9]{0,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_written_in_any_style_is_read(value in value(), choices in prop::collection::vec(any::<u8>(), 1..99)) {
        let mut writer = Writer { text: "top:".to_owned(), choices: choices.into_iter().cycle() };
        writer.block(&value, 2);
        let text = writer.text + "\n";
        prop_assert_eq!(values("file", &text), Ok(vec![json!({"top": value})]), "{}", text);
    }
}
