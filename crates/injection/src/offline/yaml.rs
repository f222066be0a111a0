//! Documents that are YAML, edited in place: comments, quotes and the style of what does not change stay.

use super::json::in_order_of;
use mesh::data::yaml::block;
use serde_json::{Map, Value};
use std::{collections::BTreeSet, str::FromStr};
use yaml_edit::{AsYaml, Document, Mapping, Sequence, YamlFile, YamlNode};

/// A list or a mapping in brackets is broken into lines before it becomes longer than this.
const MAX_WIDTH: usize = 100;

/// How often a document is edited at most. What an anchor stands for changes with it, also where its aliases stand: the
/// second time, those get separate values.
const TIMES: usize = 2;

/// The text of a document with a new value; `None` if it can't be edited so, as where a key would have to go that `<<` brings.
pub(super) fn edited(text: &str, old: &Value, new: &Value) -> Option<String> {
    let (mut text, mut value) = (text.to_owned(), old.clone());
    for _ in 0..TIMES {
        let file = YamlFile::from_str(&text).ok()?;
        let root = file.document()?.as_mapping()?;
        mapping(&root, value.as_object()?, new.as_object()?, root.is_flow_style());
        text = file.to_string();
        value = mesh::pod::values("", &text).ok().filter(|values| values.len() == 1)?.remove(0);
        if value == *new {
            return Some(text);
        }
    }
    None
}

fn mapping(node: &Mapping, old: &Map<String, Value>, new: &Map<String, Value>, in_flow: bool) {
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        node.remove(key.as_str());
    }
    for (key, new) in new.iter().filter(|(key, new)| old.get(*key) != Some(*new)) {
        let is_edited = match (node.get(key.as_str()), old.get(key)) {
            (Some(value), Some(old)) => inside(&value, old, new, in_flow),
            _ => false,
        };
        if !is_edited {
            node.set(key.as_str(), written(new));
        }
    }
}

fn sequence(node: &Sequence, old: &[Value], new: &[Value], in_flow: bool) {
    let by_place = old.len() == new.len() && !old.iter().chain(new).any(|item| item["name"].is_string());
    let identities = |items: &[Value]| -> Vec<String> {
        let identity = |(at, item)| if by_place { format!("{at}") } else { identity(item) };
        items.iter().enumerate().map(identity).collect()
    };
    let (known, target) = (identities(old), identities(new));
    let all: BTreeSet<&String> = target.iter().collect();
    let mut items: Vec<(&String, &Value)> = known.iter().zip(old).collect();
    for at in (0..items.len()).rev().filter(|at| !all.contains(&known[*at])) {
        node.remove(at);
        items.remove(at);
    }
    for (at, (identity, new)) in target.iter().zip(new).enumerate() {
        let further = items[at..].iter().position(|(other, _)| *other == identity);
        if further != Some(0) {
            if let Some(from) = further.map(|further| at + further) {
                node.remove(from);
                items.remove(from);
            }
            node.insert(at, written(new));
            items.insert(at, (identity, new));
        } else if items[at].1 != new
            && !node.get(at).is_some_and(|value| inside(&value, items[at].1, new, in_flow))
        {
            node.set(at, written(new));
        }
    }
    for at in (new.len()..items.len()).rev() {
        node.remove(at);
    }
}

/// Changes a value from within; false if it has to be replaced.
fn inside(node: &YamlNode, old: &Value, new: &Value, in_flow: bool) -> bool {
    let outgrows = |is_flow: bool| {
        is_flow && !in_flow && new.to_string().len() > MAX_WIDTH && !node.to_string().contains('\n')
    };
    match (node, old, new) {
        (YamlNode::Mapping(node), Value::Object(old), Value::Object(new)) => {
            let can = !old.is_empty() && !new.is_empty() && !outgrows(node.is_flow_style());
            if can {
                mapping(node, old, new, in_flow || node.is_flow_style());
            }
            can
        }
        (YamlNode::Sequence(node), Value::Array(old), Value::Array(new)) => {
            let can = !old.is_empty() && !new.is_empty() && !outgrows(node.is_flow_style());
            if can {
                sequence(node, old, new, in_flow || node.is_flow_style());
            }
            can
        }
        _ => false,
    }
}

/// What an item is recognized by: its name, or all of it.
fn identity(item: &Value) -> String {
    let name = item.get("name").filter(|name| name.is_string());
    name.unwrap_or(item).to_string()
}

fn written(value: &Value) -> impl AsYaml {
    let text = block(&in_order_of(None, value));
    Document::from_str(&text).expect("what is written is YAML")
}
