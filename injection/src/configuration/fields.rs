//! Typed reading of a tree: each field by its path, and everything that is wrong with any of them.

use super::list::{self, Network, listed};
use crate::quantity;
use policy::settings::mapping::Form;
use policy::sources::Wildcard;
use policy::{Problem, Problems};
use serde_json::Value;
use std::collections::BTreeMap;

/// Reads fields of a text that has become a tree; collects problems on the way.
pub(super) struct Fields<'a> {
    /// The name of the text, which every problem begins with.
    name: &'a str,
    root: &'a Value,
    problems: Vec<Problem>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(name: &'a str, root: &'a Value) -> Self {
        Self { name, root, problems: Vec::new() }
    }

    /// What was wrong.
    pub(super) fn finish(self) -> Vec<Problem> {
        self.problems
    }

    /// The value at a path of keys, `global.proxy.image`; `None` where nothing stands.
    pub(super) fn at(&self, path: &str) -> Option<&'a Value> {
        let value = path.split('.').try_fold(self.root, |value, key| value.get(key))?;
        (!value.is_null()).then_some(value)
    }

    pub(super) fn problem(&mut self, path: &str, item: Option<&str>, text: impl Into<String>) {
        let name = format!("{}: {path}", self.name);
        self.problems.push(match item {
            Some(item) => Problem::with_item(&name, item, text),
            None => Problem::of(&name, text),
        });
    }

    /// A problem with what stands at a path.
    fn blame(&mut self, path: &str, value: &Value, expected: &str) {
        let text = format!("is {}; expected {expected}", noun(value));
        match scalar(value) {
            Some(written) if !written.is_empty() => self.problem(path, Some(&written), text),
            Some(_) | None => self.problem(path, None, text),
        }
    }

    /// A mapping, if there is one.
    pub(super) fn mapping(&mut self, path: &str) -> Option<&'a serde_json::Map<String, Value>> {
        let value = self.at(path)?;
        if value.as_object().is_none() {
            self.blame(path, value, "a mapping");
        }
        value.as_object()
    }

    /// A list; empty where there is none.
    pub(super) fn list(&mut self, path: &str) -> &'a [Value] {
        match self.at(path) {
            Some(Value::Array(items)) => items,
            Some(value) => {
                self.blame(path, value, "a list");
                &[]
            }
            None => &[],
        }
    }

    /// A text; empty where there is none. Numbers and booleans are the text that they are written as: charts hold
    /// `tag: 1.30`.
    pub(super) fn text(&mut self, path: &str) -> String {
        let Some(value) = self.at(path) else { return String::new() };
        let text = scalar(value);
        if text.is_none() {
            self.blame(path, value, "a text");
        }
        text.unwrap_or_default()
    }

    /// A text that is one of a few, by what each stands for; `None` where it is empty.
    pub(super) fn one_of<T: Copy>(&mut self, path: &str, known: &[(&str, T)]) -> Option<T> {
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

    /// A boolean; false where there is none.
    pub(super) fn flag(&mut self, path: &str) -> bool {
        match self.at(path) {
            Some(Value::Bool(is)) => *is,
            Some(Value::String(text)) if text == "true" => true,
            Some(Value::String(text)) if text == "false" || text.is_empty() => false,
            Some(value) => {
                self.blame(path, value, "true or false");
                false
            }
            None => false,
        }
    }

    /// A count, which the API holds in 32 bits with a sign.
    pub(super) fn number(&mut self, path: &str) -> u32 {
        self.parsed(path, "a number from 0 to 2147483647", quantity::count).unwrap_or(0)
    }

    /// A port that somebody listens at.
    pub(super) fn port(&mut self, path: &str, default: u16) -> u16 {
        let parse = |text: &str| text.parse().ok().filter(|port| *port != 0);
        self.parsed(path, "a port from 1 to 65535", parse).unwrap_or(default)
    }

    /// A port, or none where it is 0 or empty.
    pub(super) fn port_or_none(&mut self, path: &str) -> Option<u16> {
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
            self.blame(path, value, expected);
        }
        parsed
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, path: &str) -> Vec<String> {
        let items = self.list(path);
        let mut texts = Vec::new();
        for (at, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.blame(&format!("{path}[{at}]"), item, "a text"),
            }
        }
        texts
    }

    /// A mapping of texts; its keys keep their dots.
    pub(super) fn named_texts(&mut self, path: &str) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for (key, value) in self.mapping(path).into_iter().flatten() {
            match scalar(value) {
                Some(text) => {
                    texts.insert(key.clone(), text);
                }
                None => self.blame(&format!("{path}.{key}"), value, "a text"),
            }
        }
        texts
    }

    /// Ports, as annotations hold them; all of them where the form has `*`.
    pub(super) fn ports(&mut self, path: &str, form: Form) -> Wildcard<u16> {
        self.items(path, form, list::port)
    }

    /// Networks, as annotations hold them.
    pub(super) fn networks(&mut self, path: &str, form: Form) -> Wildcard<Network> {
        self.items(path, form, list::network)
    }

    fn items<T>(&mut self, path: &str, form: Form, read: fn(&str) -> Option<T>) -> Wildcard<T> {
        let text = self.text(path);
        match listed(&text, form, read) {
            Ok(items) => items,
            Err(faults) => {
                for (item, text) in faults {
                    self.problem(path, Some(&item), text);
                }
                Wildcard::Items(Vec::new())
            }
        }
    }
}

/// A scalar as text; nothing is empty.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// What a value is, in words.
pub(crate) fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// The kind of an object of Kubernetes; `None` where it is none.
fn kind(document: &Value) -> Option<&str> {
    document.get("apiVersion")?.as_str()?;
    document.get("kind")?.as_str()
}

/// The one mapping that a text holds; an empty text is an empty mapping.
///
/// # Errors
/// When the text is no YAML, or holds something else.
pub(super) fn mapping(name: &str, text: &str) -> Result<Value, Problems> {
    let mut documents = policy::pod::values(name, text)?;
    documents.retain(|document| !document.is_null());
    let problem = |text: String| Err(Problems(vec![Problem::of(name, text)]));
    match (documents.pop(), documents.is_empty()) {
        (None, _) => Ok(Value::Object(serde_json::Map::new())),
        (Some(document @ Value::Object(_)), true) => match kind(&document) {
            Some(kind) => problem(format!(
                "is an object of Kubernetes, {kind}; expected the text itself, as a ConfigMap of Istio holds it"
            )),
            None => Ok(document),
        },
        (Some(document), true) => problem(format!("is {}; expected a mapping", noun(&document))),
        (Some(_), false) => problem("holds several documents; expected one".to_owned()),
    }
}
