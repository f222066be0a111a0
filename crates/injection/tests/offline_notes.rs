//! What is told to the author of a manifest besides its injection.

use injection::configuration::{ConfigurationText, Texts};
use injection::offline::{Note, RefusedManifest, Surroundings, manifest};
use injection::{Configuration, Namespaces};
use std::collections::BTreeMap;

fn inject(text: &str) -> Result<Vec<String>, RefusedManifest> {
    let namespaces = Namespaces::new("shop", None, BTreeMap::new());
    let around = Surroundings { namespaces, ..Surroundings::default() };
    let done = manifest("file", text, &around, &Configuration::default())?;
    Ok(done.notes.iter().map(Note::to_string).collect())
}

/// A document that has to be written again: no edit takes away what `<<` brings, here the host of a probe.
const MERGED: &str = "\
common: &get {port: 80, host: a.example}
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {sidecar.istio.io/rewriteAppHTTPProbers: 'true'}}
spec:
  containers:
  - name: a
    ports: [{containerPort: 80}]
    readinessProbe: {httpGet: {<<: *get, path: /ready}}
";

fn check(text: &str, expected: &[&str]) {
    let shown = inject(text).unwrap_or_else(|refused| panic!("{text}: {}", refused.problems));
    assert_eq!(shown, expected, "{text}");
}

fn pod(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {{{spec}}}\n")
}

#[test]
fn documents_that_are_no_object_are_reported() {
    check("", &["file: holds no object; nothing is injected"]);
    check("# nothing\n---\n", &["file: holds no object; nothing is injected"]);
    let no = |lacks: &str| format!("file: document 1: is not a Kubernetes object, {lacks}; left as it is");
    check("hello world\n", &[&no("and no mapping")]);
    check("a: 1\n", &[&no("without apiVersion and kind")]);
    check("kind: Service\n", &[&no("without apiVersion")]);
    check("apiVersion: v1\n---\n# end\n", &[&no("without kind")]);
    check("apiVersion: v1\nkind: Service\n---\n# end\n", &[]);
}

#[test]
fn a_kind_that_is_almost_known_is_reported() {
    let text = "apiVersion: apps/v1\nkind: KIND\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: a}]}}}\n";
    let shown = inject(&text.replace("KIND", "Deploymnet")).expect("left as it is");
    assert!(shown[0].ends_with("left as it is; did you mean Deployment?"), "{shown:?}");
    // In apps/v1, Job is another group's.
    for kind in ["Rollout", "TFJob", "Node", "Job"] {
        let shown = inject(&text.replace("KIND", kind)).expect("left as it is");
        assert!(shown[0].ends_with("left as it is"), "{shown:?}");
    }
}

#[test]
fn a_pod_without_containers_is_reported() {
    let at = "file: document 1, Pod shop/web: spec.containers";
    let refused = "and the API server refuses a pod without containers";
    let left = "left as it is";
    check(&pod("containers: []"), &[&format!("{at} is empty, {refused}; {left}")]);
    let near = format!("{at} is missing, {refused}; did you mean it by container?; {left}");
    check(&pod("container: [{name: a}]"), &[&near]);
    check(&pod("initContainers: [{name: a}]"), &[&format!("{at} is missing, {refused}; {left}")]);
    check(&pod("containers: [{name: a}]"), &[]);
}

#[test]
fn an_unclear_value_is_reported_with_its_outcome() {
    let text = pod("containers: [{name: a}]").replace("web", "web, labels: {sidecar.istio.io/inject: flase}");
    check(
        &text,
        &[
            "file: document 1, Pod shop/web: sidecar.istio.io/inject is \"flase\", which says neither true nor false, so the \
           pod is injected, as if it said nothing; expected \"true\" or \"false\"",
        ],
    );
}

#[test]
fn a_refused_manifest_has_its_warnings_too() {
    let annotations = "web, annotations: {sidecar.istio.io/interceptionMode: HALF}";
    let text = pod("containers: [{name: a}]").replace("web", annotations);
    let text = format!("{text}---\n{}", pod("container: []"));
    let refused = inject(&text).expect_err("HALF");
    assert_eq!(refused.problems.0.len(), 1, "{}", refused.problems);
    assert!(refused.notes[0].to_string().contains("did you mean it by container?"), "{:?}", refused.notes);
}

/// With two selectors of pods that are never injected, or always.
fn selecting() -> Configuration {
    let text = "policy: disabled\nneverInjectSelector: [{matchLabels: {app: never}}]\n\
                alwaysInjectSelector: [{matchLabels: {app: always}}]\n";
    let config = Some(ConfigurationText { name: "config", text });
    Configuration::read(&Texts { config, ..Texts::default() }).expect("a good text")
}

#[test]
fn a_pod_that_is_skipped_is_named_with_the_reason() {
    let of = |name: &str, namespace: &str, labels: &str, spec: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{{name}, namespace: {namespace}, labels: {{{labels}}}}}\n\
             spec: {{containers: [{{name: a}}], {spec}}}\n"
        )
    };
    let text = [
        of("name: a", "shop", "", "hostNetwork: true"),
        of("name: b", "shop", "sidecar.istio.io/inject: 'false'", ""),
        of("name: c, annotations: {sidecar.istio.io/inject: 'false'}", "shop", "", ""),
        of("name: d", "kube-system", "", ""),
        of("generateName: e-", "shop", "app: never", ""),
        of("generateName: ''", "shop", "", "os: {name: windows}"),
        of("name: g", "shop", "app: always", ""),
        of("name: h", "shop", "", ""),
        of("name: i", "shop", "app: never, sidecar.istio.io/inject: nein", ""),
    ];
    let done = manifest("file", &text.concat(), &Surroundings::default(), &selecting()).expect("sound");
    let skipping = |name: &str, why: &str| format!("===> Skipping injection because Pod \"{name}\" {why}");
    let expected = [
        skipping("shop/a", "has host networking enabled"),
        skipping("shop/b", "has sidecar injection disabled"),
        skipping("shop/c", "has sidecar injection disabled"),
        skipping("kube-system/d", "is in a namespace of the cluster's own"),
        skipping("shop/e-*", "matches a neverInjectSelector"),
        skipping("shop/(no name)", "is not changed: its system (spec.os.name) is not linux"),
        "file: document 9, Pod shop/i: sidecar.istio.io/inject is \"nein\", which says neither true nor false, so the pod is \
         not injected, as if it said nothing; expected \"true\" or \"false\""
            .to_owned(),
        skipping("shop/i", "matches a neverInjectSelector"),
    ];
    assert_eq!(done.notes.iter().map(Note::to_string).collect::<Vec<_>>(), expected);
    // Who asks for a manifest's injection wants it, whatever the policy says.
    assert_eq!(done.injected, 2);
    let texts =
        done.text.split_inclusive("---\n").map(|text| text.contains("istio-proxy")).collect::<Vec<_>>();
    assert_eq!(texts, [false, false, false, false, false, false, false, true, true, false]);
    for (kept, document) in text.iter().enumerate().filter(|(at, _)| ![6, 7].contains(at)) {
        assert!(done.text.contains(document.trim_start_matches("---\n")), "document {kept}: {}", done.text);
    }
}

#[test]
fn a_note_is_one_line_whatever_it_quotes() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: \"a\\e[2J\\n::error::b\"}, spec: {hostNetwork: true, \
                containers: [{name: a}]}}\n";
    let expected =
        "===> Skipping injection because Pod \"shop/a\\u{1b}[2J\\n::error::b\" has host networking enabled";
    check(text, &[expected]);
}

#[test]
fn a_note_about_a_document_names_it() {
    let text = "kind: Deploymnet\napiVersion: apps/v1\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: a}]}}}\n";
    check(
        text,
        &[
            "file: document 1: Deploymnet (apps/v1) web holds a pod's template, but is of no kind that is known; left as it \
           is; did you mean Deployment?",
        ],
    );
    let text = format!("{}---\n{}", pod("containers: [{name: a}]"), MERGED);
    check(
        &text,
        &[
            "file: document 2: could not be edited in place and was written again; the comments within it are lost",
        ],
    );
}

#[test]
fn all_problems_of_a_manifest_come_at_once_each_with_its_place() {
    let text = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  template:
    metadata:
      labels: {sidecar.istio.io/inject: true, other: 1}
      annotations:
        sidecar.istio.io/nosuch: x
    spec:
      containers:
      - name: a
      - name: a
        env: {}
---
apiVersion: v1
kind: Pod
metadata:
  generateName: own-
  namespace: other
  annotations: {sidecar.istio.io/interceptionMode: HALF}
spec: {containers: [{name: a}]}
";
    let refused = inject(text).expect_err("wrong");
    let problems: Vec<String> = refused.problems.0.iter().map(ToString::to_string).collect();
    let expected = [
        "file: document 1, Deployment web: line 8, column 41: metadata.labels.sidecar.istio.io/inject: \"true\" is a boolean \
         here, where Kubernetes takes a text; write it in quotes",
        "file: document 1, Deployment web: line 8, column 54: metadata.labels.other: \"1\" is a number here, where Kubernetes \
         takes a text; write it in quotes",
        "file: document 1, Deployment web: line 15, column 14: spec.containers[1].env: is a mapping; expected a list",
        "file: document 2, Pod other/own-*, line 22: sidecar.istio.io/interceptionMode: \"HALF\" is not an interception mode; \
         expected REDIRECT, TPROXY or NONE, in capitals",
    ];
    assert_eq!(problems, expected);
    assert_eq!(refused.notes.iter().map(Note::to_string).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_refusal_names_the_line() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:\n    a/b: c\n    sidecar.istio.io/interceptionMode: HALF\n\
                spec:\n  containers: [{name: a}]\n";
    let two = format!("{}---\n{text}", pod("containers: [{name: a}]"));
    for (text, line) in [(text, 7), (&two, 12)] {
        let refused = inject(text).expect_err("HALF").problems.to_string();
        assert!(refused.contains(&format!("line {line}")), "{refused}");
    }
}
