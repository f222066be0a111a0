//! The operator as a service account, restricted to its roles by the API server.

use super::program::{Operator, cluster, environment, routed, shop, until_subsets, until_told, workload};
use crate::PROGRAM;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testkit::cluster::{Cluster, Rule};
use testkit::until;

const ARGUMENTS: [&str; 3] =
    ["--all-namespaces", "--lease=sidecar-injector-environment", "--lease-namespace=sidecar-injector"];

fn roles(cluster: &Cluster) -> Vec<Value> {
    let images = ["--image", "example/injector:1", "--proxy-image", "example/proxy:1"];
    let words = [&["manifests", "--operator", "-o", "json"][..], &images].concat();
    let list = PROGRAM.run(&words).with(0).json();
    let all = list["items"].as_array().expect("a list").clone();
    let kinds = ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];
    let is_of_operator = |object: &Value| object["metadata"]["name"] == "sidecar-injector-environment";
    let found: Vec<Value> = all
        .into_iter()
        .filter(|object| kinds.iter().any(|kind| object["kind"] == **kind) && is_of_operator(object))
        .collect();
    assert_eq!(found.len(), 4);
    cluster.namespace("sidecar-injector", &json!({}));
    found
}

#[test]
fn the_printed_roles_are_sufficient_and_minimal() {
    let cluster = cluster();
    shop(&cluster);
    let roles = roles(&cluster);
    roles.iter().for_each(|role| drop(cluster.put(role)));
    let account = cluster.account("sidecar-injector", "sidecar-injector-environment");
    let operator = Operator::start_as(&account, &ARGUMENTS);
    until_subsets(&cluster, &["base", "base-red"]);
    environment(&cluster, "demo", &json!({ "envHeader": { "autoInject": true } }));
    until("there is a filter", || cluster.find("envoyfilters", "shop", "demo").is_some());
    environment(&cluster, "demo", &json!({ "envHeader": { "autoInject": true, "name": "X-Env" } }));
    until("the filter has changed", || {
        cluster.find("envoyfilters", "shop", "demo").expect("it")["metadata"]["labels"]["envHeader"]
            == "X-Env"
    });
    workload(&cluster, "Deployment", "base.blue");
    until("there is a further subset", || routed(&cluster).is_some_and(|(subsets, _)| subsets.len() == 3));
    // The garbage collector removes objects of a deleted VirtualEnvironment; the operator removes superfluous objects.
    environment(&cluster, "demo", &json!({}));
    cluster.remove("services", "shop", "cart");
    until("no filter remains", || {
        cluster.all("envoyfilters").is_empty() && cluster.all("destinationrules").is_empty()
    });
    cluster.remove("virtualenvironments", "shop", "demo");
    until("objects are gone", || {
        cluster.all("envoyfilters").is_empty() && cluster.all("virtualservices").is_empty()
    });
    until("Lease renewal", || cluster.count("update", "leases") > 0);
    for message in ["the watch failed", "cannot write"] {
        assert_eq!(operator.line(message), None);
    }
    assert!(operator.terminate());
    let query = cluster.requested();
    let list = |rule: &Value, field: &str| -> Vec<String> {
        serde_json::from_value(rule[field].clone()).expect("a list of texts")
    };
    let mut granted: BTreeSet<Rule> = BTreeSet::new();
    for rule in roles.iter().flat_map(|role| role["rules"].as_array()).flatten() {
        for group in list(rule, "apiGroups") {
            for resource in list(rule, "resources") {
                let verbs = list(rule, "verbs").into_iter();
                granted.extend(verbs.map(|verb| (group.clone(), resource.clone(), verb)));
            }
        }
    }
    let more: Vec<_> = query.difference(&granted).collect();
    assert!(more.is_empty(), "requested, but not granted: {more:?}");
    let less: Vec<_> = granted.difference(&query).collect();
    assert!(less.is_empty(), "granted, but not requested: {less:?}");
    assert_eq!(cluster.all("leases").len(), 1);
    assert_eq!(cluster.all("virtualenvironments"), [Value::Null; 0]);
}

#[test]
fn a_missing_right_is_reported_and_awaited() {
    let cluster = cluster();
    shop(&cluster);
    let all = roles(&cluster);
    for role in &all {
        let mut less = role.clone();
        for rule in less["rules"].as_array_mut().into_iter().flatten() {
            if rule["resources"][0] == "virtualservices" {
                rule["verbs"] = json!(["list", "watch"]);
            }
        }
        cluster.put(&less);
    }
    let account = cluster.account("sidecar-injector", "sidecar-injector-environment");
    let operator = Operator::start_as(&account, &ARGUMENTS);
    let message = until_told(&cluster, "demo", "WriteRefused");
    assert!(message.contains("cannot create resource \"virtualservices\""), "{message}");
    all.iter().for_each(|role| drop(cluster.put(role)));
    until_subsets(&cluster, &["base", "base-red"]);
    until_told(&cluster, "demo", "Routed");
    assert!(operator.terminate());
}
