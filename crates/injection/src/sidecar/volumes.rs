//! Volumes and mounts that a pod has for its proxy, as annotations hold them: JSON, a mapping by names or a list.
//!
//! They become part of a patch, so that nothing in them may direct its merging. All else of them is Kubernetes' to check.

use super::annotations::Annotations;
use serde_json::Value;

/// The items of an annotation, each with its name; `needs` are the texts without which an item means nothing.
pub(super) fn read(annotations: &mut Annotations<'_>, name: &str, needs: &[&str]) -> Vec<Value> {
    let Some(text) = annotations.get(name).filter(|text| !text.trim().is_empty()) else { return Vec::new() };
    let expected =
        "expected a mapping by names or a list, such as {\"cache\": {..}} or [{\"name\": \"cache\", ..}]";
    let items: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(items)) => items,
        Ok(Value::Object(named)) => named.into_iter().map(named_item).collect(),
        Ok(_) => {
            annotations.problem(name, text, format!("is neither a mapping nor a list; {expected}"));
            return Vec::new();
        }
        Err(error) => {
            annotations.problem(name, text, format!("is not JSON: {error}; {expected}"));
            return Vec::new();
        }
    };
    for item in &items {
        let lacks = |field: &&&str| item.get(field).and_then(Value::as_str).is_none_or(str::is_empty);
        if !item.is_object() {
            annotations.problem(name, &item.to_string(), "is not a mapping; expected one");
        } else if let Some(field) = needs.iter().find(lacks) {
            annotations.problem(name, &item.to_string(), format!("lacks {field}, a text"));
        } else if let Some(word) = directive(item) {
            let text = format!("has {word}, which would direct how it is merged; remove it");
            annotations.problem(name, &item.to_string(), text);
        }
    }
    items
}

/// The value of a key, with the key as its name unless it has one.
fn named_item((name, mut item): (String, Value)) -> Value {
    if let Value::Object(fields) = &mut item {
        fields.entry("name").or_insert(name.into());
    }
    item
}

/// A key by which a patch would say how it is merged.
fn directive(value: &Value) -> Option<&str> {
    match value {
        Value::Object(fields) => {
            fields.iter().find_map(
                |(key, value)| {
                    if key.starts_with('$') { Some(key.as_str()) } else { directive(value) }
                },
            )
        }
        Value::Array(items) => items.iter().find_map(directive),
        _ => None,
    }
}
