//! What a pod says is never read as YAML, and what says nothing to YAML stays as it is.

use super::world::World;
use serde_json::json;

/// Ways to put an annotation into YAML.
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
    "a: \"{{ title (annotation .ObjectMeta `x` ``) | upper }}\"\nb: [1]\n",
    "a: {{ regexReplaceAll `zz` (annotation .ObjectMeta `x` ``) `${0}y` }}\nb: [1]\n",
    "a: \"{{ index (regexSplit `zz` (annotation .ObjectMeta `x` ``) -1) 0 }}\"\nb: [1]\n",
    "a: {{ with .Values.none }}{{ else with annotation .ObjectMeta `x` `` }}{{ . }}{{ end }}\nb: [1]\n",
    "a:\n- {{ first (chunk 1 (list (annotation .ObjectMeta `x` ``))) | first | trunc 60 }}\nb: [1]\n",
    "a: '{{ index .ObjectMeta.GetAnnotations `x` }}'\nb: [1]\n",
];

/// What a pod may say to get more than it is given.
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

/// All of a tree's keys.
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
                    assert!(
                        shown.contains("would be read as YAML") && shown.contains("x: "),
                        "{template}{text:?}: {shown}"
                    );
                }
                Ok(made) => {
                    filled += 1;
                    let mut all = Vec::new();
                    keys(&made, &mut all);
                    // A key that the template makes of the text is the whole text.
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
fn a_template_that_needs_structure_of_a_pod_is_refused() {
    let template = "a: 1\n{{ annotation .ObjectMeta `x` `` }}\n";
    let shown = World::annotated("x", "privileged: true").render(template).expect_err("refused");
    assert!(shown.contains("x: \"privileged: true\" would be read as YAML"), "{shown}");
    let shown = World::annotated("x", "a b").render(template).expect_err("no YAML");
    assert!(shown.contains("template: is not YAML or JSON: line 2, column 1"), "{shown}");
}

#[test]
fn what_is_handed_to_a_writer_is_taken_whatever_it_says() {
    let template = "a: {{ annotation .ObjectMeta `x` `` | quote }}\nb: {{ toJson .ObjectMeta.Annotations }}\n\
                    c: {{- toYaml .ObjectMeta.Annotations | nindent 2 }}\nd: |-\n  {{ toJSON .ObjectMeta.Annotations }}\n\
                    e: {{ if eq (annotation .ObjectMeta `x` ``) (index .ObjectMeta.Annotations `x`) }}same{{ else }}other{{ end }}\n\
                    f: '{{ toJsonMap (strdict `k` (annotation .ObjectMeta `x` ``)) | b64enc }}'\n";
    for text in TEXTS {
        let made = World::annotated("x", text).render(template);
        // It means another character to us, and no pod needs it.
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

#[test]
fn what_a_template_reads_it_understands() {
    let world = World::annotated("x", r#"{"a":{"emptyDir":{}},"b: c":{"hostPath":"d, e"}}"#);
    let template = "{{ range $name, $volume := fromJSON (annotation .ObjectMeta `x` `{}`) }}\n\
                    {{ $name | quote }}:\n  {{ toYaml $volume | indent 2 }}\n{{ end }}\n\
                    is: {{ contains `emptyDir\":{` (annotation .ObjectMeta `x` ``) }}\n\
                    has: {{ hasPrefix `{` (annotation .ObjectMeta `x` ``) }}\n\
                    long: {{ len (annotation .ObjectMeta `x` ``) }}\n";
    let expected = json!({
        "a": {"emptyDir": {}}, "b: c": {"hostPath": "d, e"}, "is": true, "has": true, "long": 48,
    });
    assert_eq!(world.render(template), Ok(expected));
}

#[test]
fn usual_texts_are_pasted_as_they_are() {
    let texts = [
        "10.0.0.0/8,192.168.0.0/16",
        "80, 90",
        "hub.example:5000/proxy:1.2@sha256:ab",
        "*",
        "default:info,ads:debug",
        "-5",
        "a b",
    ];
    for text in texts {
        let world = World::annotated("x", text);
        let made = world
            .render("a: \"{{ annotation .ObjectMeta `x` `` }}\"\nb: '{{ annotation .ObjectMeta `x` `` }}'\n");
        assert_eq!(made, Ok(json!({"a": text, "b": text})));
    }
}

#[test]
fn whoever_says_it_is_named() {
    let mut world = World::annotated("x", "harmless: not, when quoted");
    world.pod["metadata"]["annotations"]["bad"] = "v\"\nprivileged: \"true".into();
    world.pod["spec"]["containers"][0]["args"] = json!(["--flag={\"a\": 1}"]);
    let shown = world
        .render("a: \"{{ annotation .ObjectMeta `bad` `` }}\"\nb: \"{{ annotation .ObjectMeta `x` `` }}\"\n")
        .expect_err("refused");
    assert!(shown.starts_with("1 problem in the input"), "{shown}");
    assert!(
        shown.contains(r#"bad: "v\"\nprivileged: \"true" would be read as YAML where template puts it"#),
        "{shown}"
    );
    world.pod["metadata"]["annotations"]["bad"] = "fine".into();
    world.pod["spec"]["containers"][0]["name"] = "a\nb: c".into();
    let shown = world.render("a: {{ (index .Spec.Containers 0).Name }}\n").expect_err("refused");
    assert!(shown.contains(r#"pod.spec.containers[0].name: "a\nb: c" would be read"#), "{shown}");
}

#[test]
fn nothing_is_no_value() {
    let world = World::new();
    let shown =
        world.render("a: 1\nb: {{ .Values.none }}\nc: {{ print .Values.none }}\n").expect_err("nothing");
    assert!(
        shown.starts_with("2 problems") && shown.contains("\"b: <no value>\" holds <no value>, in line 2"),
        "{shown}"
    );
    assert_eq!(world.render("{{ if .Values.none.deeper }}a: 1{{ end }}"), Ok(json!({})));
}

/// As the engine prints what stands for variables that were not read.
#[test]
fn a_template_may_print_any_word() {
    assert_eq!(World::new().render("a: Function"), Ok(json!({"a": "Function"})));
}
