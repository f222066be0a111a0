//! The operator as a service account, whose roles the API server holds it to.

use super::program::{Operator, cluster, environment, shop, until_subsets};
use serde_json::{Value, json};
use std::process::Command;
use testkit::cluster::Cluster;
use testkit::until;

const ARGUMENTS: [&str; 3] =
    ["--all-namespaces", "--lease=sidecar-injector-environment", "--lease-namespace=sidecar-injector"];

/// What is printed to install the operator, without what runs.
fn roles(cluster: &Cluster) -> Vec<Value> {
    let printed = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
        .args([
            "manifests",
            "--image",
            "example/injector:1",
            "--proxy-image",
            "example/proxy:1",
            "--operator",
            "-o",
            "json",
        ])
        .output()
        .expect("it starts");
    let list: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
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
fn the_printed_roles_are_enough() {
    let cluster = cluster();
    shop(&cluster);
    roles(&cluster).iter().for_each(|role| drop(cluster.put(role)));
    let account = cluster.account("sidecar-injector", "sidecar-injector-environment");
    let operator = Operator::start_as(&account, &ARGUMENTS);
    until_subsets(&cluster, &["base", "base-red"]);
    environment(&cluster, "demo", &json!({ "envHeader": { "autoInject": true } }));
    until("there is a filter", || cluster.find("envoyfilters", "shop", "demo").is_some());
    assert_eq!(operator.lines("the watch failed") + operator.lines("not written"), 0, "{}", operator.log());
    assert!(operator.terminate());
}

#[test]
fn a_missing_right_is_reported_and_waited_for() {
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
    let ready = || {
        let one = cluster.find("virtualenvironments", "shop", "demo").expect("it");
        one["status"]["conditions"][1].clone()
    };
    until("it is told", || ready()["reason"] == "WriteRefused");
    let message = ready()["message"].as_str().expect("a text").to_owned();
    assert!(message.contains("cannot create resource \"virtualservices\""), "{message}");
    all.iter().for_each(|role| drop(cluster.put(role)));
    until_subsets(&cluster, &["base", "base-red"]);
    until("it is told", || ready()["reason"] == "Routed");
    assert!(operator.terminate());
}
