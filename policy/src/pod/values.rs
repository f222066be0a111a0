//! The documents of a manifest as data, read as Kubernetes reads them.

use super::node::{Node, Value as Written};
use super::scalar::Kind;
use super::yaml::documents;
use crate::{Problem, Problems};
use serde_json::{Map, Number, Value};

/// The documents of a text, YAML or JSON, each as data. `name` is that of the file, for problems.
///
/// # Errors
/// When it is neither.
pub fn values(name: &str, text: &str) -> Result<Vec<Value>, Problems> {
    let documents = documents(text)
        .map_err(|malformed| Problems(vec![Problem::of(name, format!("is no YAML or JSON: {malformed}"))]))?;
    Ok(documents.iter().map(|node| data(node)).collect())
}

/// A tree as data.
pub(super) fn data(node: &Node) -> Value {
    match &node.value {
        Written::Scalar { text, kind } => scalar(text, *kind),
        Written::List(items) => Value::Array(items.iter().map(|item| data(item)).collect()),
        Written::Map(entries) => {
            Value::Object(entries.iter().map(|(key, node)| (key.clone(), data(node))).collect::<Map<_, _>>())
        }
    }
}

fn scalar(text: &str, kind: Kind) -> Value {
    match kind {
        Kind::Text => Value::String(text.to_owned()),
        Kind::Null => Value::Null,
        Kind::Bool(is) => Value::Bool(is),
        Kind::Whole(number) => match (i64::try_from(number), u64::try_from(number)) {
            (Ok(number), _) => number.into(),
            (Err(_), Ok(number)) => number.into(),
            (Err(_), Err(_)) => Value::String(text.to_owned()),
        },
        // What JSON has no number for, such as infinity, stays a text.
        Kind::Float => {
            let number = text.replace('_', "").parse().ok().and_then(Number::from_f64);
            number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_become_data() {
        let text = "a: 1\nb: [yes, 'yes', ~, 1.5, 0755]\n---\n{\"c\": {\"d\": \"x\"}}\n";
        let expected = vec![json!({"a": 1, "b": [true, "yes", null, 1.5, 493]}), json!({"c": {"d": "x"}})];
        assert_eq!(values("file", text), Ok(expected));
        assert!(values("file", "a: [").expect_err("broken").to_string().contains("file: is no YAML or JSON"));
    }
}
