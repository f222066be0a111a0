//! Installations and removals as whole texts: `tests/manifests` has a file for each.
//!
//! `UPDATE_GOLDENS=1` writes the files anew.

use injection::manifests::{InstallOptions, Installation, files, kustomization, removed};
use mesh::data::{Tree, yaml};
use serde_json::Value;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn plain() -> InstallOptions {
    InstallOptions {
        namespace: "mesh".to_owned(),
        image: text("example/injector:1"),
        proxy_image: text("example/proxy:1"),
        network_policy: false,
        names_namespace: false,
        ..InstallOptions::default()
    }
}

fn block(object: &Value) -> String {
    yaml::block(&Tree::read(&object.to_string()))
}

fn shown(options: InstallOptions) -> String {
    let target = Installation::read(options).unwrap_or_else(|problems| panic!("{problems}"));
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
fn an_installation_is_what_its_file_tells() {
    let hosts = ["shop.example.com", "*.example.org"].map(|host| host.parse().expect("a host"));
    let everything = InstallOptions {
        revision: "r1".to_owned(),
        tags: vec!["stable".to_owned(), "default".to_owned()],
        auto: true,
        replicas: 1,
        environment_labels: text("virtual-env"),
        operator: true,
        allow_hosts: hosts.to_vec(),
        init_image: text("example/init:1"),
        priority_class: text("system-cluster-critical"),
        network_policy: true,
        names_namespace: true,
        ..plain()
    };
    let in_istios_place = InstallOptions {
        namespace: "default".to_owned(),
        revision: "r1".to_owned(),
        tags: vec!["default".to_owned()],
        environment_labels: text("virtual-env,team-env"),
        names_namespace: true,
        istio_names: true,
        ..plain()
    };
    for (name, options) in
        [("plain", plain()), ("everything", everything), ("in-istios-place", in_istios_place)]
    {
        let file = format!("{}/tests/manifests/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        testkit::golden(file, &shown(options));
    }
}
