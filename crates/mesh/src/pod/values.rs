//! The documents of a manifest as data, read as Kubernetes reads them.

use super::malformed::Malformed;
use super::node::{ManifestNode, ManifestValue as Written};
use super::scalar::ScalarKind;
use super::yaml::{documents, documents_of_later_keys};
use crate::{InputProblem, Problems};
use serde_json::{Map, Number, Value};
use std::rc::Rc;

/// The documents of a text, YAML or JSON, each as data. `name` is that of the file, for problems.
///
/// # Errors
/// When it is neither.
pub fn values(name: &str, text: &str) -> Result<Vec<Value>, Problems> {
    Ok(parsed(name, text)?.iter().map(|node| data(node)).collect())
}

/// The same where the later of two equal keys counts, with a remark for each repeated key.
///
/// # Errors
/// When it is neither.
pub fn values_of_later_keys(name: &str, text: &str) -> Result<(Vec<Value>, Vec<String>), Problems> {
    let mut repeated = Vec::new();
    let documents = documents_of_later_keys(text, &mut repeated).map_err(|found| malformed(name, &found))?;
    let remarks = repeated.iter().map(|found| {
        format!(
            "the key {:?} appears at {} and at {}; the later one counts",
            found.key, found.first, found.again
        )
    });
    Ok((documents.iter().map(|node| data(node)).collect(), remarks.collect()))
}

/// An object of a manifest, and the line where it begins; unknown of what JSON holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    pub line: Option<usize>,
    pub value: Value,
}

/// The objects of a text: its documents, and the items of those that are Lists. `name` is that of the file, for problems.
///
/// # Errors
/// When it is neither YAML nor JSON.
pub fn located(name: &str, text: &str) -> Result<Vec<Located>, Problems> {
    let mut found = Vec::new();
    parsed(name, text)?.iter().for_each(|node| locate(node, &mut found));
    Ok(found)
}

fn locate(node: &ManifestNode, found: &mut Vec<Located>) {
    let is_list = node.get("kind").and_then(|kind| kind.text()).is_some_and(|kind| kind.ends_with("List"));
    match node.get("items").map(|items| &items.value) {
        Some(Written::List(items)) if is_list => items.iter().for_each(|item| locate(item, found)),
        _ => found.push(Located { line: node.place.map(|place| place.line), value: data(node) }),
    }
}

fn parsed(name: &str, text: &str) -> Result<Vec<Rc<ManifestNode>>, Problems> {
    documents(text).map_err(|found| malformed(name, &found))
}

fn malformed(name: &str, found: &Malformed) -> Problems {
    Problems(vec![InputProblem::of(name, format!("is not YAML or JSON: {found}"))])
}

/// A tree as data.
pub(super) fn data(node: &ManifestNode) -> Value {
    match &node.value {
        Written::Scalar { text, kind } => scalar(text, *kind),
        Written::List(items) => Value::Array(items.iter().map(|item| data(item)).collect()),
        Written::Map(entries) => {
            Value::Object(entries.iter().map(|(key, node)| (key.clone(), data(node))).collect::<Map<_, _>>())
        }
    }
}

fn scalar(text: &str, kind: ScalarKind) -> Value {
    match kind {
        ScalarKind::Text => Value::String(text.to_owned()),
        ScalarKind::Null => Value::Null,
        ScalarKind::Bool(is) => Value::Bool(is),
        ScalarKind::Whole(number) => match (i64::try_from(number), u64::try_from(number)) {
            (Ok(number), _) => number.into(),
            (Err(_), Ok(number)) => number.into(),
            (Err(_), Err(_)) => Value::String(text.to_owned()),
        },
        // What JSON has no number for, such as infinity, stays a text.
        ScalarKind::Float => {
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
        assert!(
            values("file", "a: [").expect_err("broken").to_string().contains("file: is not YAML or JSON")
        );
    }

    #[test]
    fn objects_have_lines_those_of_lists_too() {
        let text = "# one\na: 1\n---\nkind: List\nitems:\n- b: 2\n- kind: PodList\n  items: [{c: 3}]\n---\n\nkind: List\n";
        let found = located("file", text).expect("YAML");
        let lines: Vec<_> = found.iter().map(|one| (one.line, one.value.clone())).collect();
        let expected = [
            (Some(2), json!({"a": 1})),
            (Some(6), json!({"b": 2})),
            (Some(8), json!({"c": 3})),
            (Some(11), json!({"kind": "List"})),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn keys_are_the_texts_that_kubernetes_makes_of_them() {
        let text = "{yes: 1, OFF: 2, 0x10: 3, 1_0: 4, 'no': 5, 1.5: 6}";
        let expected = json!({"true": 1, "false": 2, "16": 3, "10": 4, "no": 5, "1.5": 6});
        assert_eq!(values("file", text), Ok(vec![expected]));
    }

    #[test]
    fn numbers_that_json_has_not_are_texts() {
        let text =
            "[9223372036854775807, 9223372036854775808, 18446744073709551616, -1, 1_0.5, .inf, -.5e1, .nan]";
        let expected = json!([
            i64::MAX,
            9_223_372_036_854_775_808_u64,
            "18446744073709551616",
            -1,
            10.5,
            ".inf",
            -5.0,
            ".nan"
        ]);
        assert_eq!(values("file", text), Ok(vec![expected]));
    }
}
