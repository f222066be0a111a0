//! Settings within a network configuration, by the names of their flags.

use super::fields::PluginFields;
use mesh::{InputProblem, pod::configured, sources::Raw};
use serde_json::{Value, value::RawValue};
use std::collections::BTreeMap;

/// Reads an object of settings. Values are strings, numbers, booleans, or lists of them.
///
/// # Errors
/// All problems of its form and names. Values are validated later.
pub(super) fn layer(key: &str, value: &RawValue) -> Result<Raw, Vec<InputProblem>> {
    let fields = PluginFields::parse(value.get())
        .map_err(|error| vec![InputProblem::of(key, format!("{error}; expected an object of settings"))])?;
    let twice = |name: &str| InputProblem::of(&format!("{key}.{name}"), "is there twice; remove one");
    let mut problems: Vec<InputProblem> = fields.doubles().map(twice).collect();
    let mut values = BTreeMap::new();
    for (name, value) in fields.iter() {
        match serde_json::from_str(value.get()).ok().as_ref().and_then(text) {
            Some(text) => drop(values.insert(name.to_owned(), text)),
            None => {
                let form = "expected a string, a number, true, false, or a list of strings and numbers";
                problems.push(InputProblem::of(
                    &format!("{key}.{name}"),
                    format!("is not a value of a setting; {form}"),
                ));
            }
        }
    }
    let read = configured(key, &values);
    problems.extend(read.problems());
    if problems.is_empty() { Ok(read.raw) } else { Err(problems) }
}

/// A value as its flag would be given.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(scalar).collect();
            Some(items?.join(","))
        }
        other => scalar(other),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
