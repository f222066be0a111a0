//! Complete manifests of installations and removals, each in a file of `tests/manifests`; `UPDATE_GOLDENS=1` writes them.

use injection::manifests::{Installation, files, kustomization, removed};
use mesh::data::{Tree, yaml};
use serde_json::{Value, json};

fn block(object: &Value) -> String {
    yaml::block(&Tree::read(&object.to_string()))
}

fn shown(namespace: &str, names_namespace: bool, mut values: Value) -> String {
    for (key, image) in [("image", "example/injector:1"), ("proxyImage", "example/proxy:1")] {
        values[key] = image.into();
    }
    let target = Installation::read(namespace, names_namespace, values);
    let target = target.unwrap_or_else(|problems| panic!("{problems}"));
    let files = files(&target);
    let mut shown = String::new();
    for file in &files {
        for object in &file.objects {
            shown += &format!("--- # {}.yaml\n{}", file.name, block(object));
        }
    }
    shown += &format!("--- # kustomization.yaml\n{}--- # removed\n", block(&kustomization(&files)));
    for object in removed(&target) {
        let of = &object["metadata"];
        let place = of["namespace"].as_str().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let [version, kind] = ["apiVersion", "kind"].map(|field| object[field].as_str().expect("a text"));
        shown += &format!("# {kind} ({version}) {place}{}\n", of["name"].as_str().expect("a name"));
    }
    shown
}

#[test]
fn installations_match_their_files() {
    let no_policy = json!({ "enabled": false });
    let plain = shown("mesh", false, json!({ "networkPolicy": no_policy }));
    let everything = json!({
        "revision": "r1", "tags": ["stable", "default"], "auto": true, "replicas": 1,
        "environmentLabels": ["virtual-env"], "initImage": "example/init:1",
        "operator": { "enabled": true, "allowHosts": ["shop.example.com", "*.example.org"] },
        "priorityClassName": "system-cluster-critical",
    });
    let everything = shown("mesh", true, everything);
    let in_istios_place = json!({
        "revision": "r1", "tags": ["default"], "environmentLabels": ["virtual-env", "team-env"],
        "istioNames": true, "networkPolicy": no_policy,
    });
    let in_istios_place = shown("default", true, in_istios_place);
    for (name, shown) in [("plain", plain), ("everything", everything), ("in-istios-place", in_istios_place)]
    {
        let file = format!("{}/tests/manifests/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        testkit::golden(file, &shown);
    }
}
