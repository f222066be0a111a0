//! What a manifest's author hardly intended: documents that are no objects, kinds that are almost known, pods without
//! containers. All of it passes as it was written: the API server reports more.

use mesh::pod::kinds;
use mesh::settings::nearest_value;
use serde_json::Value;

/// A document that Kubernetes would not take for an object.
pub(super) fn no_object(document: &Value) -> Option<String> {
    let is_text = |key: &str| document.get(key).is_some_and(Value::is_string);
    let lacks = match (document, is_text("apiVersion"), is_text("kind")) {
        (Value::Null, ..) | (_, true, true) => return None,
        (Value::Object(_), false, false) => "without apiVersion and kind",
        (Value::Object(_), false, true) => "without apiVersion",
        (Value::Object(_), true, false) => "without kind",
        _ => "and no mapping",
    };
    Some(format!("is not a Kubernetes object, {lacks}; left as it is"))
}

/// The known kind that an unknown one resembles; `what` begins with the kind.
pub(super) fn kind(what: &str) -> Option<&'static str> {
    let kind = what.split(' ').next().unwrap_or_default();
    let known: Vec<&'static str> = kinds().collect();
    // A known kind belongs to another group.
    if known.contains(&kind) { None } else { nearest_value(kind, &known) }
}

/// A pod, or a template, without any container.
pub(super) fn containers(pod: &Value) -> Option<String> {
    let Value::Object(spec) = pod.get("spec")? else { return None };
    let written = spec.get("containers");
    let text = match written {
        Some(Value::Array(items)) if items.is_empty() => "spec.containers is empty",
        None | Some(Value::Null) => "spec.containers is missing",
        // What has another form is a problem already.
        Some(_) => return None,
    };
    let near = spec.keys().find(|key| *key != "containers" && strsim::osa_distance(key, "containers") <= 2);
    let near = near.map(|key| format!("; did you mean it by {key}?")).unwrap_or_default();
    Some(format!("{text}, and the API server refuses a pod without containers{near}"))
}
