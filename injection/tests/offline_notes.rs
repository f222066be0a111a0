//! What is told to the author of a manifest besides its injection.

use injection::offline::{Note, RefusedManifest, Surroundings, manifest};
use injection::{Configuration, Namespaces};
use std::collections::BTreeMap;

fn inject(text: &str) -> Result<Vec<String>, RefusedManifest> {
    let namespaces = Namespaces::new("shop", None, BTreeMap::new());
    let around = Surroundings { namespaces, ..Surroundings::default() };
    let done = manifest("file", text, &around, &Configuration::default())?;
    Ok(done.notes.iter().map(Note::to_string).collect())
}

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
    let shown = inject(&text.replace("KIND", "Rollout")).expect("left as it is");
    assert!(shown[0].ends_with("left as it is"), "{shown:?}");
    let shown = inject(&text.replace("KIND", "Job")).expect("another group's");
    assert!(shown[0].ends_with("left as it is"), "{shown:?}");
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
