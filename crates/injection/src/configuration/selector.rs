//! Label selectors of the configuration in Kubernetes' format. A selector that Kubernetes would refuse never matches, as in
//! Istio, and is reported as a warning. Istio decodes its configuration less strictly than the API server decodes webhooks:
//! unknown keys have no effect, and numbers and booleans become strings.

use crate::decision::{LabelRequirement, LabelSelector, Operator};
use crate::syntax::{is_label_key, is_label_value};
use mesh::data::document::scalar;
use serde_json::Value;

const KEYS: [&str; 2] = ["matchLabels", "matchExpressions"];

pub(super) fn read(written: &Value) -> Result<LabelSelector, String> {
    parse(written, scalar)
}

pub(super) fn unknown_keys(written: &Value) -> impl Iterator<Item = &str> {
    let keys = written.as_object().into_iter().flat_map(serde_json::Map::keys);
    keys.map(String::as_str).filter(|key| !KEYS.contains(key))
}

/// Parses a selector; `text` reads a string, or returns `None` for a value of another type.
fn parse(written: &Value, text: fn(&Value) -> Option<String>) -> Result<LabelSelector, String> {
    let Value::Object(map) = written else {
        return Err("it is not a mapping; expected matchLabels or matchExpressions".to_owned());
    };
    let mut requirements = Vec::new();
    match map.get("matchLabels") {
        None | Some(Value::Null) => {}
        Some(Value::Object(labels)) => {
            for (key, value) in labels {
                let value = text(value).ok_or(format!("the value of {key:?} is not a string"))?;
                requirements.push(requirement(key, "In", vec![value])?);
            }
        }
        Some(_) => return Err("matchLabels is not a mapping of strings".to_owned()),
    }
    match map.get("matchExpressions") {
        None | Some(Value::Null) => {}
        Some(Value::Array(expressions)) => {
            for expression in expressions {
                requirements.push(of_expression(expression, text)?);
            }
        }
        Some(_) => return Err("matchExpressions is not a list".to_owned()),
    }
    if requirements.is_empty() {
        return Err(match unknown_keys(written).next() {
            Some(key) => {
                format!("{key:?} is not part of a selector; expected matchLabels or matchExpressions")
            }
            None => "it has no conditions".to_owned(),
        });
    }
    Ok(LabelSelector(requirements))
}

/// A webhook's selector; an empty one matches everything. `None` if Kubernetes would refuse it.
pub(crate) fn of_webhook(written: &Value) -> Option<LabelSelector> {
    match written {
        Value::Null => Some(LabelSelector::default()),
        Value::Object(map) if map.values().all(is_empty) => Some(LabelSelector::default()),
        other if unknown_keys(other).next().is_some() => None,
        other => parse(other, string).ok(),
    }
}

/// Reads a string like the API server: null is empty.
fn string(value: &Value) -> Option<String> {
    value.as_str().or(value.is_null().then_some("")).map(str::to_owned)
}

pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn of_expression(expression: &Value, text: fn(&Value) -> Option<String>) -> Result<LabelRequirement, String> {
    let field = |name: &str| expression.get(name).and_then(text);
    let key = field("key").ok_or("an expression has no key")?;
    let operator = field("operator").ok_or(format!("the expression for {key:?} has no operator"))?;
    let values = match expression.get("values") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(text).collect(),
        Some(_) => None,
    };
    requirement(&key, &operator, values.ok_or(format!("the values for {key:?} are not a list of strings"))?)
}

fn requirement(key: &str, operator: &str, values: Vec<String>) -> Result<LabelRequirement, String> {
    if !is_label_key(key) {
        return Err(format!("{key:?} is not a label key"));
    }
    if let Some(value) = values.iter().find(|value| !(value.is_empty() || is_label_value(value))) {
        return Err(format!("{value:?} is not a label value"));
    }
    let operator = match (operator, values.is_empty()) {
        ("In", false) => Operator::In(values),
        ("NotIn", false) => Operator::NotIn(values),
        ("Exists", true) => Operator::Exists,
        ("DoesNotExist", true) => Operator::DoesNotExist,
        ("In" | "NotIn", true) => return Err(format!("{operator} for {key:?} has no values")),
        ("Exists" | "DoesNotExist", false) => return Err(format!("{operator} for {key:?} takes no values")),
        _ => {
            return Err(format!(
                "{operator:?} is not an operator; expected In, NotIn, Exists or DoesNotExist"
            ));
        }
    };
    Ok(LabelRequirement { key: key.to_owned(), operator })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_that_kubernetes_refuses_has_an_error() {
        let one = |expression: Value| json!({"matchExpressions": [expression]});
        for (written, expected) in [
            (json!([]), "it is not a mapping; expected matchLabels or matchExpressions"),
            (
                json!({"matchLabel": {}}),
                "\"matchLabel\" is not part of a selector; expected matchLabels or matchExpressions",
            ),
            (json!({"matchLabels": {"a": [1]}}), "the value of \"a\" is not a string"),
            (json!({"matchLabels": []}), "matchLabels is not a mapping of strings"),
            (json!({"matchLabels": null, "matchExpressions": {}}), "matchExpressions is not a list"),
            (json!({}), "it has no conditions"),
            (json!({"matchLabels": {}, "matchExpressions": []}), "it has no conditions"),
            (one(json!({"operator": "Exists"})), "an expression has no key"),
            (one(json!({"key": "a"})), "the expression for \"a\" has no operator"),
            (
                one(json!({"key": "a", "operator": "In", "values": "b"})),
                "the values for \"a\" are not a list of strings",
            ),
            (
                one(json!({"key": "a", "operator": "In", "values": ["b", []]})),
                "the values for \"a\" are not a list of strings",
            ),
            (one(json!({"key": "-", "operator": "Exists"})), "\"-\" is not a label key"),
            (
                one(json!({"key": "a", "operator": "In", "values": ["b", "c d"]})),
                "\"c d\" is not a label value",
            ),
            (one(json!({"key": "a", "operator": "In", "values": null})), "In for \"a\" has no values"),
            (one(json!({"key": "a", "operator": "NotIn"})), "NotIn for \"a\" has no values"),
            (
                one(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
                "Exists for \"a\" takes no values",
            ),
            (
                one(json!({"key": "a", "operator": "DoesNotExist", "values": ["b"]})),
                "DoesNotExist for \"a\" takes no values",
            ),
            (
                one(json!({"key": "a", "operator": "in", "values": ["b"]})),
                "\"in\" is not an operator; expected In, NotIn, Exists or DoesNotExist",
            ),
        ] {
            assert_eq!(read(&written), Err(expected.to_owned()), "{written}");
        }
        let absent =
            read(&one(json!({"key": "a", "operator": "DoesNotExist", "values": []}))).map(|found| found.0);
        let operator = Operator::DoesNotExist;
        assert_eq!(absent, Ok(vec![LabelRequirement { key: "a".to_owned(), operator }]));
    }

    #[test]
    fn istio_accepts_selectors_that_the_api_server_refuses() {
        let in_a = |value: &str| {
            let operator = Operator::In(vec![value.to_owned()]);
            LabelSelector(vec![LabelRequirement { key: "a".to_owned(), operator }])
        };
        for (written, value) in [
            (json!({"matchLabels": {"a": "b"}, "matchExpression": [{}]}), "b"),
            (json!({"matchLabels": {"a": true}}), "true"),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}), "1"),
        ] {
            assert_eq!(read(&written), Ok(in_a(value)), "{written}");
            assert_eq!(of_webhook(&written), None, "{written}");
        }
        for written in [
            json!({"matchLabels": {"a": null}}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": [null]}]}),
        ] {
            assert_eq!((read(&written), of_webhook(&written)), (Ok(in_a("")), Some(in_a(""))), "{written}");
        }
        let keys = json!({"matchLabels": {}, "matchlabel": 1, "matchExpressions": []});
        assert_eq!(unknown_keys(&keys).collect::<Vec<_>>(), ["matchlabel"]);
    }

    #[test]
    fn a_webhooks_selector_may_be_empty() {
        for (written, asked) in [
            (Value::Null, Some(0)),
            (json!({}), Some(0)),
            (json!({"matchLabels": null, "matchExpressions": []}), Some(0)),
            (json!({"matchLabels": {}}), Some(0)),
            (json!({"matchLabels": {"a": ""}}), Some(1)),
            (json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), Some(1)),
            (json!({"matchLabels": false}), None),
            (json!({"matchLabels": 0}), None),
            (json!({"matchLabels": ""}), None),
            (json!([]), None),
        ] {
            assert_eq!(of_webhook(&written).map(|selector| selector.0.len()), asked, "{written}");
        }
    }
}
