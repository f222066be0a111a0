//! The API's strategic merge patch, as far as kubectl and the project's programs use it.

use super::kinds::Kind;
use serde_json::{Map, Value};

/// Lists whose items have a key field (`patchMergeKey`), in built-in kinds and in all metadata.
const KEYED: &[(&str, &str)] = &[
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("initContainers", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
    ("webhooks", "name"),
];

pub(crate) fn list_key(kind: &Kind, field: &str) -> Option<&'static str> {
    if field == "ownerReferences" {
        return Some("uid");
    }
    let row = KEYED.iter().find(|(name, _)| *name == field && is_built_in(kind))?;
    // `ports` (Service, container) and `secrets` (ServiceAccount) have different keys by kind; none is patched here.
    Some(row.1)
}

/// True unless a CustomResourceDefinition defines the kind, whose lists are then unknown.
pub(crate) fn is_built_in(kind: &Kind) -> bool {
    kind.group.is_empty() || kind.group.ends_with(".k8s.io") || !kind.group.contains('.')
}

/// Merges lists by their items' keys; null and `$patch: delete` remove values.
pub(crate) fn strategic(target: &mut Value, patch: &Value, kind: &Kind) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() || changes.get("$patch").is_some_and(|how| how == "replace") {
        *target = Value::Object(Map::new());
    }
    for (name, change) in changes.iter().filter(|(name, _)| !name.starts_with('$')) {
        match (change, list_key(kind, name)) {
            (Value::Null, _) => drop(target.as_object_mut().expect("an object").remove(name)),
            (Value::Array(items), Some(key)) => list(&mut target[name], items, key, kind),
            _ => strategic(&mut target[name], change, kind),
        }
    }
}

fn list(target: &mut Value, items: &[Value], key: &str, kind: &Kind) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let known = target.as_array_mut().expect("a list");
    for item in items {
        let at = known.iter().position(|old| old[key] == item[key]);
        match (at, item["$patch"] == "delete") {
            (Some(at), true) => drop(known.remove(at)),
            (None, true) => {}
            (Some(at), false) => strategic(&mut known[at], item, kind),
            (None, false) => {
                let mut new = Value::Null;
                strategic(&mut new, item, kind);
                known.push(new);
            }
        }
    }
}
