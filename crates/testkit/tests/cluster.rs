//! The played server itself, tried with kubectl and with the client that our programs use.

use serde_json::{Value, json};
use std::fs;
use testkit::cluster::{Cluster, Fault, selects};
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
fn kubectl_creates_reads_changes_and_deletes() {
    let cluster = Cluster::start();
    succeeds(&cluster, &["create", "configmap", "one", "--from-literal=a=1"]);
    assert_eq!(succeeds(&cluster, &["get", "configmap", "one", "-o", "jsonpath={.data.a}"]), "1");
    fails(&cluster, &["create", "configmap", "one"], "already exists");
    fails(&cluster, &["create", "configmap", "one", "-n", "nowhere"], "namespaces \"nowhere\" not found");
    succeeds(
        &cluster,
        &["patch", "configmap", "one", "--type=merge", "-p", r#"{"data":{"a":null,"b":"2"}}"#],
    );
    succeeds(
        &cluster,
        &["patch", "configmap", "one", "--type=json", "-p", r#"[{"op":"add","path":"/data/c","value":"3"}]"#],
    );
    assert_eq!(
        cluster.find("configmaps", "default", "one").expect("it")["data"],
        json!({ "b": "2", "c": "3" })
    );
    succeeds(&cluster, &["label", "configmap", "one", "x=y", "--dry-run=server"]);
    assert_eq!(cluster.find("configmaps", "default", "one").expect("it")["metadata"]["labels"], Value::Null);
    succeeds(&cluster, &["delete", "configmap", "one", "--wait=false"]);
    fails(&cluster, &["get", "configmap", "one"], "not found");
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

#[test]
fn watches_tell_what_selectors_take_and_survive_a_cut() {
    use futures::{StreamExt, pin_mut};
    use kube::{Api, Client, Config, config::KubeConfigOptions, runtime::watcher};
    let cluster = Cluster::start();
    let config_map = |name: &str, label: &str| {
        cluster.put(&json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": "shop", "labels": { "app": label } } }))
    };
    config_map("first", "yes");
    cluster.fault("list", "configmaps", Fault::Refuse(500));
    cluster.fault("watch", "configmaps", Fault::Gone);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let kubeconfig = kube::config::Kubeconfig::read_from(cluster.kubeconfig()).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a configuration")).expect("a client");
        let api: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client, "shop");
        let stream = watcher(api, watcher::Config::default().labels("app=yes"));
        pin_mut!(stream);
        let mut printed = String::new();
        let mut listen_until = async |end: &str| {
            printed.clear();
            while !printed.ends_with(end) {
                printed += &match stream.next().await.expect("a watch has no end") {
                    Ok(watcher::Event::Init) => " init".to_owned(),
                    Ok(watcher::Event::InitDone) => " done".to_owned(),
                    Ok(watcher::Event::InitApply(map)) => {
                        format!(" is-{}", map.metadata.name.expect("a name"))
                    }
                    Ok(watcher::Event::Apply(map)) => format!(" now-{}", map.metadata.name.expect("a name")),
                    Ok(watcher::Event::Delete(map)) => {
                        format!(" gone-{}", map.metadata.name.expect("a name"))
                    }
                    Err(_) => " error".to_owned(),
                };
            }
            printed.clone()
        };
        assert_eq!(listen_until("done").await, " init error init is-first done", "the list failed first");
        assert_eq!(listen_until("done").await, " error init is-first done", "the version was too old");
        config_map("other", "no");
        config_map("second", "yes");
        assert_eq!(listen_until("second").await, " now-second");
        cluster.cut();
        config_map("first", "no");
        let printed = listen_until("first").await;
        assert!(printed.ends_with(" gone-first") && !printed.contains("init"), "{printed}");
        cluster.bookmark();
        cluster.compact();
        cluster.cut();
        assert!(listen_until("done").await.ends_with(" init is-second done"), "what was missed is listed");
    });
}

#[test]
fn labels_are_selected_as_the_api_documents_it() {
    let labels = json!({ "a": "1" });
    let asks = |operator: &str, key: &str| {
        selects(
            &json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": ["1"] }] }),
            &labels,
        )
    };
    let found =
        ["In", "NotIn", "Exists", "DoesNotExist"].map(|operator| (asks(operator, "a"), asks(operator, "b")));
    assert_eq!(found, [(true, false), (false, true), (true, false), (false, true)]);
    assert!(
        selects(&Value::Null, &Value::Null) && !selects(&json!({ "matchLabels": { "a": "2" } }), &labels)
    );
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

#[test]
fn service_accounts_may_do_what_roles_grant() {
    let cluster = Cluster::start();
    let kubectl = |arguments: &[&str]| {
        let account = cluster.account("shop", "reader");
        let words = ["--kubeconfig", word(&account)];
        cluster.kubectl(&[arguments, &words].concat())
    };
    cluster.namespace("shop", &json!({}));
    let get = ["get", "configmaps", "-n", "shop"];
    let (succeeded, events) = kubectl(&get);
    let expected = "User \"system:serviceaccount:shop:reader\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"shop\"";
    assert!(!succeeded && events.contains(expected), "{events}");
    let rbac = "rbac.authorization.k8s.io/v1";
    cluster.put(
        &json!({ "apiVersion": rbac, "kind": "Role", "metadata": { "name": "read", "namespace": "shop" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }] }),
    );
    cluster.put(&json!({ "apiVersion": rbac, "kind": "RoleBinding", "metadata": { "name": "read", "namespace": "shop" },
        "roleRef": { "kind": "Role", "name": "read" },
        "subjects": [{ "kind": "ServiceAccount", "name": "reader", "namespace": "shop" }] }));
    let (succeeded, events) = kubectl(&get);
    assert!(succeeded, "{events}");
    for other in [&["get", "configmaps", "-n", "default"][..], &["get", "configmap", "a", "-n", "shop"]] {
        assert!(!kubectl(other).0, "{other:?}");
    }
    // A token that was exchanged is worth nothing.
    let account = cluster.account("shop", "reader");
    let token = fs::read_to_string(cluster.file("shop-reader.token")).expect("a token");
    cluster.exchange_token("shop", "reader");
    fs::write(cluster.file("shop-reader.token"), token).expect("written");
    let (succeeded, events) = cluster.kubectl(&[&get[..], &["--kubeconfig", word(&account)]].concat());
    assert!(!succeeded && events.contains("Unauthorized"), "{events}");
}
