//! What differs between two sets of objects, whose order does not count.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Panics with each difference: the object, the path in it, and both values.
pub(super) fn same(what: &str, chart: &[Value], other: &[Value]) {
    let differences = between(chart, other);
    assert!(differences.is_empty(), "{what}: the chart differs\n{}", differences.join("\n"));
}

fn between(chart: &[Value], other: &[Value]) -> Vec<String> {
    let (chart, other) = (by_name(chart), by_name(other));
    let names: BTreeSet<&String> = chart.keys().chain(other.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        match (chart.get(name), other.get(name)) {
            (Some(chart), Some(other)) => compare(name, chart, other, &mut found),
            (Some(_), None) => found.push(format!("{name}: is in the chart alone")),
            (None, _) => found.push(format!("{name}: is not in the chart")),
        }
    }
    found
}

fn by_name(objects: &[Value]) -> BTreeMap<String, Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = BTreeMap::new();
    for object in objects {
        let metadata = &object["metadata"];
        let name = [&object["kind"], &metadata["namespace"], &metadata["name"]].map(text).join(" ");
        assert!(found.insert(name.clone(), compared(object)).is_none(), "{name} is there twice");
    }
    found
}

/// An object as it counts: texts of a ConfigMap that are YAML by what they say, and a CustomResourceDefinition without the
/// annotation by which `helm uninstall` keeps it.
fn compared(object: &Value) -> Value {
    let mut object = object.clone();
    if object["kind"] == "ConfigMap" {
        for text in object["data"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            *text = serde_saphyr::from_str(text.as_str().expect("a text")).expect("YAML");
        }
    }
    if object["kind"] == "CustomResourceDefinition" {
        let annotations =
            object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("annotations"));
        if let Some(annotations) = annotations {
            assert_eq!(annotations, serde_json::json!({ "helm.sh/resource-policy": "keep" }));
        }
    }
    object
}

fn compare(path: &str, chart: &Value, other: &Value, found: &mut Vec<String>) {
    match (chart, other) {
        (Value::Object(chart), Value::Object(other)) => {
            let keys: BTreeSet<&String> = chart.keys().chain(other.keys()).collect();
            for key in keys {
                let of = |object: &Map<String, Value>| object.get(key).cloned().unwrap_or_default();
                compare(&format!("{path}.{key}"), &of(chart), &of(other), found);
            }
        }
        (Value::Array(chart), Value::Array(other)) if chart.len() == other.len() => {
            for (at, (chart, other)) in chart.iter().zip(other).enumerate() {
                compare(&format!("{path}[{at}]"), chart, other, found);
            }
        }
        _ if chart == other => {}
        _ => found.push(format!("{path}: {chart} in the chart, {other} outside")),
    }
}

#[test]
fn each_difference_is_named() {
    let object = |name: &str, replicas: u8| {
        serde_json::json!({ "kind": "Deployment",
        "metadata": { "namespace": "a", "name": name }, "spec": { "replicas": replicas, "list": [1, replicas] } })
    };
    assert_eq!(
        between(&[object("x", 1), object("y", 1)], &[object("y", 1), object("x", 1)]),
        Vec::<String>::new()
    );
    let expected = [
        "Deployment a x: is in the chart alone",
        "Deployment a y.spec.list[1]: 1 in the chart, 2 outside",
        "Deployment a y.spec.replicas: 1 in the chart, 2 outside",
        "Deployment a z: is not in the chart",
    ];
    assert_eq!(between(&[object("x", 1), object("y", 1)], &[object("y", 2), object("z", 1)]), expected);
}
