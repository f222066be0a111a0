//! The upgrade in docs/injector.md, command by command, with the real kubectl: checks the injecting revision after each step,
//! and the remaining objects.

use super::installation::{Kubelet, NAMESPACE, WEBHOOKS, injected_by, run};
use serde_json::{Value, json};
use std::fs;
use testkit::cluster::Cluster;

/// An installation's kinds except ConfigMaps, which other programs have too.
const REMOVED: [&str; 11] = [
    "clusterroles",
    "clusterrolebindings",
    "deployments",
    "leases",
    "poddisruptionbudgets",
    "rolebindings",
    "roles",
    "secrets",
    "serviceaccounts",
    "services",
    WEBHOOKS,
];

fn blocks(document: &str, section: &str) -> Vec<Vec<String>> {
    let (_, rest) = document.split_once(&format!("\n## {section}\n")).expect("the section");
    let section = rest.split("\n## ").next().expect("its text");
    let blocks = section.split("```text\n").skip(1).map(|rest| rest.split("```").next().expect("its end"));
    let lines = |block: &str| block.replace("\\\n", "").lines().map(str::to_owned).collect();
    blocks.map(lines).collect()
}

fn named(cluster: &Cluster, plural: &str) -> Vec<String> {
    let name = |object: Value| object["metadata"]["name"].as_str().expect("a name").to_owned();
    cluster.all(plural).into_iter().map(name).collect()
}

#[test]
#[ignore = "takes half a minute"]
fn the_documented_upgrade_moves_namespaces_and_removes_the_old_revision() {
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/injector.md"));
    let document = document.expect("the document");
    let cluster = Cluster::start();
    let mut kubelet = Kubelet::default();
    for name in ["shop", "bank"] {
        cluster.namespace(name, &json!({}));
        cluster.put(&json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": name },
            "spec": { "template": { "metadata": {}, "spec": {} } } }));
    }
    let mut play = |block: &[String]| {
        for command in block {
            run(&cluster, command);
            kubelet.follow(&cluster);
        }
    };
    let by = || [injected_by(&cluster, "shop"), injected_by(&cluster, "bank")];
    let revisions = |shop: &str, bank: &str| [Some(shop.to_owned()), Some(bank.to_owned())];

    let install = blocks(&document, "Install it");
    assert!(install.len() == 3 && install[2][0].starts_with("helm install "), "{install:?}");
    play(&install[0]);
    cluster.namespace("bank", &json!({ "istio-injection": "enabled" }));
    assert_eq!(by(), revisions("default", "default"));

    let walk = blocks(&document, "Upgrade it");
    let [beside, one, back, all, remove] = &walk[..] else { panic!("five steps: {walk:?}") };
    play(beside);
    assert_eq!(by(), revisions("default", "default"), "the new revision exists, and serves no namespace");
    play(one);
    assert_eq!(by(), revisions("two", "default"));
    let restarted = cluster.find("deployments", "shop", "web").expect("it");
    assert!(
        restarted["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"]
            .is_string()
    );
    play(back);
    assert_eq!(by(), revisions("default", "default"), "unchanged");
    play(one);
    play(all);
    assert_eq!(by(), revisions("two", "two"));
    play(remove);
    assert_eq!(by(), revisions("two", "two"), "the new revision is complete");

    assert_eq!(named(&cluster, WEBHOOKS), ["sidecar-injector-two"]);
    assert_eq!(named(&cluster, "secrets"), ["sidecar-injector-ca-two"]);
    assert!(cluster.find("namespaces", "", NAMESPACE).is_some());
    for plural in REMOVED.into_iter().chain(["configmaps"]) {
        for object in cluster.all(plural) {
            assert_ne!(
                object["metadata"]["labels"]["app.kubernetes.io/instance"], "sidecar-injector",
                "{object:#}"
            );
        }
    }
}

#[test]
fn uninstall_removes_installed_and_written_objects() {
    let cluster = Cluster::start();
    let flags = "--revision r1 --tag prod --namespace mesh";
    run(
        &cluster,
        &format!(
            "sidecar-injector manifests {flags} --image a/b:1 --proxy-image a/p:1 --operator --environment-tag | kubectl apply -f -"
        ),
    );
    for (kind, version, name) in [
        ("Secret", "v1", "sidecar-injector-ca-r1"),
        ("Lease", "coordination.k8s.io/v1", "sidecar-injector-environment-r1"),
        ("ConfigMap", "v1", "foreign"),
    ] {
        cluster.put(&json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name, "namespace": "mesh" } }));
    }
    run(&cluster, &format!("sidecar-injector uninstall {flags} | kubectl delete -f -"));
    for plural in REMOVED {
        assert_eq!(named(&cluster, plural), [""; 0], "{plural}");
    }
    assert_eq!(named(&cluster, "configmaps"), ["foreign"]);
    assert_eq!(cluster.all("customresourcedefinitions").len(), 1, "others may use it");
    run(
        &cluster,
        &format!(
            "sidecar-injector uninstall {flags} --delete-namespace | kubectl delete --ignore-not-found -f -"
        ),
    );
    assert!(cluster.find("namespaces", "", "mesh").is_none());
}
