//! Shared test code: configurations, and reference implementations independent of the crate.

use injection::Configuration;
use injection::configuration::{ConfigurationText, Texts};
use mesh::Problems;
use serde_json::{Map, Value};

pub(crate) mod kubectl;
pub(crate) mod random;
pub(crate) mod rfc6902;

/// An empty string counts as absent.
pub(crate) fn read(config: &str, values: &str, mesh: &str) -> Result<Configuration, Problems> {
    let text = |name, text| (!str::is_empty(text)).then(|| ConfigurationText::new(name, text));
    let texts =
        Texts { config: text("config", config), values: text("values", values), mesh: text("mesh", mesh) };
    Configuration::read(&texts)
}

pub(crate) fn object(fields: Vec<(&str, Option<Value>)>) -> Value {
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect::<Map<_, _>>())
}

pub(crate) fn keyed(items: Vec<Value>, key: &str) -> Value {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !kept.iter().any(|other| other.get(key) == item.get(key)) {
            kept.push(item);
        }
    }
    Value::Array(kept)
}

/// The value at a path of fields, and of items by name or index; null if there is none.
pub(crate) fn find<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split(" > ").fold(value, |value, step| match value {
        Value::Array(items) => match step.parse::<usize>() {
            Ok(at) => items.get(at).unwrap_or(&Value::Null),
            Err(_) => items.iter().find(|item| item["name"] == step).unwrap_or(&Value::Null),
        },
        other => other.get(step).unwrap_or(&Value::Null),
    })
}
