//! Texts of a pod that hold what YAML could take for structure, and where the pod says them.

use super::standin;
use crate::template::context::TemplateContext;
use serde_json::Value;

/// How many are reported.
const MAX_TEXTS: usize = 64;

/// The texts, each once, with its first place: an annotation by its name, others by their path.
pub(super) fn texts<'a>(context: &TemplateContext<'a>) -> Vec<(String, &'a str)> {
    let mut found = Vec::new();
    for (key, value) in
        context.pod.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten()
    {
        if standin::is_suspicious(key) {
            note(&mut found, "metadata.annotations", key);
        }
        walk(&mut found, key, value);
    }
    walk(&mut found, "pod", context.pod);
    walk(&mut found, "ProxyConfig", &context.sidecar.proxy_config);
    let names = [
        ("proxy's image", &context.sidecar.proxy_image),
        ("init container's image", &context.sidecar.init_image),
    ];
    for (place, text) in names {
        if standin::is_suspicious(text) {
            note(&mut found, place, text);
        }
    }
    found
}

fn note<'a>(found: &mut Vec<(String, &'a str)>, place: &str, text: &'a str) {
    if found.len() < MAX_TEXTS && !found.iter().any(|(_, known)| *known == text) {
        found.push((place.to_owned(), text));
    }
}

fn walk<'a>(found: &mut Vec<(String, &'a str)>, place: &str, value: &'a Value) {
    match value {
        Value::String(text) if standin::is_suspicious(text) => note(found, place, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(found, &format!("{place}[{index}]"), item);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                if standin::is_suspicious(key) {
                    note(found, place, key);
                }
                walk(found, &format!("{place}.{key}"), value);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
