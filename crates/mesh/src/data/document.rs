//! Reads typed YAML and JSON values by path; problems name document, position, path, value and expected form.

use super::{Tree, TreeValue, reader::values};
use crate::{InputProblem, Problems, settings::nearest};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Reader of one document; collects problems, prefixed with the document's name, if any.
pub struct DocumentReader<'a> {
    name: &'a str,
    root: &'a Value,
    pub(crate) places: Option<&'a Tree>,
    problems: Vec<InputProblem>,
}

impl<'a> DocumentReader<'a> {
    pub fn of(name: &'a str, root: &'a Value) -> Self {
        Self { name, root, places: None, problems: Vec::new() }
    }

    pub fn finish(self) -> Vec<InputProblem> {
        self.problems
    }

    /// Value at a path such as `spec.containers[0].image` (empty: the document); `None` if absent or null.
    pub fn at(&self, path: &str) -> Option<&'a Value> {
        let value = path.split('.').filter(|_| !path.is_empty()).try_fold(self.root, |value, part| {
            let (key, places) = part.split_once('[').unwrap_or((part, ""));
            let mut places = places.split(['[', ']']).filter(|place| !place.is_empty());
            places.try_fold(value.get(key)?, |list, place| list.get(place.parse::<usize>().ok()?))
        })?;
        (!value.is_null()).then_some(value)
    }

    pub fn only(&mut self, path: &str, known: &[&'static str]) {
        let fields = self.mapping(path).into_iter().flat_map(Map::keys);
        for field in fields.filter(|field| !known.contains(&field.as_str())) {
            let remedy = match nearest(field, known.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("expected one of {}", known.join(", ")),
            };
            let path = format!("{path}.{field}");
            self.problem(path.trim_start_matches('.'), None, format!("unknown field; {remedy}"));
        }
    }

    pub fn problem(&mut self, path: &str, item: Option<&str>, text: impl Into<String>) {
        let name = if self.name.is_empty() { path.to_owned() } else { format!("{}: {path}", self.name) };
        self.problems.push(InputProblem::about(&name, item, text));
    }

    pub fn refuse(&mut self, path: &str, value: &Value, expected: &str) {
        // Show `yes`, not the `true` that Kubernetes reads.
        let written = self.places.and_then(|tree| match &field(tree, path)?.value {
            TreeValue::Scalar { text, .. } => Some(text.clone()),
            TreeValue::List(_) | TreeValue::Map(_) => None,
        });
        let item = written.or_else(|| scalar(value)).filter(|written| !written.is_empty());
        self.problem(path, item.as_deref(), format!("is {}; expected {expected}", noun(value)));
    }

    pub fn refuse_as_string(&mut self, path: &str, value: &Value) {
        let is_scalar = scalar(value).is_some();
        self.refuse(path, value, if is_scalar { "a string; quote it" } else { "a string" });
    }

    pub fn typed<T>(
        &mut self,
        path: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.at(path)?;
        let found = read(value);
        if found.is_none() {
            self.refuse(path, value, expected);
        }
        found
    }

    pub fn mapping(&mut self, path: &str) -> Option<&'a Map<String, Value>> {
        self.typed(path, "a mapping", Value::as_object)
    }

    pub fn list(&mut self, path: &str) -> &'a [Value] {
        self.typed(path, "a list", Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Reads a string; empty if absent. Accepts numbers and booleans in JSON form: charts contain `tag: 1.30`.
    pub fn text(&mut self, path: &str) -> String {
        self.typed(path, "a string", scalar).unwrap_or_default()
    }

    pub fn string(&mut self, path: &str) -> Option<&'a str> {
        let value = self.at(path)?;
        if !value.is_string() {
            self.refuse_as_string(path, value);
        }
        value.as_str()
    }

    /// Reads a string from a set of known values; `None` if empty.
    pub fn one_of<T: Copy>(&mut self, path: &str, known: &[(&str, T)]) -> Option<T> {
        let text = self.text(path);
        if text.is_empty() {
            return None;
        }
        let found = known.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            self.problem(path, Some(&text), format!("is unknown; expected {}", names.join(", ")));
        }
        found.map(|(_, meaning)| *meaning)
    }

    pub fn flag(&mut self, path: &str) -> bool {
        let read = |value: &Value| match value {
            Value::Bool(is) => Some(*is),
            Value::String(text) if text.is_empty() => Some(false),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        self.typed(path, "true or false", read).unwrap_or(false)
    }

    pub fn boolean(&mut self, path: &str) -> Option<bool> {
        self.typed(path, "true or false, without quotes", Value::as_bool)
    }

    /// Reads a count, which the API stores as a signed 32-bit number.
    pub fn number(&mut self, path: &str) -> u32 {
        let count = |text: &str| u32::try_from(text.parse::<i32>().ok()?).ok();
        self.parsed(path, "a number from 0 to 2147483647", count).unwrap_or(0)
    }

    pub fn port(&mut self, path: &str, default: u16) -> u16 {
        let parse = |text: &str| text.parse().ok().filter(|port| *port != 0);
        self.parsed(path, "a port from 1 to 65535", parse).unwrap_or(default)
    }

    /// Reads a port; `None` if 0 or empty.
    pub fn port_or_none(&mut self, path: &str) -> Option<u16> {
        let form = "a port from 1 to 65535, or 0 for none";
        self.parsed(path, form, |text| text.parse::<u16>().ok()).filter(|port| *port != 0)
    }

    fn parsed<T>(&mut self, path: &str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let read = |value: &Value| match scalar(value)?.trim() {
            "" => Some(None),
            text => parse(text).map(Some),
        };
        self.typed(path, expected, read).flatten()
    }

    pub fn texts(&mut self, path: &str) -> Vec<String> {
        let items = self.list(path);
        let mut texts = Vec::new();
        for (at, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.refuse_as_string(&format!("{path}[{at}]"), item),
            }
        }
        texts
    }

    /// Reads an object's labels or annotations, whose keys may contain dots; null is an empty string, as in the API server.
    pub fn strings(&mut self, path: &str) -> Vec<(&'a str, &'a str)> {
        let mut strings = Vec::new();
        for (key, value) in self.mapping(path).into_iter().flatten() {
            match value {
                Value::String(text) => strings.push((key.as_str(), text.as_str())),
                Value::Null => strings.push((key.as_str(), "")),
                other => self.refuse_as_string(&format!("{path}.{key}"), other),
            }
        }
        strings
    }

    /// Reads a mapping of strings, numbers and booleans; its keys may contain dots.
    pub fn named_texts(&mut self, path: &str) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for (key, value) in self.mapping(path).into_iter().flatten() {
            match scalar(value) {
                Some(text) => {
                    texts.insert(key.clone(), text);
                }
                None => self.refuse(&format!("{path}.{key}"), value, "a string"),
            }
        }
        texts
    }
}

pub fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

pub fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let value = path.iter().try_fold(value, |value, key| value.get(key))?;
    (!value.is_null()).then_some(value)
}

/// Deepest existing field along a path such as `spec.containers[0].env`; `None` if none exists.
pub fn field<'a>(mut tree: &'a Tree, mut path: &str) -> Option<&'a Tree> {
    let mut found = None;
    loop {
        let of_key = tree.fields().iter().filter_map(|(key, inner)| {
            let rest = path.strip_prefix(key.as_str())?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((inner, rest))
        });
        let of_place = || {
            let (number, rest) = path.strip_prefix('[')?.split_once(']')?;
            Some((tree.items().get(number.parse::<usize>().ok()?)?, rest))
        };
        let step = of_key.min_by_key(|(_, rest)| rest.len()).or_else(of_place);
        let Some((inner, rest)) = step else { return found };
        (found, tree, path) = (Some(inner.as_ref()), inner, rest.strip_prefix('.').unwrap_or(rest));
    }
}

/// The mapping in a file's only document; empty for an empty file.
pub fn mapping(name: &str, text: &str) -> Result<Value, Problems> {
    let mut documents = values(name, text)?;
    documents.retain(|document| !document.is_null());
    let problem = |text: String| Err(Problems(vec![InputProblem::of(name, text)]));
    match (documents.pop(), documents.is_empty()) {
        (None, _) => Ok(Value::Object(Map::new())),
        (Some(document @ Value::Object(_)), true) => Ok(document),
        (Some(document), true) => problem(format!("is {}; expected a mapping", noun(&document))),
        (Some(_), false) => problem("holds several documents; expected one".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(reader: DocumentReader<'_>) -> Vec<String> {
        reader.finish().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_lead_through_mappings_and_lists() {
        let root = json!({"a": {"b": [[1, 2], [{"c": 3}]], "d": null}});
        let reader = DocumentReader::of("name", &root);
        for (path, expected) in [
            ("a.b[0][1]", Some(json!(2))),
            ("a.b[1][0].c", Some(json!(3))),
            ("a.b[2]", None),
            ("a.b[x]", None),
            ("a.d", None),
            ("a.d.e", None),
            ("a.b.c", None),
            ("a[0]", None),
            ("", Some(root.clone())),
        ] {
            assert_eq!(reader.at(path), expected.as_ref(), "{path}");
        }
    }

    #[test]
    fn each_kind_of_value_has_its_forms() {
        let root = json!({
            "text": "a", "number": 7, "bool": true, "empty": "", "blank": " ", "list": ["a", 1], "map": {"a.b": "c", "d": 2, "e": []},
            "yes": "true", "no": "false", "port": "80", "zero": 0, "most": 65535, "over": 65536, "half": 1.5, "count": " 5 ",
            "large": 2_147_483_648_u32,
        });
        let mut reader = DocumentReader::of("name", &root);
        let texts = ["text", "number", "bool", "empty", "none"].map(|path| reader.text(path));
        assert_eq!(texts, ["a", "7", "true", "", ""]);
        assert_eq!(["text", "none", "empty"].map(|path| reader.string(path)), [Some("a"), None, Some("")]);
        assert_eq!(["bool", "yes"].map(|path| reader.flag(path)), [true; 2]);
        assert_eq!(["no", "empty", "none"].map(|path| reader.flag(path)), [false; 3]);
        assert_eq!(["bool", "none"].map(|path| reader.boolean(path)), [Some(true), None]);
        assert_eq!(["number", "count"].map(|path| reader.number(path)), [7, 5]);
        assert_eq!(["zero", "empty", "blank", "none"].map(|path| reader.number(path)), [0; 4]);
        assert_eq!(["port", "most", "none", "empty"].map(|path| reader.port(path, 9)), [80, 65535, 9, 9]);
        assert_eq!(["port", "zero", "none"].map(|path| reader.port_or_none(path)), [Some(80), None, None]);
        let known = [("a", 1), ("7", 2)];
        assert_eq!(["text", "number"].map(|path| reader.one_of(path, &known)), [Some(1), Some(2)]);
        assert_eq!(["empty", "none"].map(|path| reader.one_of(path, &known)), [None; 2]);
        assert_eq!(["list", "none"].map(|path| reader.list(path).len()), [2, 0]);
        assert_eq!(reader.mapping("none"), None);
        assert_eq!(problems(reader), [""; 0]);

        let mut reader = DocumentReader::of("name", &root);
        assert_eq!((&*reader.text("list"), reader.string("number"), reader.flag("text")), ("", None, false));
        assert_eq!((reader.boolean("yes"), reader.number("half"), reader.number("large")), (None, 0, 0));
        assert_eq!((reader.port("zero", 9), reader.port_or_none("over")), (9, None));
        assert_eq!(reader.one_of("bool", &known), None);
        assert_eq!((reader.list("map"), reader.mapping("list")), (&[][..], None));
        assert_eq!(reader.texts("list"), ["a"]);
        let named = [("a.b".to_owned(), "c".to_owned()), ("d".to_owned(), "2".to_owned())];
        assert_eq!(reader.named_texts("map"), named.into());
        reader.only("map", &["e", "a.c"]);
        let expected = [
            "name: list: is a list; expected a string",
            "name: number: \"7\" is a number; expected a string; quote it",
            "name: text: \"a\" is a string; expected true or false",
            "name: yes: \"true\" is a string; expected true or false, without quotes",
            "name: half: \"1.5\" is a number; expected a number from 0 to 2147483647",
            "name: large: \"2147483648\" is a number; expected a number from 0 to 2147483647",
            "name: zero: \"0\" is a number; expected a port from 1 to 65535",
            "name: over: \"65536\" is a number; expected a port from 1 to 65535, or 0 for none",
            "name: bool: \"true\" is unknown; expected a, 7",
            "name: map: is a mapping; expected a list",
            "name: list: is a list; expected a mapping",
            "name: list[1]: \"1\" is a number; expected a string; quote it",
            "name: map.e: is a list; expected a string",
            "name: map.a.b: unknown field; did you mean a.c?",
            "name: map.d: unknown field; expected one of e, a.c",
        ];
        assert_eq!(problems(reader), expected);
    }

    #[test]
    fn a_document_holds_one_mapping() {
        for (text, expected) in [
            ("", Ok(json!({}))),
            ("---\n---\n", Ok(json!({}))),
            ("a: 1", Ok(json!({"a": 1}))),
            ("---\n---\na: 1", Ok(json!({"a": 1}))),
            ("a: 1\n---\nb: 1", Err("name: holds several documents; expected one")),
            ("- a", Err("name: is a list; expected a mapping")),
            ("a", Err("name: is a string; expected a mapping")),
            ("1", Err("name: is a number; expected a mapping")),
            ("true", Err("name: is a boolean; expected a mapping")),
        ] {
            let found = mapping("name", text).map_err(|problems| problems.0[0].to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{text:?}");
        }
    }
}
