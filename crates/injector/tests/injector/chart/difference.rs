//! Differences between two sets of objects, in any order.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Panics with the differences, as a patch from `chart` to `other`.
pub(super) fn same(what: &str, chart: &[Value], other: &[Value]) {
    let patch = json_patch::diff(&by_name(chart), &by_name(other));
    assert!(patch.is_empty(), "{what}: the chart differs\n{patch}");
}

fn by_name(objects: &[Value]) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = BTreeMap::new();
    for object in objects {
        let metadata = &object["metadata"];
        let name = [&object["kind"], &metadata["namespace"], &metadata["name"]].map(text).join(" ");
        assert!(found.insert(name.clone(), compared(object)).is_none(), "{name} exists twice");
    }
    json!(found)
}

/// Object for comparison: a ConfigMap's YAML is parsed, and a CustomResourceDefinition loses the annotation that makes `helm
/// uninstall` keep it.
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
            assert_eq!(annotations, json!({ "helm.sh/resource-policy": "keep" }));
        }
    }
    object
}
