//! `values.yaml` and its schema have the same keys, and the chart has the programs' version.

use super::rendered::{Tool, call, root};
use serde_json::Value;
use std::{collections::BTreeSet, fs};
use testkit::command_line::ended;

fn read(name: &str) -> Value {
    let text = fs::read_to_string(root().join("docker/chart").join(name)).expect("a file of the chart");
    serde_saphyr::from_str(&text).expect("YAML")
}

/// Paths of keys with a default, as deep as the schema goes.
fn defaults(path: &str, schema: &Value, values: &Value, found: &mut BTreeSet<String>) {
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        if !values[key].is_null() {
            found.insert(path.clone());
        }
        defaults(&path, schema, &values[key], found);
    }
}

fn keys(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        found.insert(format!("{path}.{key}"));
        keys(&format!("{path}.{key}"), schema, found);
    }
}

#[test]
fn every_key_of_the_schema_has_a_default() {
    let (schema, values) = (read("values.schema.json"), read("values.yaml"));
    let (mut known, mut given) = (BTreeSet::new(), BTreeSet::new());
    keys("", &schema, &mut known);
    defaults("", &schema, &values, &mut given);
    // Parent charts set this key.
    known.remove(".global");
    assert!(known.len() > 30, "{known:?}");
    assert_eq!(known, given);
}

#[test]
fn every_object_of_the_schema_refuses_unknown_keys() {
    fn check(path: &str, schema: &Value) {
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            check(&format!("{path}.{key}"), inner);
        }
        if schema["properties"].is_object() {
            assert_eq!(schema["additionalProperties"], false, "{path}");
        }
    }
    let schema = read("values.schema.json");
    check("", &schema);
    for (name, definition) in schema["definitions"].as_object().expect("definitions") {
        check(name, definition);
    }
}

#[test]
#[ignore = "compiles Helm"]
fn helm_finds_no_fault_in_the_chart() {
    let everything = "injector.image=example/sidecar-injector:1,injector.proxyImage=example/proxyv2:1,\
        injector.operator.enabled=true,cni.enabled=true,cni.image=example/sidecar-init:1,\
        repair.enabled=true,repair.image=example/sidecar-node:1";
    let words = ["lint", "--strict", "docker/chart", "--set", everything];
    ended(call(Tool::Helm).args(words)).with(0);
}

#[test]
fn the_chart_has_the_version_of_the_programs() {
    let chart = read("Chart.yaml");
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}
