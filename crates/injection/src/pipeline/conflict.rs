//! Fields of which an object may have one: what was there gives way to what is merged over it.
//!
//! A strategic merge knows nothing of them. It would leave a variable with both a value and a source, a probe with two ways
//! of asking, a volume with two contents, which the API server refuses.

use super::pod::{CheckedPod, PodSpecItem, PodSpecList};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const VALUES: &[&str] = &["value", "valueFrom"];
const SOURCES: &[&str] = &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
const PROBES: [&str; 3] = ["readinessProbe", "livenessProbe", "startupProbe"];
const HOOKS: [&str; 2] = ["preStop", "postStart"];

/// Resolves the conflicts that a patch has caused in the containers of a merged pod.
pub(super) fn settle(merged: &mut CheckedPod, patch: &Value) {
    let given = |list: PodSpecList| patch.get("spec")?.get(list.field())?.as_array();
    for list in PodSpecList::OF_CONTAINERS {
        let Some(given) = given(list) else { continue };
        let places = merged.places(list);
        for over in given.iter().filter_map(Value::as_object) {
            let name = over.get("name").and_then(Value::as_str);
            if let Some(at) = name.and_then(|name| places.get(name)) {
                container(merged.items_mut(list)[*at].fields_mut(), over);
            }
        }
    }
}

pub(super) fn container(merged: &mut Map<String, Value>, over: &Map<String, Value>) {
    if let (Some(Value::Array(env)), Some(Value::Array(others))) = (merged.get_mut("env"), over.get("env")) {
        // Of two with one name, the later one counts.
        let others: BTreeMap<&str, &Map<String, Value>> =
            others.iter().filter_map(|other| Some((other.name(), other.as_object()?))).collect();
        for variable in env.iter_mut().filter_map(Value::as_object_mut) {
            let name = variable.get("name").and_then(Value::as_str).unwrap_or_default();
            if let Some(other) = others.get(name) {
                one_of(variable, other, VALUES);
                within(variable, other, "valueFrom", |fields, over| one_of(fields, over, SOURCES));
            }
        }
    }
    for probe in PROBES {
        within(merged, over, probe, |fields, over| one_of(fields, over, HANDLERS));
    }
    within(merged, over, "lifecycle", |fields, over| {
        for hook in HOOKS {
            within(fields, over, hook, |fields, over| one_of(fields, over, HANDLERS));
        }
    });
}

fn within(
    merged: &mut Map<String, Value>,
    over: &Map<String, Value>,
    field: &str,
    settle: impl Fn(&mut Map<String, Value>, &Map<String, Value>),
) {
    if let (Some(Value::Object(merged)), Some(Value::Object(over))) = (merged.get_mut(field), over.get(field))
    {
        settle(merged, over);
    }
}

/// If a patch sets one of the fields, those that it does not set go. A null of a patch deletes, and sets nothing.
fn one_of(merged: &mut Map<String, Value>, over: &Map<String, Value>, fields: &[&str]) {
    let given = |field: &str| over.get(field).is_some_and(|value| !value.is_null());
    if fields.iter().any(|field| given(field)) {
        merged.retain(|field, _| given(field) || !fields.contains(&field.as_str()));
    }
}

/// Volumes of which the user's own content is another than the overlay's: the user's stay as he wrote them. Returns their
/// names.
pub(super) fn volumes(merged: &mut CheckedPod, own: &CheckedPod, overlay: &CheckedPod) -> Vec<String> {
    let content = |volume: &Value| -> Vec<String> {
        let fields = volume.as_object().into_iter().flat_map(Map::keys);
        fields.filter(|field| *field != "name").cloned().collect()
    };
    let (own, overlay) = (own.by_name(PodSpecList::Volumes), overlay.by_name(PodSpecList::Volumes));
    let mut found = Vec::new();
    for volume in merged.items_mut(PodSpecList::Volumes) {
        let name = volume.name();
        if let (Some(own), Some(other)) = (own.get(name), overlay.get(name))
            && content(own) != content(other)
        {
            found.push(name.to_owned());
            *volume = (*own).clone();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: &Value) -> CheckedPod {
        CheckedPod::read("pod", json!({"spec": spec})).expect("a pod")
    }

    #[test]
    fn the_later_of_two_that_exclude_each_other_stays() {
        let both = json!({
            "name": "a",
            "env": [
                {"name": "x", "value": "1", "valueFrom": {"fieldRef": {}}},
                {"name": "y", "valueFrom": {"fieldRef": {}, "secretKeyRef": {}}},
                {"name": "z", "value": "1"},
            ],
            "readinessProbe": {"httpGet": {}, "tcpSocket": {}, "periodSeconds": 1},
            "lifecycle": {"preStop": {"exec": {}, "sleep": {}}},
        });
        let over = json!({
            "name": "a",
            "env": [
                {"name": "x", "valueFrom": {"fieldRef": {}}},
                {"name": "x", "value": "1"},
                {"name": "y", "valueFrom": {"secretKeyRef": {}}},
            ],
            "readinessProbe": {"tcpSocket": {}},
            "lifecycle": {"preStop": {"sleep": {}}},
        });
        let expected = json!({
            "name": "a",
            "env": [
                {"name": "x", "value": "1"},
                {"name": "y", "valueFrom": {"secretKeyRef": {}}},
                {"name": "z", "value": "1"},
            ],
            "readinessProbe": {"tcpSocket": {}, "periodSeconds": 1},
            "lifecycle": {"preStop": {"sleep": {}}},
        });
        let mut merged = pod(&json!({"containers": [both]}));
        settle(&mut merged, &json!({"spec": {"containers": [over]}}));
        assert_eq!(merged, pod(&json!({"containers": [expected]})));
    }
}
