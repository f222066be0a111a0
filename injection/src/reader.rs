//! Typed reading of YAML and JSON documents: each value by its path, and every problem with any of them.
//!
//! A configuration, a custom resource and a pod are read by it, so that a wrong value is reported in one form: document,
//! path, value, what is expected.

use crate::quantity;
use mesh::settings::nearest;
use mesh::{InputProblem, Problems};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Reads the values of one document and collects the problems with them.
pub(crate) struct DocumentReader<'a> {
    /// The name of the document, with which each problem begins.
    name: &'a str,
    root: &'a Value,
    problems: Vec<InputProblem>,
}

impl<'a> DocumentReader<'a> {
    pub(crate) fn of(name: &'a str, root: &'a Value) -> Self {
        Self { name, root, problems: Vec::new() }
    }

    pub(crate) fn finish(self) -> Vec<InputProblem> {
        self.problems
    }

    /// The value at a path of keys and places in lists, `spec.containers[0].image`; `None` where it is absent or null.
    pub(crate) fn at(&self, path: &str) -> Option<&'a Value> {
        let value = path.split('.').try_fold(self.root, |value, part| {
            let (key, places) = part.split_once('[').unwrap_or((part, ""));
            let mut places = places.split(['[', ']']).filter(|place| !place.is_empty());
            places.try_fold(value.get(key)?, |list, place| list.get(place.parse::<usize>().ok()?))
        })?;
        (!value.is_null()).then_some(value)
    }

    /// Reports each key of a mapping that is not among the known ones.
    pub(crate) fn only(&mut self, path: &str, known: &[&'static str]) {
        let fields = self.at(path).and_then(Value::as_object).into_iter().flat_map(Map::keys);
        for field in fields.filter(|field| !known.contains(&field.as_str())) {
            let remedy = match nearest(field, known.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("expected one of {}", known.join(", ")),
            };
            self.problem(&format!("{path}.{field}"), None, format!("unknown field; {remedy}"));
        }
    }

    pub(crate) fn problem(&mut self, path: &str, item: Option<&str>, text: impl Into<String>) {
        let name = format!("{}: {path}", self.name);
        self.problems.push(match item {
            Some(item) => InputProblem::with_item(&name, item, text),
            None => InputProblem::of(&name, text),
        });
    }

    /// Reports the value at a path, which is of the wrong type or out of range.
    pub(crate) fn refuse(&mut self, path: &str, value: &Value, expected: &str) {
        let item = scalar(value).filter(|written| !written.is_empty());
        self.problem(path, item.as_deref(), format!("is {}; expected {expected}", noun(value)));
    }

    pub(crate) fn mapping(&mut self, path: &str) -> Option<&'a Map<String, Value>> {
        let value = self.at(path)?;
        if value.as_object().is_none() {
            self.refuse(path, value, "a mapping");
        }
        value.as_object()
    }

    /// A list; empty where it is absent.
    pub(crate) fn list(&mut self, path: &str) -> &'a [Value] {
        match self.at(path) {
            Some(Value::Array(items)) => items,
            Some(value) => {
                self.refuse(path, value, "a list");
                &[]
            }
            None => &[],
        }
    }

    /// A string; empty where it is absent. Numbers and booleans are taken as they are written: charts hold `tag: 1.30`.
    pub(crate) fn text(&mut self, path: &str) -> String {
        let Some(value) = self.at(path) else { return String::new() };
        let text = scalar(value);
        if text.is_none() {
            self.refuse(path, value, "a string");
        }
        text.unwrap_or_default()
    }

    /// A string that is written as one; `None` where it is absent.
    pub(crate) fn string(&mut self, path: &str) -> Option<&'a str> {
        let value = self.at(path)?;
        if !value.is_string() {
            self.refuse(path, value, "a string, in quotes where it looks like something else");
        }
        value.as_str()
    }

    /// A string of which each possible value has a meaning; `None` where it is empty.
    pub(crate) fn one_of<T: Copy>(&mut self, path: &str, known: &[(&str, T)]) -> Option<T> {
        let text = self.text(path);
        if text.is_empty() {
            return None;
        }
        let found = known.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            self.problem(path, Some(&text), format!("is none of those known; expected {}", names.join(", ")));
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// A boolean; false where it is absent.
    pub(crate) fn flag(&mut self, path: &str) -> bool {
        match self.at(path) {
            Some(Value::Bool(is)) => *is,
            Some(Value::String(text)) if text == "true" => true,
            Some(Value::String(text)) if text == "false" || text.is_empty() => false,
            Some(value) => {
                self.refuse(path, value, "true or false");
                false
            }
            None => false,
        }
    }

    /// A boolean that is written as one; `None` where it is absent.
    pub(crate) fn boolean(&mut self, path: &str) -> Option<bool> {
        let value = self.at(path)?;
        if !value.is_boolean() {
            self.refuse(path, value, "true or false, without quotes");
        }
        value.as_bool()
    }

    /// A count, which the API holds in 32 bits with a sign.
    pub(crate) fn number(&mut self, path: &str) -> u32 {
        self.parsed(path, "a number from 0 to 2147483647", quantity::count).unwrap_or(0)
    }

    /// A port that a proxy listens at.
    pub(crate) fn port(&mut self, path: &str, default: u16) -> u16 {
        let parse = |text: &str| text.parse().ok().filter(|port| *port != 0);
        self.parsed(path, "a port from 1 to 65535", parse).unwrap_or(default)
    }

    /// A port, or none where it is 0 or empty.
    pub(crate) fn port_or_none(&mut self, path: &str) -> Option<u16> {
        let form = "a port from 1 to 65535, or 0 for none";
        self.parsed(path, form, |text| text.parse::<u16>().ok()).filter(|port| *port != 0)
    }

    fn parsed<T>(&mut self, path: &str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let value = self.at(path)?;
        let text = scalar(value);
        if text.as_deref().is_some_and(|text| text.trim().is_empty()) {
            return None;
        }
        let parsed = text.and_then(|text| parse(text.trim()));
        if parsed.is_none() {
            self.refuse(path, value, expected);
        }
        parsed
    }

    pub(crate) fn texts(&mut self, path: &str) -> Vec<String> {
        let items = self.list(path);
        let mut texts = Vec::new();
        for (at, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.refuse(&format!("{path}[{at}]"), item, "a string"),
            }
        }
        texts
    }

    /// A mapping of strings; its keys may hold dots.
    pub(crate) fn named_texts(&mut self, path: &str) -> BTreeMap<String, String> {
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

/// A scalar as it is written; null as the empty string.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// The type of a value, in words.
pub(crate) fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// The one mapping that a document holds; an empty document is an empty mapping.
pub(crate) fn mapping(name: &str, text: &str) -> Result<Value, Problems> {
    let mut documents = mesh::pod::values(name, text)?;
    documents.retain(|document| !document.is_null());
    let problem = |text: String| Err(Problems(vec![InputProblem::of(name, text)]));
    match (documents.pop(), documents.is_empty()) {
        (None, _) => Ok(Value::Object(Map::new())),
        (Some(document @ Value::Object(_)), true) => Ok(document),
        (Some(document), true) => problem(format!("is {}; expected a mapping", noun(&document))),
        (Some(_), false) => problem("holds several documents; expected one".to_owned()),
    }
}
