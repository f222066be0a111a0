//! Explains why pods are injected or not: the cases of `explain.txt`, whose explanations `UPDATE_GOLDENS=1` writes, and their
//! data.

use crate::support::read;
use diagnose::plain;
use injection::explain::{Explained, InjectionVerdict, explain, injected, text};
use injection::offline::Surroundings;
use injection::webhook::DeployedInjector;
use injection::{Configuration, Namespaces};
use mesh::Problems;
use mesh::pod::values;
use serde_json::Value;
use std::collections::BTreeMap;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, LABELS}\nspec: {containers: [{name: web}]}\n";

/// `labels` apply to all namespaces; `None` if unknown.
fn asked(
    manifest: &str,
    labels: Option<BTreeMap<String, String>>,
    injector: DeployedInjector,
) -> Result<Vec<Explained>, Problems> {
    let namespaces = Namespaces::new("default", labels, BTreeMap::new());
    let around = Surroundings { namespaces, ..Surroundings::default() };
    explain(&[("pod.yaml", manifest)], around, &[injector])
}

fn ask(manifest: &str) -> Vec<Explained> {
    let injector = DeployedInjector::installed("default", false, Configuration::default());
    asked(manifest, None, injector).unwrap_or_else(|problems| panic!("{problems}"))
}

/// An injected pod has one called webhook, others at most one.
fn explained(case: &str) -> String {
    let (head, manifest) = case.split_once("---\n").expect("a head and manifests");
    let head = values("head", head).expect("YAML").remove(0);
    let labels = head["namespace"].as_object().map(|labels| {
        let word = |value: &Value| value.as_str().expect("a text").to_owned();
        labels.iter().map(|(key, value)| (key.clone(), word(value))).collect()
    });
    let of_values = head.get("values").map(ToString::to_string).unwrap_or_default();
    let configuration = read("", &of_values, "");
    let revision = head["revision"].as_str().unwrap_or("default");
    let is_everywhere = head["everywhere"] == true;
    let injector = DeployedInjector::installed(revision, is_everywhere, configuration.expect("good values"));
    match asked(manifest, labels, injector) {
        Err(problems) => format!("{problems}\n"),
        Ok(found) => {
            for one in &found {
                let called = one.webhooks.iter().filter(|webhook| webhook.called).count();
                assert!(called <= 1 && (called == 1 || one.verdict != InjectionVerdict::Injected), "{one:?}");
            }
            plain(&text(&found))
        }
    }
}

#[test]
fn explanations_are_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/explain.txt");
    testkit::sections::answers(file, ", explained", explained);
}

#[test]
fn repeated_injections_list_their_containers() {
    let manifest = POD.replace("LABELS", "labels: {sidecar.istio.io/inject: 'true'}");
    let first = ask(&manifest).remove(0);
    let again = injected(std::slice::from_ref(&first)).expect("an injected pod").to_string();
    let again = ask(&again).remove(0);
    let without = ask(&POD.replace("LABELS", "labels: {}"));
    assert_eq!(injected(&without), None);
    let names = |one: &Explained| one.added.iter().map(|added| added.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&first), names(&again)),
        (vec!["istio-proxy".to_owned()], vec!["istio-proxy".to_owned()])
    );
}

#[test]
fn each_object_of_each_file_is_explained_in_its_context() {
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{{name}}}, spec: {{containers: [{{name: web}}]}}}}\n"
        )
    };
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop, labels: {app: web}}\n\
                      spec: {template: {spec: {containers: [{name: web}]}}}\n";
    let first = format!("{}---\n{deployment}", pod("name: a, namespace: shop"));
    let second = format!("{}---\n{}", pod("generateName: b-"), pod("namespace: other"));
    let labels = [("istio-injection".to_owned(), "enabled".to_owned())];
    let ask = |native_sidecars| {
        let namespaces = Namespaces::new("default", Some(labels.clone().into()), BTreeMap::new());
        let around = Surroundings { namespaces, native_sidecars, ..Surroundings::default() };
        let injector = DeployedInjector::installed("default", false, Configuration::default());
        explain(&[("first.yaml", &first), ("second.yaml", &second)], around, &[injector])
            .unwrap_or_else(|problems| panic!("{problems}"))
    };
    let found = ask(true);
    let places = found.iter().map(|one| (one.title.as_str(), one.file.as_str(), one.document));
    let expected = [
        ("Pod shop/a", "first.yaml", 1),
        ("Deployment shop/web", "first.yaml", 2),
        ("Pod default/b-*", "second.yaml", 1),
        ("Pod other/without a name", "second.yaml", 2),
    ];
    assert_eq!(places.collect::<Vec<_>>(), expected);
    for (native, place) in [(true, "initContainers"), (false, "containers")] {
        let found = ask(native);
        assert_eq!((found[1].added[0].name.as_str(), found[1].added[0].place), ("istio-proxy", place));
        let object = found[1].injected.as_ref().expect("injected");
        let containers = object["spec"]["template"]["spec"][place].as_array().expect("a list");
        let proxy = containers.iter().find(|container| container["name"] == "istio-proxy").expect("a proxy");
        let value = |name: &str| {
            let variables = proxy["env"].as_array().into_iter().flatten();
            variables
                .filter(|one| one["name"] == name)
                .filter_map(|one| one["value"].as_str())
                .collect::<String>()
        };
        assert_eq!(value("ISTIO_META_WORKLOAD_NAME"), "web");
        assert_eq!(value("ISTIO_META_OWNER"), "kubernetes://apis/apps/v1/namespaces/shop/deployments/web");
    }
}
