//! `serve --watch-cluster` against the simulated API server: namespaces and kubelets that change while pods are reviewed, and
//! an API server that forbids, forgets, disconnects or hangs.

use super::client::{pod, reviewed};
use super::webhook::{CONFIG, Webhook, patched};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testkit::cluster::{Cluster, Fault};
use testkit::{scope, until, word};

const NATIVE: &str = "v1.33.1";
const OLD: &str = "v1.32.6-eks-1";

fn watching(cluster: &Cluster, flags: &[&str]) -> Webhook {
    let kubeconfig = cluster.kubeconfig();
    Webhook::start(CONFIG, "", &[&["--kubeconfig", word(&kubeconfig)], flags].concat())
}

/// Sets a namespace's range of users, as OpenShift does.
fn annotate(cluster: &Cluster, namespace: &str, range: &str) {
    cluster.put(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace,
        "annotations": { "openshift.io/sa.scc.uid-range": range } } }));
}

fn node(cluster: &Cluster, name: &str, version: &str) {
    cluster.put(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": {},
        "status": { "nodeInfo": { "kubeletVersion": version }, "images": [{ "names": ["a"], "sizeBytes": 1 }] } }));
}

fn injected(webhook: &Webhook, pod: &Value) -> Value {
    patched(&reviewed(&mut webhook.connect(), "/inject", "u", pod).expect("an answer").json(), pod)
}

fn user(webhook: &Webhook) -> String {
    let pod = injected(webhook, &pod());
    let words = pod["spec"]["initContainers"][0]["args"].as_array().expect("arguments");
    let at = words.iter().position(|word| word == "-u").expect("a user");
    words[at + 1].as_str().expect("a text").to_owned()
}

/// True if a pod on this node, or without a node, gets a native sidecar.
fn is_native(webhook: &Webhook, node: Option<&str>) -> bool {
    let mut query = pod();
    if let Some(node) = node {
        query["spec"]["nodeName"] = node.into();
    }
    let pod = injected(webhook, &query);
    let initial = pod["spec"]["initContainers"].as_array().expect("a list");
    initial.iter().any(|container| container["name"] == "istio-proxy")
}

fn current(webhook: &Webhook, resource: &str) -> f64 {
    webhook.metric(&format!("sidecar_injector_watch_current{{resource=\"{resource}\"}}"))
}

fn errors(webhook: &Webhook, resource: &str) -> f64 {
    webhook.metric(&format!("sidecar_injector_watch_errors_total{{resource=\"{resource}\"}}"))
}

/// Waits for the first list. On a busy machine, a server may be ready earlier, since readiness waits only a limited time.
fn until_listed(webhook: &Webhook, resource: &str) {
    until("it is listed", || current(webhook, resource) == 1.0);
}

fn is_ready(webhook: &Webhook) -> bool {
    webhook.get("/ready").status == 200
}

#[test]
fn annotations_of_a_namespace_count_from_the_next_review_on() {
    let cluster = Cluster::start();
    // More than one list page.
    for number in 0..500 {
        cluster.namespace(&format!("a-{number}"), &json!({}));
    }
    annotate(&cluster, "shop", "1000620000/10000");
    let webhook = watching(&cluster, &[]);
    until_listed(&webhook, "namespaces");
    assert!(cluster.count("list", "namespaces") > 1, "there are pages");
    assert_eq!(user(&webhook), "1000629999");
    annotate(&cluster, "shop", "2000/10");
    until("the change is known", || user(&webhook) == "2009");
    cluster.remove("namespaces", "", "shop");
    until("shop is deleted", || user(&webhook) == "1337");
    annotate(&cluster, "shop", "3000/10");
    until("shop is there again", || user(&webhook) == "3009");
    assert_eq!((current(&webhook, "namespaces"), errors(&webhook, "namespaces")), (1.0, 0.0));
    let state = cluster.state();
    let metadata = state.requests.iter().filter(|(access, _)| access.resource == "namespaces");
    for (access, request) in metadata {
        let accept = request.header("accept").unwrap_or_default();
        assert!(accept.contains("as=PartialObjectMetadata"), "{access:?}: {accept}");
    }
}

#[test]
fn sidecars_are_native_once_all_kubelets_support_them() {
    let cluster = Cluster::start();
    node(&cluster, "one", NATIVE);
    node(&cluster, "two", OLD);
    let webhook = watching(&cluster, &[]);
    until_listed(&webhook, "nodes");
    assert!(!is_native(&webhook, None), "one kubelet is too old");
    assert!(is_native(&webhook, Some("one")) && !is_native(&webhook, Some("two")));
    assert!(!is_native(&webhook, Some("unknown")), "its kubelet is unknown");
    node(&cluster, "two", NATIVE);
    until("kubelets support sidecars", || is_native(&webhook, None));
    assert_eq!(webhook.until_line("native sidecar support changed")["native_sidecars"], true);
    node(&cluster, "three", "unknown");
    until("an invalid version is treated as old", || !is_native(&webhook, None));
    cluster.remove("nodes", "", "three");
    until("that node is gone", || is_native(&webhook, None));

    for (flag, expected) in
        [("--native-sidecars=false", false), ("--native-sidecars", true), ("--watch-cluster=off", false)]
    {
        let webhook = match flag {
            "--watch-cluster=off" => Webhook::start(CONFIG, "", &[flag]),
            _ => watching(&cluster, &[flag]),
        };
        until("it is ready", || is_ready(&webhook));
        assert_eq!(is_native(&webhook, None), expected, "{flag}");
    }
}

#[test]
fn a_server_without_the_right_to_watch_serves() {
    let cluster = Cluster::start();
    annotate(&cluster, "shop", "1000/10");
    node(&cluster, "one", NATIVE);
    for resource in ["namespaces", "nodes"] {
        cluster.storm("list", resource, Fault::Refuse(403));
    }
    let webhook = watching(&cluster, &[]);
    until("a refusal is not a reason to wait", || is_ready(&webhook));
    until("a second try", || errors(&webhook, "namespaces") > 1.0 && errors(&webhook, "nodes") > 1.0);
    assert_eq!((user(&webhook).as_str(), is_native(&webhook, None)), ("1337", false));
    assert_eq!((current(&webhook, "namespaces"), current(&webhook, "nodes")), (0.0, 0.0));
    cluster.calm();
    until("a role was granted", || user(&webhook) == "1009" && is_native(&webhook, None));
    assert_eq!((current(&webhook, "namespaces"), current(&webhook, "nodes")), (1.0, 1.0));
    let shown = webhook.lines("the watch failed");
    let resources: BTreeSet<&str> = shown.iter().filter_map(|line| line["resource"].as_str()).collect();
    assert_eq!((shown.len(), resources.len()), (2, 2), "once per resource, despite retries: {shown:#?}");
    assert!(
        shown
            .iter()
            .all(|line| line["error"].as_str().is_some_and(|text| text.contains("refused by a test")))
    );
}

#[test]
fn lost_and_expired_watches_are_restarted() {
    let cluster = Cluster::start();
    node(&cluster, "one", NATIVE);
    let webhook = watching(&cluster, &[]);
    until_listed(&webhook, "nodes");
    // While the watches are down, their version expires.
    let mut range = 1_000;
    let mut again = |what: &str, disturb: &dyn Fn()| {
        range += 10;
        disturb();
        annotate(&cluster, "shop", &format!("{range}/10"));
        until(what, || user(&webhook) == (range + 9).to_string());
    };
    let lists = || cluster.count("list", "namespaces");
    let before = lists();
    again("a broken watch resumes", &|| cluster.cut());
    assert_eq!(lists(), before, "without a new list");
    again("an expired version is listed again", &|| {
        cluster.fault("watch", "namespaces", Fault::Meanwhile(|state| state.compact()));
        cluster.cut();
    });
    until("lists were repeated", || lists() > before);
    until("watches resume", || current(&webhook, "namespaces") == 1.0 && current(&webhook, "nodes") == 1.0);
}

#[test]
fn readiness_waits_a_limited_time_for_a_silent_api_server() {
    let cluster = Cluster::start();
    annotate(&cluster, "shop", "1000/10");
    node(&cluster, "one", NATIVE);
    cluster.fault("list", "nodes", Fault::Hang);
    let webhook = watching(&cluster, &[]);
    until("namespaces are listed", || user(&webhook) == "1009");
    let early = webhook.get("/ready");
    assert_eq!(early.status, 503);
    assert!(early.text().contains("waiting for the first list of namespaces and nodes"), "{}", early.text());
    assert!(!is_native(&webhook, None), "a review is answered meanwhile");
    assert_eq!(current(&webhook, "nodes"), 0.0);
    // After ten seconds.
    if scope::all() {
        until("it is ready without nodes", || is_ready(&webhook));
        assert_eq!(current(&webhook, "nodes"), 0.0);
    }
}

#[test]
fn without_a_cluster_the_watch_is_off_by_default() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    webhook.until_line("cannot watch namespaces and nodes");
    assert!(is_ready(&webhook));
    assert!(!webhook.get("/metrics").text().contains("sidecar_injector_watch"));
}
