//! `explain` that asks a cluster.

use super::webhook::CONFIG;
use crate::PROGRAM;
use serde_json::{Value, json};
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, process::Command};
use testkit::cluster::Cluster;
use testkit::{command_line::ended, word};

const POD: &str = r#"{ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": "shop" },
    "spec": { "containers": [{ "name": "web", "image": "example/web" }] } }"#;

/// The exit code, and what is told of the pod.
fn explain(cluster: &Cluster, flags: &[&str]) -> (i32, String) {
    let pod = cluster.file("pod.json");
    fs::write(&pod, POD).expect("written");
    let mut command = Command::new(PROGRAM.path);
    let command = command.args(["explain", "-f", word(&pod)]).args(flags);
    let ended = ended(command.env("KUBECONFIG", cluster.kubeconfig()));
    (ended.code.expect("a code"), ended.shown())
}

fn map(namespace: &str, name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace }, "data": data })
}

/// A configuration of a webhook for namespaces with a label, which calls a Service.
fn configuration(name: &str, revision: &str, service: (&str, &str), label: (&str, &str)) -> Value {
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": name, "labels": { "istio.io/rev": revision } },
        "webhooks": [{ "name": "rev.namespace.sidecar-injector.istio.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": { "service": { "namespace": service.0, "name": service.1, "path": "/inject" } },
            "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"] }],
            "namespaceSelector": { "matchLabels": { label.0: label.1 } } }] })
}

fn check(cluster: &Cluster, flags: &[&str], code: i32, parts: &[&str]) {
    let (found, shown) = explain(cluster, flags);
    assert_eq!(found, code, "{shown}");
    for part in parts {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

/// What a cluster answers is what counts: not the usual webhooks, and not the usual configuration.
#[test]
fn namespaces_webhooks_and_configuration_are_the_clusters() {
    let cluster = Cluster::start();
    let kubeconfig = cluster.kubeconfig();
    let query = ["--kubeconfig", word(&kubeconfig)];
    cluster.namespace("shop", &json!({ "istio.io/rev": "blue" }));
    check(&cluster, &query, 1, &["the cluster has no webhook that injects"]);
    let notes = ("mesh", "yes");
    cluster.put(&configuration(
        "istio-sidecar-injector-blue",
        "blue",
        ("istio-system", "istiod-blue"),
        notes,
    ));
    check(&cluster, &query, 1, &["namespace istio-system has no ConfigMap with the config of revision blue"]);
    let values = r#"{"global": {"proxy": {"image": "blue.example/proxy:1"}}}"#;
    cluster.put(&map(
        "istio-system",
        "istio-sidecar-injector-blue",
        &json!({ "config": "policy: enabled", "values": values }),
    ));
    cluster.put(&map("istio-system", "istio-blue", &json!({ "mesh": "defaultConfig: {statusPort: 15999}" })));
    // A second injector, ours.
    cluster.put(&configuration(
        "istio-sidecar-injector",
        "default",
        ("mesh", "sidecar-injector"),
        ("green", "yes"),
    ));
    cluster.put(&map("mesh", "sidecar-injector", &json!({ "config": "policy: disabled" })));
    check(&cluster, &query, 3, &["no webhook of revision default or blue is called for it"]);
    cluster.namespace("shop", &json!({ "mesh": "yes" }));
    let called = "injected, because webhook rev.namespace of istio-sidecar-injector-blue is called";
    check(&cluster, &query, 0, &[called, "from blue.example/proxy:1", "--explain"]);
    check(&cluster, &["--context", "c"], 0, &[called]);
    check(&cluster, &["--context", "none"], 1, &["--context none: "]);
    cluster.namespace("shop", &json!({ "green": "yes" }));
    check(
        &cluster,
        &query,
        3,
        &["not injected, because webhook rev.namespace of istio-sidecar-injector is called", "policy"],
    );
    // Flags win.
    let config = cluster.file("config");
    fs::write(&config, "policy: enabled").expect("written");
    check(&cluster, &[&query[..], &["--inject-config", word(&config)]].concat(), 0, &["injected, because"]);
    check(&cluster, &[&query[..], &["--namespace-labels", "mesh=yes,green="]].concat(), 0, &[called]);
    check(
        &cluster,
        &[&query[..], &["--auto"]].concat(),
        2,
        &["--kubeconfig: contradicts --auto; give one of them"],
    );
}

/// Kubelets of 1.33 and newer run native sidecars, and the webhook gives pods one where all do.
#[test]
fn kubelets_and_conditions_of_the_cluster_count() {
    let cluster = Cluster::start();
    let kubeconfig = cluster.kubeconfig();
    let query = ["--kubeconfig", word(&kubeconfig)];
    cluster.namespace("shop", &json!({ "mesh": "yes" }));
    cluster.put(&map("mesh", "sidecar-injector", &json!({ "config": "policy: enabled" })));
    let mut webhooks = configuration("c", "default", ("mesh", "sidecar-injector"), ("mesh", "yes"));
    cluster.put(&webhooks);
    let node = |name: &str, version: &str| {
        cluster.put(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
            "status": { "nodeInfo": { "kubeletVersion": version } } }));
    };
    let beside = "istio-proxy in containers";
    check(&cluster, &query, 0, &[beside]);
    node("new", "v1.33.1");
    check(&cluster, &query, 0, &["istio-proxy in initContainers"]);
    node("old", "v1.32.9");
    check(&cluster, &query, 0, &[beside]);
    check(&cluster, &[&query[..], &["--native-sidecars"]].concat(), 0, &["istio-proxy in initContainers"]);
    let (_, shown) = explain(&cluster, &query);
    assert!(!shown.contains("matchConditions"), "{shown}");
    webhooks["webhooks"][0]["matchConditions"] =
        json!([{ "name": "not-jobs", "expression": "!has(object.metadata.ownerReferences)" }]);
    cluster.put(&webhooks);
    let unevaluated = "webhook rev.namespace has matchConditions, which are not evaluated here";
    check(&cluster, &query, 0, &[unevaluated, "injected, because"]);
}

#[test]
fn rights_that_lack_are_told() {
    let cluster = Cluster::start();
    let account = cluster.account("shop", "nobody");
    let given = "cannot list resource \"mutatingwebhookconfigurations\"";
    check(
        &cluster,
        &["--kubeconfig", word(&account)],
        1,
        &["warning: namespace shop can't be read: ", given, "(403)"],
    );
}

#[test]
fn a_path_that_is_not_utf_8_was_a_panic() {
    let cluster = Cluster::start();
    cluster.namespace("shop", &json!({ "istio-injection": "enabled" }));
    let service = ("mesh", "sidecar-injector");
    cluster.put(&configuration("c", "default", service, ("istio-injection", "enabled")));
    cluster.put(&map("mesh", "sidecar-injector", &json!({ "config": CONFIG })));
    let kubeconfig = cluster.kubeconfig();
    let copy = kubeconfig.with_file_name(OsStr::from_bytes(b"config-\xff"));
    fs::copy(&kubeconfig, &copy).expect("copied");
    let pod = cluster.file("pod.json");
    fs::write(&pod, POD).expect("written");
    let mut command = Command::new(PROGRAM.path);
    let ended = ended(command.args(["explain", "-f", word(&pod), "--kubeconfig"]).arg(&copy)).with(0);
    assert!(ended.stdout.contains("--explain"), "{ended:?}");
}
