//! Istio's defaults, which `defaults.yaml` holds: the values of its chart and its MeshConfig, as far as templates ask for them.
//!
//! They differ in one thing: functions of Istio's agent, rewritten probes and merged metrics, are off until a text asks for them.

use serde_json::Value;
use std::sync::LazyLock;

/// Mappings that are not merged with their default: they replace it.
const WHOLE: [&str; 1] = ["resources"];

/// The list of MeshConfig whose items are known by their names: one that is given replaces the default of its name alone.
const NAMED: &str = "extensionProviders";

static DEFAULTS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    let documents = mesh::pod::values("defaults.yaml", include_str!("defaults.yaml"));
    documents.ok().and_then(|documents| documents.try_into().ok()).expect("two documents of YAML")
});

pub(crate) fn values() -> &'static Value {
    &DEFAULTS[0]
}

/// MeshConfig, by the names of its JSON form.
pub(crate) fn mesh() -> &'static Value {
    &DEFAULTS[1]
}

/// Given values merged over the defaults, and the paths of values that are not a mapping though their defaults are. A null
/// counts as an absent key, so that the default applies. A key of `WHOLE` has no default once it is given, so that its null
/// leaves it unset.
pub(crate) fn over(given: &Value, defaults: &Value) -> (Value, Vec<String>) {
    let mut wrong = Vec::new();
    let merged = merged(given, defaults.clone(), "", &mut wrong);
    (merged, wrong)
}

fn merged(given: &Value, default: Value, path: &str, wrong: &mut Vec<String>) -> Value {
    let mut under = match (default, given) {
        (Value::Object(under), _) => under,
        (Value::Array(under), Value::Array(given)) if path == NAMED => return by_name(under, given),
        _ => return without_nulls(given),
    };
    let Value::Object(given) = given else {
        wrong.push(path.to_owned());
        return Value::Object(under);
    };
    for (key, value) in given {
        let is_whole = WHOLE.contains(&key.as_str());
        if value.is_null() {
            if is_whole {
                under.remove(key);
            }
            continue;
        }
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let merged = match under.remove(key) {
            Some(default) if !is_whole => merged(value, default, &path, wrong),
            Some(_) | None => without_nulls(value),
        };
        under.insert(key.clone(), merged);
    }
    Value::Object(under)
}

fn by_name(mut under: Vec<Value>, given: &[Value]) -> Value {
    for item in given.iter().map(without_nulls) {
        match under.iter_mut().find(|known| known["name"] == item["name"]) {
            Some(known) => *known = item,
            None => under.push(item),
        }
    }
    Value::Array(under)
}

/// Templates that print a null would make a patch that deletes the field, or no YAML.
pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(set.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}
