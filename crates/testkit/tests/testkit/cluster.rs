//! The simulated server itself, tried with kubectl: what the tests of our programs take for granted.

use serde_json::{Value, json};
use std::fs;
use testkit::cluster::Cluster;
use testkit::word;

fn written(cluster: &Cluster, name: &str, object: &Value) -> String {
    let path = cluster.file(name);
    fs::write(&path, object.to_string()).expect("written");
    word(&path).to_owned()
}

fn fails(cluster: &Cluster, arguments: &[&str], why: &str) {
    let (succeeded, events) = cluster.kubectl(arguments);
    assert!(!succeeded && events.contains(why), "{events}");
}

fn succeeds(cluster: &Cluster, arguments: &[&str]) -> String {
    let (succeeded, events) = cluster.kubectl(arguments);
    assert!(succeeded, "{events}");
    events
}

#[test]
fn managers_own_what_they_apply() {
    let cluster = Cluster::start();
    let map = |data: Value| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "m", "namespace": "default" }, "data": data })
    };
    let apply = |manager: &'static str, data: Value, more: &[&str]| {
        let file = written(&cluster, &format!("{manager}.json"), &map(data));
        let manager = format!("--field-manager={manager}");
        let mut arguments = vec!["apply", "--server-side", "--validate=false", &manager, "-f", &file];
        arguments.extend(more);
        cluster.kubectl(&arguments)
    };
    let data = || cluster.find("configmaps", "default", "m").expect("it")["data"].clone();
    assert!(apply("red", json!({ "a": "1", "shared": "s" }), &[]).0);
    assert!(apply("blue", json!({ "b": "2", "shared": "s" }), &[]).0);
    let version = cluster.version();
    assert!(apply("blue", json!({ "b": "2", "shared": "s" }), &[]).0);
    assert_eq!(cluster.version(), version, "nothing has changed");
    let (succeeded, events) = apply("blue", json!({ "a": "3" }), &[]);
    assert!(!succeeded && events.contains("conflict"), "{events}");
    assert!(apply("blue", json!({ "a": "3" }), &["--force-conflicts"]).0);
    assert_eq!(data(), json!({ "a": "3", "shared": "s" }), "b was blue's alone");
    assert!(apply("red", json!({}), &[]).0);
    assert_eq!(data(), json!({ "a": "3" }), "nobody wants the rest any more");
}

#[test]
fn lists_with_keys_merge_and_custom_kinds_are_served_when_they_are_defined() {
    let cluster = Cluster::start();
    let webhook = |name: &str| json!({ "name": name, "clientConfig": { "url": "u" } });
    cluster.put(&json!({ "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration", "metadata": { "name": "c" },
        "webhooks": [webhook("a"), webhook("b")] }));
    let patch = json!({ "webhooks": [{ "name": "b", "clientConfig": { "caBundle": "eA==" } }] }).to_string();
    succeeds(&cluster, &["patch", "mutatingwebhookconfiguration", "c", "--type=strategic", "-p", &patch]);
    let webhooks = &cluster.find("mutatingwebhookconfigurations", "", "c").expect("it")["webhooks"];
    assert_eq!(webhooks[1]["clientConfig"], json!({ "url": "u", "caBundle": "eA==" }));
    assert_eq!(webhooks[0]["clientConfig"], webhook("a")["clientConfig"]);

    let thing = json!({ "apiVersion": "example.test/v1", "kind": "Thing", "metadata": { "name": "t" },
        "spec": { "n": 1 }, "status": { "n": 1 } });
    let file = written(&cluster, "thing.json", &thing);
    fails(&cluster, &["create", "--validate=false", "-f", &file], "no matches for kind");
    cluster.put(&json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.test" }, "spec": { "group": "example.test",
            "names": { "plural": "things", "kind": "Thing" }, "scope": "Namespaced",
            "versions": [{ "name": "v1", "subresources": { "status": {} } }] } }));
    succeeds(&cluster, &["create", "--validate=false", "-f", &file]);
    let patch = r#"{"spec":{"n":2},"status":{"n":2}}"#;
    let change = ["patch", "things", "t", "--type=merge", "-p", patch];
    succeeds(&cluster, &change);
    let found = cluster.find("things", "default", "t").expect("it");
    assert_eq!((&found["spec"]["n"], &found["status"]["n"]), (&json!(2), &json!(1)), "the status is apart");
    assert_eq!(found["metadata"]["generation"], 2);
    succeeds(&cluster, &[&change[..], &["--subresource=status"]].concat());
    assert_eq!(cluster.find("things", "default", "t").expect("it")["status"]["n"], 2);
    fails(&cluster, &["patch", "things", "t", "--type=strategic", "-p", "{}"], "not supported");
}

/// Two owners, what both own, and what the first one owns alone.
fn owned(cluster: &Cluster) {
    let map = |name: &str, owners: &[&str]| {
        let reference = |owner: &&str| {
            let uid = cluster.find("configmaps", "shop", owner).expect("an owner")["metadata"]["uid"].clone();
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid })
        };
        cluster.put(
            &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "shop",
            "ownerReferences": owners.iter().map(reference).collect::<Vec<_>>() } }),
        );
    };
    map("first", &[]);
    map("second", &[]);
    map("alone", &["first"]);
    map("below", &["alone"]);
    map("shared", &["first", "second"]);
}

#[test]
fn the_garbage_collector_deletes_what_has_no_owner_left() {
    for (cascade, left) in [
        ("background", &["second", "shared"][..]),
        ("foreground", &["second", "shared"]),
        ("orphan", &["alone", "below", "second", "shared"]),
    ] {
        let cluster = Cluster::start();
        owned(&cluster);
        let how = format!("--cascade={cascade}");
        succeeds(&cluster, &["delete", "configmap", "first", "-n", "shop", "--wait=false", &how]);
        let all = cluster.all("configmaps");
        let names: Vec<&str> =
            all.iter().map(|map| map["metadata"]["name"].as_str().expect("a name")).collect();
        assert_eq!(names, left, "{cascade}");
        let shared = cluster.find("configmaps", "shop", "shared").expect("it");
        assert_eq!(shared["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
        cluster.remove("configmaps", "shop", "second");
        assert_eq!(cluster.find("configmaps", "shop", "shared"), None, "{cascade}: the last owner is gone");
    }
    let cluster = Cluster::start();
    let two = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "two", "ownerReferences": [
        { "apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true },
        { "apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true }] } });
    let file = written(&cluster, "two.json", &two);
    fails(
        &cluster,
        &["create", "--validate=false", "-f", &file],
        "only one reference can have Controller set to true",
    );
}
