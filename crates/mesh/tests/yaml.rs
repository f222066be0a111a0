//! Hand-written YAML is read as in kubectl; errors have a position and a remedy.

use mesh::pod::values;
use serde_json::{Value, json};

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
    let merged = json!({"a": {"c": 1, "d": 2}, "b": {"c": 1, "d": 3}});
    check("a: &x {c: 1,\nd: 2}\nb:\n  <<: *x\n  d: 3\n", merged);
    let nulls = json!({"a": {"b": null, "c": null}, "d": null, "e": null, "f": ""});
    check("a: {b: , c: }\nd:\ne: &x\nf: ''\n", nulls);
}

#[test]
fn fault_after_a_hanging_bracket_has_its_position() {
    let text = "a:\n  b: [ # é\n  \"x\n\",\n  ]\n  b: 1\n";
    let problems = values("file", text).expect_err("a key twice").to_string();
    let expected = "line 6, column 3: the key \"b\" is repeated; the first is at line 2, column 3";
    assert!(problems.contains(expected), "{problems}");
}

#[test]
fn refusals_have_a_remedy() {
    let check = |text: &str, place: &str, remedy: &str| {
        let problems = values("file", text).expect_err(text).to_string();
        let is_told = problems.contains(&format!("{place}: ")) && problems.contains(remedy);
        assert!(is_told, "{text:?}: {problems}");
    };
    check("a:\n\tb: 1\n", "line 2, column 2", "; indent with spaces instead of tabs");
    check("a:\n  b: 1\n\tc: 2\n", "line 2, column 6", "; indent the following lines with spaces");
    check("a: [1, 2\nb: 3\n", "line 2, column 2", "and close each bracket");
    check("a: {b: 1\nc: 2\n", "line 2, column 2", "and close each bracket");
    check("a: [1,,2]\n", "line 1, column 7", "; put one comma between");
    check("a: [b}\n", "line 1, column 4", "; close brackets in the order");
    check("a: [\n---\n]\n", "line 1, column 4", "; close it with ]");
    check("a: 'x\nb: y\n", "line 1, column 4", "; end the string with the quote");
    check("a: 'it's'\n", "line 1, column 8", "; double a quote within single quotes");
    check("a: \"\\d+\"\n", "line 1, column 4", "; double the backslash");
    check("a: b: c\n", "line 1, column 5", "quote a string that contains a colon and a space");
    check("a:b\nc: d\n", "line 2, column 2", "with a space after the colon");
    check("a:\n   b: 1\n  c: 2\n", "line 3, column 3", "; align the entries of one level");
    check("a: [-, x]\n", "line 1, column 5", "quote a string that is a dash");
    check("a: {{ .Values.x }}\n", "line 1, column 5", "render templates first");
    check("a: @x\n", "line 1, column 4", "; quote a string that begins with @");
    check("a: \u{7}\n", "line 1, column 4", "; remove it, or write its escape");
    check("a: *\n", "line 1, column 4", "; quote a string that begins with * or &");
    check("a: {{- if .x }}\n", "line 1, column 6", "render templates first");
    check("a: *x\n", "line 1, column 4", "; define the anchor (&name) before");
    check("a: - b\n", "line 1, column 4", "; begin the list on a new line");
    check("a: x # c\n  y\n", "line 1, column 6", "; move the comment before");
    check("a: \"x\" y\n", "line 1, column 8", "; write a quote within double quotes as \\\"");
    check("a: \"x\"#c\n", "line 1, column 7", "; put a space before the #");
    check("a: |x\n  y\n", "line 1, column 4", "; begin the string on the next line");
    check("a: |\n    \n  b\n", "line 3, column 3", "; remove the spaces from the empty lines");
    check("a: &\n", "line 1, column 4", "; quote a string that begins with * or &");
    check("a\nb: c\n", "line 2, column 2", "with a space after the colon");
    check("- a\nb\n", "line 2, column 1", "; put a space after a dash, and a colon");
    check("[a]\nb\n", "line 2, column 1", "; put --- between documents");
    check("a: [b]c\n", "line 1, column 7", "put nothing after a closing bracket");
    check("a: b\n  c: d\n", "line 2, column 4", "; align the keys of one level");
    check("a: {b: c]\n", "line 1, column 4", "; close brackets in the order");
    check("a: ]\n", "line 1, column 4", "; close brackets in the order");
    check("a: {b: c\n", "line 1, column 4", "; close it with }");
    check("a: [- b]\n", "line 1, column 5", "in brackets, write items without dashes");
    check("a: 1\n---\n\u{feff}b: 1\n", "line 3, column 1", "; save the file without a byte order mark");
}
