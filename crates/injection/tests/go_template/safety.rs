//! Strings of a pod are never read as YAML, and harmless ones stay unchanged.

use super::world::World;
use serde_json::json;

const TEMPLATES: &[&str] = &[
    "a: \"{{ annotation .ObjectMeta `x` `` }}\"\nb: [1]\n",
    "a: '{{ annotation .ObjectMeta `x` `` }}'\nb: [1]\n",
    "a: {{ annotation .ObjectMeta `x` `` }}\nb: [1]\n",
    "a: x-{{ annotation .ObjectMeta `x` `` }}-y\nb: [1]\n",
    "a: {k: {{ annotation .ObjectMeta `x` `` }}, c: \"d\"}\nb: [1]\n",
    "a: {k: \"{{ annotation .ObjectMeta `x` `` }}\", c: \"d\"} \nb: [1]\n",
    "a: |\n  {{ annotation .ObjectMeta `x` `` }}\nb: [1]\n",
    "a: >-\n  {{ annotation .ObjectMeta `x` `` }}\nb: [1]\n",
    "a:\n- {{ annotation .ObjectMeta `x` `` }}\nb: [1]\n",
    "a:\n- {{ annotation .ObjectMeta `x` `` | trunc 8 }}\nb: [1]\n",
    "{{ annotation .ObjectMeta `x` `` }}: 1\nb: [1]\n",
    "a:\n{{ range splitList `,` (annotation .ObjectMeta `x` ``) }}- {{ . }}\n{{ end }}\nb: [1]\n",
    "a: {{ annotation .ObjectMeta `x` `` }} # {{ annotation .ObjectMeta `x` `` }}\nb: [1]\n",
    "a: \"{{ replace `.` `-` (annotation .ObjectMeta `x` ``) }}\"\nb: [1]\n",
    "a: \"{{ upper (annotation .ObjectMeta `x` ``) }}\"\nb: [1]\n",
    "a: \"{{ lower (annotation .ObjectMeta `x` ``) | upper }}\"\nb: [1]\n",
    "a: {{ with .Values.none }}{{ else with annotation .ObjectMeta `x` `` }}{{ . }}{{ end }}\nb: [1]\n",
    "a: '{{ index .ObjectMeta.GetAnnotations `x` }}'\nb: [1]\n",
];

/// Strings of a pod that try to add fields.
const TEXTS: &[&str] = &[
    "v\"\nprivileged: true\nz: \"",
    "v'\nprivileged: true\nz: '",
    "v\nprivileged: true",
    "v\n  privileged: true",
    "v\"\n- privileged: true\n- \"",
    "v, privileged: true",
    "v\", privileged: true, z: \"",
    "v\", c: \"evil\"} #",
    "{privileged: true}",
    "[privileged]",
    "&x {privileged: true}",
    "*x",
    "!!map {privileged: true}",
    "|\n  x",
    "> x",
    "privileged: true",
    "privileged:",
    "? privileged",
    "- privileged",
    "---\nprivileged: true",
    "...\nprivileged: true",
    "x #",
    "# x",
    "\u{85}privileged: true",
    "\u{2028}privileged: true",
    "\r\nprivileged: true",
    "\\\" , privileged: true",
    "\\x22\\x0aprivileged",
    "%YAML 1.2",
    "@x",
    "`x`",
    "\u{f0022}\u{f000a}privileged\u{f003a} true",
    "\u{feff}x",
    "x\0y",
];

fn keys(value: &serde_json::Value, all: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                all.push(key.clone());
                keys(value, all);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, all)),
        _ => {}
    }
}

#[test]
fn no_text_of_a_pod_becomes_structure() {
    let (mut refused, mut filled) = (0, 0);
    let mut world = World::new();
    for template in TEMPLATES {
        for text in TEXTS {
            world.pod["metadata"]["annotations"]["x"] = (*text).into();
            match world.render(template) {
                Err(shown) => {
                    refused += 1;
                    assert!(shown.contains("would be read as YAML"), "{template}{text:?}: {shown}");
                }
                Ok(made) => {
                    filled += 1;
                    let mut all = Vec::new();
                    keys(&made, &mut all);
                    // A key that the template makes from the string is the whole string.
                    let is_known = |key: &String| ["a", "b", "c", "k"].contains(&key.as_str()) || key == text;
                    assert!(all.iter().all(is_known), "{template}{text:?}: {made}");
                    assert_eq!(made["b"], json!([1]), "{template}{text:?}: {made}");
                }
            }
        }
    }
    assert!(refused > 200 && filled > 50, "{refused} refused, {filled} filled");
}

#[test]
fn quoting_functions_accept_any_string() {
    let template = "a: {{ annotation .ObjectMeta `x` `` | quote }}\nb: {{ toJson .ObjectMeta.Annotations }}\n\
                    c: {{- toYaml .ObjectMeta.Annotations | nindent 2 }}\nd: |-\n  {{ toJSON .ObjectMeta.Annotations }}\n\
                    e: {{ if eq (annotation .ObjectMeta `x` ``) (index .ObjectMeta.Annotations `x`) }}same{{ else }}other{{ end }}\n\
                    f: '{{ toJsonMap (strdict `k` (annotation .ObjectMeta `x` ``)) | b64enc }}'\n";
    for text in TEXTS {
        let made = World::annotated("x", text).render(template);
        // The string contains a stand-in, which no pod needs.
        if text.contains('\u{f0022}') {
            assert!(made.expect_err("a stand-in").contains("would be read"));
            continue;
        }
        let made = made.unwrap_or_else(|shown| panic!("{text:?}: {shown}"));
        assert_eq!(made["a"], *text);
        assert_eq!(made["b"], json!({"note": "plain", "x": text}));
        assert_eq!(made["c"], made["b"]);
        let written: serde_json::Value =
            serde_json::from_str(made["d"].as_str().expect("a text")).expect("JSON");
        assert_eq!(written, made["b"]);
        assert_eq!(made["e"], "same");
    }
}
