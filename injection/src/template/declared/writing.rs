//! From a template's parts to the patch of one pod.

use super::node::{Each, Kind, Node};
use super::parameter::{Said, all};
use super::reading::Reader;
use super::text::Text;
use crate::template::Sight;
use policy::Problem;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Display;

/// What a template is filled in for.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) sight: &'a Sight<'a>,
    parameters: BTreeMap<String, Said>,
    /// Containers that the template writes itself.
    own: Vec<&'a str>,
}

impl<'a> Scene<'a> {
    /// That of a pod.
    ///
    /// # Errors
    /// Every parameter that has to be set and isn't.
    pub(super) fn of(
        sight: &'a Sight<'a>,
        parameters: &[super::parameter::Parameter],
        own: Vec<&'a str>,
    ) -> Result<Self, Vec<Problem>> {
        Ok(Self { sight, parameters: all(parameters, sight)?, own })
    }

    /// What a parameter is.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(|said| said.text.as_str())
    }

    /// Who says what a parameter is.
    pub(super) fn source(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(|said| said.source.as_str())
    }

    /// A label of the pod that isn't empty.
    pub(super) fn label(&self, key: &str) -> Option<&'a str> {
        self.said("labels", key)
    }

    /// An annotation of the pod that isn't empty.
    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.said("annotations", key)
    }

    fn said(&self, of: &str, key: &str) -> Option<&'a str> {
        self.sight.pod.get("metadata")?.get(of)?.get(key)?.as_str().filter(|text| !text.is_empty())
    }

    /// The containers of the pod.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.sight.pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten()
    }

    /// The names of those that the template doesn't write itself.
    pub(super) fn app_containers(&self) -> Vec<&'a str> {
        let names = self.containers().filter_map(|container| container.get("name")?.as_str());
        names.filter(|name| !self.own.contains(name)).collect()
    }
}

impl Kind {
    /// What a text says, as what it has to be.
    ///
    /// # Errors
    /// What is wrong, and what was expected.
    pub(super) fn take(self, text: &str) -> Result<Value, String> {
        let expected = || Err(format!("is not {}", self.noun()));
        match self {
            Self::Text => Ok(text.into()),
            Self::Word(words) if words.contains(&text) => Ok(text.into()),
            Self::Word(_) => expected(),
            Self::Number(least, most) => match text.parse::<i64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(number.into()),
                Ok(_) | Err(_) => expected(),
            },
            Self::Bool => text.parse::<bool>().map(Value::Bool).or_else(|_| expected()),
            Self::Port => match text.parse::<i64>() {
                Ok(number) if (1..=65_535).contains(&number) => Ok(number.into()),
                Ok(_) => expected(),
                Err(_) if is_port_name(text) => Ok(text.into()),
                Err(_) => expected(),
            },
        }
    }

    /// In words.
    pub(super) fn noun(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Word(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Bool => "true or false".to_owned(),
            Self::Port => "a port from 1 to 65535, or the name of one".to_owned(),
        }
    }
}

/// RFC 6335, 5.1, as the API checks it.
fn is_port_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && text.chars().any(|c| c.is_ascii_lowercase())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--")
}

impl Node {
    /// What it is for a pod; `None` where it isn't there, or refers to something that isn't set. What can't be goes to the
    /// reader's problems, for which alone `at` is put into words.
    pub(super) fn write(&self, scene: &Scene<'_>, at: &dyn Display, reader: &mut Reader) -> Option<Value> {
        match self {
            Self::Text(text, kind) => {
                let filled = text.fill(scene)?;
                let taken = kind.take(&filled);
                if let Err(wrong) = &taken {
                    let source = text.source(scene).map_or_else(|| at.to_string(), str::to_owned);
                    reader.problem(&source, Some(&filled), wrong);
                }
                taken.ok()
            }
            Self::Number(number) => Some((*number).into()),
            Self::Bool(is) => Some((*is).into()),
            Self::Texts(entries) => {
                let entries = entries.iter().filter_map(|(name, node)| {
                    Some((name.clone(), node.write(scene, &format_args!("{at}.{name}"), reader)?))
                });
                let entries: Map<String, Value> = entries.collect();
                (!entries.is_empty()).then_some(Value::Object(entries))
            }
            Self::List(items) => {
                let mut found = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    match item {
                        Self::Each(each) => found.extend(each.items(scene.sight.sidecar)),
                        item => found.extend(item.write(scene, &format_args!("{at}[{index}]"), reader)),
                    }
                }
                for each in items.iter().filter_map(Self::each) {
                    tell_apart(each, scene, &found, reader);
                }
                (!found.is_empty()).then_some(Value::Array(found))
            }
            Self::Object(fields, one_of) => {
                let mut object = Map::new();
                for (field, node) in fields {
                    let value = node.write(scene, &format_args!("{at}.{}", field.word), reader);
                    let vital = field.required || one_of.contains(&field.word);
                    match value {
                        Some(value) if field.path.is_empty() => {
                            object.insert(field.word.to_owned(), value);
                        }
                        Some(value) => put(&mut object, field.path, value),
                        None if vital => return None,
                        None => {}
                    }
                }
                Some(Value::Object(object))
            }
            Self::When(when, node) => {
                let holds = when.holds(scene);
                holds.then(|| node.write(scene, at, reader)).flatten()
            }
            Self::Choose(choices) => choices
                .iter()
                .filter(|(when, _)| when.as_ref().is_none_or(|when| when.holds(scene)))
                .find_map(|(_, node)| node.write(scene, at, reader)),
            Self::Each(each) => Some(Value::Array(each.items(scene.sight.sidecar))),
            Self::Whole(whole) => whole.value(scene.sight),
        }
    }

    fn each(&self) -> Option<Each> {
        match self {
            Self::Each(each) => Some(*each),
            _ => None,
        }
    }

    /// A text that refers to nothing.
    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Text(text, _) => Text::literal(text),
            _ => None,
        }
    }
}

/// Tells items of the pod's that merging would take for others of the list.
fn tell_apart(each: Each, scene: &Scene<'_>, all: &[Value], reader: &mut Reader) {
    let Some((key, annotation)) = each.apart() else { return };
    for item in each.items(scene.sight.sidecar) {
        if all.iter().filter(|other| other[key] == item[key]).count() > 1 {
            let text = format!("stands twice, or is the proxy's own; give it another {key}");
            reader.problem(&format!("annotation {annotation}"), item[key].as_str(), &text);
        }
    }
}

/// Puts a value at the end of a path of objects.
fn put(object: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [last] => {
            object.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner = object.entry(*first).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}
