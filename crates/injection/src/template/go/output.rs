//! What a template has made: whether it is whole, is YAML, and says what the template says and not what a pod has slipped in.

use super::standin;
use mesh::{InputProblem, Problems};
use serde_json::{Map, Value};

/// What Go prints where there is nothing.
const NOTHING: [&str; 2] = ["<no value>", "<nil>"];

/// The patch that a text holds: its first document, a mapping. Of a key that a mapping holds twice, the later one counts, as
/// for Istio: its templates write a volume's `name` and then what the pod's annotation says of the volume, `name` included.
/// `warnings` gets those keys.
pub(super) fn patch(name: &str, text: &str, warnings: &mut Vec<String>) -> Result<Value, Problems> {
    let lacking: Vec<InputProblem> = text
        .lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let nothing = NOTHING.iter().find(|nothing| line.contains(**nothing))?;
            let number = index + 1;
            let what = "the template prints a value there that is not set; give it one, or a default";
            Some(InputProblem::with_item(
                name,
                line.trim(),
                format!("holds {nothing}, in line {number} of what it makes: {what}"),
            ))
        })
        .collect();
    Problems::check(lacking)?;
    let (documents, remarks) = mesh::pod::values_of_later_keys(name, text)?;
    warnings.extend(remarks.iter().map(|remark| format!("{name}: in what it makes, {remark}")));
    match documents.into_iter().next() {
        Some(patch @ Value::Object(_)) => Ok(patch),
        // A template may have nothing to say about a pod.
        Some(Value::Null) | None => Ok(Value::Object(Map::new())),
        Some(_) => Err(Problems(vec![InputProblem::of(
            name,
            "makes YAML that is not a mapping; expected metadata and spec of a pod",
        )])),
    }
}

/// Data without stand-ins.
pub(super) fn uncovered(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(standin::uncover(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(uncovered).collect()),
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(key, value)| (standin::uncover(&key), uncovered(value))).collect(),
        ),
        other => other,
    }
}

/// Where two trees differ first, as a path.
pub(super) fn difference(one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let only = |a: &Map<String, Value>, b: &Map<String, Value>| {
                a.keys().find(|key| !b.contains_key(*key)).cloned()
            };
            if let Some(key) = only(one, other).or_else(|| only(other, one)) {
                return Some(format!(".{key}"));
            }
            one.iter().find_map(|(key, value)| Some(format!(".{key}{}", difference(value, other.get(key)?)?)))
        }
        (Value::Array(one), Value::Array(other)) => {
            let inner = one.iter().zip(other).enumerate().find_map(|(index, (one, other))| {
                difference(one, other).map(|path| format!("[{index}]{path}"))
            });
            inner.or_else(|| (one.len() != other.len()).then(|| format!("[{}]", one.len().min(other.len()))))
        }
        _ => (one != other).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named() {
        let rows = [
            (json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3}]}), Some(".a[1].b")),
            (json!({"a": 1}), json!({"a": 1, "b": null}), Some(".b")),
            (json!([1]), json!([1, 2]), Some("[1]")),
            (json!({"a": {}}), json!({"a": []}), Some(".a")),
            (json!({"a": [null]}), json!({"a": [null]}), None),
        ];
        for (one, other, expected) in rows {
            assert_eq!(difference(&one, &other).as_deref(), expected);
        }
    }

    #[test]
    fn a_patch_is_whole_and_a_mapping() {
        let patch = |text: &str| patch("t", text, &mut Vec::new());
        assert_eq!(patch("a: 1\n---\nb: 2\n"), Ok(json!({"a": 1})));
        assert_eq!(patch(" \n# nothing\n"), Ok(json!({})));
        let shown = patch("a:\n- b: <no value>\n- '<nil>'\n").expect_err("nothing").to_string();
        assert!(
            shown.contains("\"- b: <no value>\" holds <no value>, in line 2") && shown.contains("line 3"),
            "{shown}"
        );
        for (text, expected) in [("- a\n", "not a mapping"), ("a: [\n", "is not YAML")] {
            let shown = patch(text).expect_err("no patch").to_string();
            assert!(shown.contains(expected), "{shown}");
        }
    }
}
