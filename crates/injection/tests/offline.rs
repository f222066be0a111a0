//! Documents are edited only where they change. Each case of `offline.txt` is a new value and a document; `UPDATE_GOLDENS=1`
//! writes the edited content.

use serde_json::{Value, json};

fn changed(text: &str, change: impl Fn(&mut Value)) -> injection::offline::Edited {
    let mut values = mesh::pod::values("file", text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    change(&mut values[0]);
    let done =
        injection::offline::edit("file", text, &values).unwrap_or_else(|problems| panic!("{problems}"));
    let back =
        mesh::pod::values("file", &done.text).unwrap_or_else(|problems| panic!("{problems}\n{}", done.text));
    assert_eq!(back, values, "{}", done.text);
    done
}

/// The first line of a case is the new value, the rest the document.
fn edited(case: &str) -> String {
    let (value, text) = case.split_once('\n').expect("a value and a document");
    let value: Value = serde_json::from_str(value).expect("JSON");
    let done = changed(text, |old| *old = value.clone());
    assert_eq!(done.rewritten, [0; 0], "{text}");
    done.text
}

#[test]
fn documents_are_edited_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/offline.txt");
    testkit::sections::answers(file, ", edited", edited);
}

#[test]
fn line_breaks_and_the_end_of_the_file_stay() {
    for (text, expected) in [
        ("\u{feff}a: 1\r\n", "\u{feff}a: 1\r\nb:\r\n  c:\r\n    - 1\r\n"),
        ("a: 1", "a: 1\nb:\n  c:\n    - 1"),
        ("\u{feff}{\"a\": 3}", "\u{feff}{\"a\":3,\"b\":{\"c\":[1]}}"),
        (
            "{\r\n  \"a\": 1\r\n}\r\n",
            "{\r\n  \"a\": 1,\r\n  \"b\": {\r\n    \"c\": [\r\n      1\r\n    ]\r\n  }\r\n}\r\n",
        ),
    ] {
        let done = changed(text, |value| value["b"] = json!({"c": [1]}));
        assert_eq!((done.text.as_str(), &done.rewritten[..]), (expected, &[][..]));
    }
}

#[test]
fn documents_that_cannot_be_edited_are_rewritten_between_their_markers() {
    let text = "x: [ 1 ]   # left\n...\n# about\n%YAML 1.1\n--- # one\nl: &l {app: web, x: z}\nm: {<<: *l} # lost\n...\n---\ny:  2\n";
    let mut values = mesh::pod::values("file", text).expect("YAML");
    values[1]["m"].as_object_mut().expect("a mapping").remove("app");
    let done = injection::offline::edit("file", text, &values).expect("written");
    let expected = "x: [ 1 ]   # left\n...\n# about\n%YAML 1.1\n---\nl:\n  app: web\n  x: z\nm:\n  x: z\n...\n---\ny:  2\n";
    assert_eq!((done.text.as_str(), &done.rewritten[..]), (expected, &[1][..]));
}

#[test]
fn comments_before_rewritten_documents_stay() {
    for head in
        ["\u{feff}# about\n\n  # more\n", "\u{feff}", "# about\n", "\u{feff}---\n", "\u{feff}# about\n---\n"]
    {
        let done =
            changed(&format!("{head}l: &l {{app: web, x: z}}\nm: {{<<: *l}} # lost\n# lost\n"), |value| {
                value["m"].as_object_mut().expect("a mapping").remove("app");
            });
        let expected = format!("{head}l:\n  app: web\n  x: z\nm:\n  x: z\n");
        assert_eq!((done.text, &done.rewritten[..]), (expected, &[0][..]));
    }
}
