//! What the author of a manifest should know besides its injection: the cases of `offline_notes.txt`, whose notes
//! `UPDATE_GOLDENS=1` writes.

use crate::support::read;
use injection::offline::{Note, RefusedManifest, Surroundings, manifest};
use injection::{Configuration, Namespaces};
use std::collections::BTreeMap;

/// How many objects of a manifest are injected, or its problems, and the notes about it.
fn noted(text: &str) -> String {
    let namespaces = Namespaces::new("shop", None, BTreeMap::new());
    let around = Surroundings { namespaces, ..Surroundings::default() };
    let (outcome, notes) = match manifest("file", text, &around, &Configuration::default()) {
        Ok(done) => (format!("{} injected\n", done.injected), done.notes),
        Err(RefusedManifest { problems, notes }) => (format!("{problems}\n"), notes),
    };
    outcome + &notes.iter().map(|note| format!("{note}\n")).collect::<String>()
}

#[test]
fn notes_are_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/offline_notes.txt");
    testkit::sections::answers(file, ", notes", noted);
}

/// With two selectors of pods that are never injected, or always.
fn selecting() -> Configuration {
    let text = "policy: disabled\nneverInjectSelector: [{matchLabels: {app: never}}]\n\
                alwaysInjectSelector: [{matchLabels: {app: always}}]\n";
    read(text, "", "").expect("a good text")
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
