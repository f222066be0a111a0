//! Documents are edited where they change, and nowhere else.

use serde_json::{Value, json};

fn set(value: &mut Value, pointer: &str, new: Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = value.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} has a parent"));
    match parent {
        Value::Object(fields) => {
            fields.insert(key.replace("~1", "/"), new);
        }
        Value::Array(items) => items.insert(key.parse().expect("a number"), new),
        other => panic!("{pointer}: {other}"),
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    match value.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(key).expect("a field")),
        Some(Value::Array(items)) => drop(items.remove(key.parse::<usize>().expect("a number"))),
        other => panic!("{pointer}: {other:?}"),
    }
}

/// The text after a change of its first document's value.
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

fn check(text: &str, change: impl Fn(&mut Value), expected: &str) {
    let done = changed(text, change);
    assert_eq!(done.text, expected, "got:\n{}", done.text);
    assert_eq!(done.rewritten, [0; 0]);
}

const POD: &str = "\
# a pod
apiVersion: v1
kind: Pod
metadata:
  name: web   # its name
  annotations:
    # who pays
    team: 'blue'
spec:
  containers:
    # the app
    - name: app
      image: \"example/app:1\"   # pinned
      args: [a, b]
      # resources: later

    - name: log
      image: example/log
  # the end
  volumes: []
# done
---
kind:   Other   # as it is
";

#[test]
fn what_is_put_in_stands_where_it_belongs() {
    let proxy = json!({"name": "proxy", "image": "example/proxy", "args": ["x"], "ports": []});
    let change = |pod: &mut Value| {
        set(pod, "/metadata/annotations/status", json!("{\"a\":1}"));
        set(pod, "/metadata/labels", json!({"app": "web"}));
        set(pod, "/spec/containers/0", proxy.clone());
        set(pod, "/spec/containers/3", proxy_named("last"));
        set(pod, "/spec/containers/1/args/2", json!("c d"));
        set(pod, "/spec/containers/1/env", json!([{"name": "A", "value": "1"}]));
        set(pod, "/spec/volumes", json!([{"name": "v", "emptyDir": {}}]));
    };
    let expected = "\
# a pod
apiVersion: v1
kind: Pod
metadata:
  name: web   # its name
  annotations:
    # who pays
    team: 'blue'
    status: '{\"a\":1}'
  labels:
    app: web
spec:
  containers:
    # the app
    - name: proxy
      args:
        - x
      image: example/proxy
      ports: []
    - name: app
      image: \"example/app:1\"   # pinned
      args: [a, b, c d]
      env:
        - name: A
          value: \"1\"
      # resources: later

    - name: log
      image: example/log
    - name: last
  # the end
  volumes:
    - name: v
      emptyDir: {}
# done
---
kind:   Other   # as it is
";
    check(POD, change, expected);
}

fn proxy_named(name: &str) -> Value {
    json!({"name": name})
}

#[test]
fn what_goes_takes_no_other_line_with_it() {
    let change = |pod: &mut Value| {
        remove(pod, "/spec/containers/0/args");
        remove(pod, "/spec/containers/1");
        set(pod, "/metadata/name", json!("yes"));
    };
    let expected = POD
        .replace("      args: [a, b]\n", "")
        .replace("\n    - name: log\n      image: example/log\n", "\n")
        .replace("name: web ", "name: \"yes\" ");
    check(POD, change, &expected);
}

#[test]
fn comments_above_an_item_that_moves_stay_where_they_are() {
    let text = "a:\n- name: k # one\n# about l\n- name: l\n  v: 1\n- name: m\nb: 1\n";
    let change = |value: &mut Value| {
        *value = json!({"a": [{"name": "l", "v": 2}, {"name": "k"}, {"name": "m"}], "b": 1});
    };
    check(text, change, "a:\n- name: l\n  v: 2\n- name: k # one\n# about l\n- name: m\nb: 1\n");
}

#[test]
fn brackets_stay_brackets() {
    let change = |value: &mut Value| {
        set(value, "/labels/b~1c", json!("d"));
        set(value, "/list/0", json!("first"));
        set(value, "/empty/k", json!("v"));
    };
    check(
        "labels: {app: web} # c\nlist: [ x ,y, ]\nempty: {}  # e\n",
        change,
        "labels: {app: web, b/c: d} # c\nlist: [ first, x ,y, ]\nempty:  # e\n  k: v\n",
    );
    let long = "x".repeat(100);
    check(
        "list: [a] # c\n",
        |value| set(value, "/list/1", json!(long)),
        &format!("list: # c\n  - a\n  - {long}\n"),
    );
}

#[test]
fn brackets_that_hang_stay_where_they_are() {
    let text = "\
a:
- é: [ # [
\"x
y\",
  ]
  b: 'z
 ü'   # it's
  c: {d: 1,
  e: [
  ]}
f:\tg
";
    check(
        text,
        |value| set(value, "/a/0/b", json!("new")),
        &text.replace("'z\n ü'   # it's", "new   # it's"),
    );
    check(text, |value| set(value, "/a/0/c/e/0", json!(2)), &text.replace("e: [\n  ]}", "e: [2]}"));
}

#[test]
fn ends_of_lines_and_of_the_text_stay_as_they_are() {
    let change = |value: &mut Value| set(value, "/b", json!({"c": [1]}));
    check("\u{feff}a: 1\r\n", change, "\u{feff}a: 1\r\nb:\r\n  c:\r\n    - 1\r\n");
    check("a: 1", change, "a: 1\nb:\n  c:\n    - 1");
    check("a: |\n  x\n  y\n", change, "a: |\n  x\n  y\nb:\n  c:\n    - 1\n");
    check(
        "a:\n- - |\n    x\n- word # z\n",
        |value| set(value, "/a", json!([[], "word"])),
        "a:\n- []\n- word # z\n",
    );
    check("a: |+\n  x\n\n...\n", change, "a: |+\n  x\n\nb:\n  c:\n    - 1\n...\n");
    check("é: 'ü' # ö\nb:   # none\n", change, "é: 'ü' # ö\nb:   # none\n  c:\n    - 1\n");
}

#[test]
fn aliases_are_written_out_where_they_change() {
    let text = "l: &l\n  app: web\nm: *l # same\np: {<<: *l, x: z}\n";
    check(
        text,
        |value| set(value, "/m/k", json!("v")),
        "l: &l\n  app: web\nm: # same\n  app: web\n  k: v\np: {<<: *l, x: z}\n",
    );
    check(
        text,
        |value| set(value, "/p/app", json!("api")),
        "l: &l\n  app: web\nm: *l # same\np: {<<: *l, x: z, app: api}\n",
    );
    // The anchor's own value changes, those of its aliases don't.
    let text = "l: &l\n  app: web\nm: *l # same\n";
    check(text, |value| set(value, "/l/k", json!("v")), "l: &l\n  app: web\n  k: v\nm: # same\n  app: web\n");
    check("a: &x 1\nb: *x\n", |value| *value = json!({"a": 2, "b": 2}), "a: &x 2\nb: 2\n");
}

#[test]
fn what_can_not_be_edited_is_written_again_between_its_marks() {
    let text = "x: [ 1 ]   # left\n...\n# about\n%YAML 1.1\n--- # one\nl: &l {app: web, x: z}\nm: {<<: *l} # lost\n...\n---\ny:  2\n";
    let mut values = mesh::pod::values("file", text).expect("YAML");
    remove(&mut values[1], "/m/app");
    let done = injection::offline::edit("file", text, &values).expect("written");
    let expected = "x: [ 1 ]   # left\n...\n# about\n%YAML 1.1\n---\nl:\n  app: web\n  x: z\nm:\n  x: z\n...\n---\ny:  2\n";
    assert_eq!((done.text.as_str(), &done.rewritten[..]), (expected, &[1][..]));
}

#[test]
fn comments_before_what_is_written_again_stay() {
    for head in
        ["\u{feff}# about\n\n  # more\n", "\u{feff}", "# about\n", "\u{feff}---\n", "\u{feff}# about\n---\n"]
    {
        let done =
            changed(&format!("{head}l: &l {{app: web, x: z}}\nm: {{<<: *l}} # lost\n# lost\n"), |value| {
                remove(value, "/m/app");
            });
        let expected = format!("{head}l:\n  app: web\n  x: z\nm:\n  x: z\n");
        assert_eq!((done.text, &done.rewritten[..]), (expected, &[0][..]));
    }
}

#[test]
fn json_keeps_its_order_and_its_indentation() {
    let change = |value: &mut Value| {
        set(value, "/labels/b~1c", json!("d"));
        set(value, "/list/0", json!({"k": 1, "name": "first"}));
    };
    check(
        "{\n\t\"list\": [\n\t\t{\"name\": \"x\", \"a\": 1}\n\t],\n\t\"labels\": {\"app\": \"web\"}\n}\n",
        change,
        "{\n\t\"list\": [\n\t\t{\n\t\t\t\"name\": \"first\",\n\t\t\t\"k\": 1\n\t\t},\n\t\t{\n\t\t\t\"name\": \"x\",\n\t\t\t\"a\": 1\n\t\t}\n\t],\n\t\
         \"labels\": {\n\t\t\"app\": \"web\",\n\t\t\"b/c\": \"d\"\n\t}\n}\n",
    );
    check("\u{feff}{\"b\": [1, 2], \"a\": 3}", |value| remove(value, "/b/1"), "\u{feff}{\"b\":[1],\"a\":3}");
    check(
        "{\r\n  \"a\": 1\r\n}\r\n",
        |value| set(value, "/b", json!(2)),
        "{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}\r\n",
    );
}

#[test]
fn streams_of_json_are_split() {
    check(
        "{\"a\": 1}\n{\"b\":  2}\n",
        |value| set(value, "/c", json!("d")),
        "{\"a\":1,\"c\":\"d\"}\n{\"b\":  2}\n",
    );
}

#[test]
fn keys_of_json_keep_their_order_in_items_of_lists() {
    let pod = r#"{"kind":"Pod","spec":{"containers":[{"image":"x","name":"a"},{"image":"y","args":[]}]}}"#;
    let expected =
        r#"{"kind":"Pod","spec":{"containers":[{"image":"x","name":"a"},{"image":"z","args":[]}]}}"#;
    check(pod, |pod| set(pod, "/spec/containers/1/image", json!("z")), expected);
    // Items are known by their names, wherever they are now.
    let pod = r#"{"kind":"Pod","spec":{"containers":[{"image":"x","name":"a"},{"name":"b","image":"y"}]}}"#;
    let expected = r#"{"kind":"Pod","spec":{"containers":[{"name":"p"},{"image":"x","name":"a"},{"name":"b","image":"y"}]}}"#;
    check(pod, |pod| set(pod, "/spec/containers/0", json!({"name": "p"})), expected);
}
