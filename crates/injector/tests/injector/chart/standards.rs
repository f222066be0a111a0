//! Pod Security Standards of the chart's pods: pods without privileges on the node comply with all, other pods except as listed
//! in docker/README.md.
//!
//! The controls are from Kubernetes 1.34's "Pod Security Standards", for Linux.

use super::rendered::{chart, injector, root};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};
use testkit::cluster::security::{Refused, refused};

fn pods(values: &Value) -> BTreeMap<String, Value> {
    let all = chart("mesh", values);
    let creators = all.iter().filter(|object| !object["spec"]["template"].is_null());
    creators
        .map(|object| {
            let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
            let spec = object["spec"]["template"]["spec"].clone();
            // A rule of this project, beyond the standards.
            for container in spec["containers"].as_array().expect("a list") {
                assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{container:#}");
            }
            (name, spec)
        })
        .collect()
}

fn of_nodes(action: &str) -> BTreeMap<String, Value> {
    pods(&json!({ "injector": { "enabled": false },
        "cni": { "enabled": true, "image": "example/sidecar-init:1", "metrics": true },
        "repair": { "enabled": true, "image": "example/sidecar-node:1", "action": action } }))
}

#[test]
#[ignore = "compiles Helm"]
fn pods_without_rights_are_restricted() {
    let mut pods = pods(&injector(json!({ "operator": { "enabled": true } })));
    for action in ["label", "delete"] {
        let all = of_nodes(action);
        pods.insert(action.to_owned(), all["sidecar-node"].clone());
    }
    assert_eq!(pods.len(), 4);
    assert_ne!(refused(&json!({ "containers": [{}] })), Refused::default(), "an unrestricted pod");
    for (name, spec) in pods {
        assert_eq!(refused(&spec), Refused::default(), "{name}");
    }
}

#[test]
#[ignore = "compiles Helm"]
fn exceptions_to_baseline_are_those_of_the_table() {
    let document = fs::read_to_string(root().join("docker/README.md")).expect("the document");
    let (_, table) = document.split_once("| exception to `baseline` |").expect("the table");
    let (heads, rows) = table.split_once('\n').expect("rows");
    let pods = of_nodes("repair");
    let named: Vec<&str> = heads.split('|').map(|head| head.trim().trim_matches('`')).take(2).collect();
    assert_eq!(named, pods.keys().collect::<Vec<_>>());
    let mut stated: BTreeMap<&str, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for row in rows.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [control, cells @ .., _reason] = &cells[..] else { panic!("{row}") };
        for (name, cell) in named.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            let what = cell.split(", ").map(str::to_owned).collect();
            stated.entry(*name).or_default().insert(control.replace('`', ""), what);
        }
    }
    for (name, spec) in &pods {
        assert_eq!(refused(spec).baseline, stated[&**name], "{name}");
    }
}
