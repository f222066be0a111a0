//! A manifest as a tree: what was written, and where.
//!
//! Positions are what a parsed value of another kind would have lost. A scalar keeps its text: whether `0755` is a number
//! depends on the reader.

use super::scalar::{Kind, kind};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::{collections::BTreeSet, fmt, rc::Rc};

/// A place in a text; unknown of what JSON holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Option<Place>,
    pub(super) value: Value,
    /// How many values it holds, those of aliases included.
    pub(super) size: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Scalar { text: String, kind: Kind },
    List(Vec<Rc<Node>>),
    Map(Vec<(String, Rc<Node>)>),
}

impl Node {
    /// The value under a key; `None` where there is none, or it is null.
    pub(super) fn get(&self, key: &str) -> Option<&Rc<Self>> {
        let Value::Map(entries) = &self.value else { return None };
        let (_, node) = entries.iter().find(|(name, _)| name == key)?;
        (!node.is_null()).then_some(node)
    }

    /// The value at a path of keys.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key).map(Rc::as_ref))
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value, Value::Scalar { kind: Kind::Null, .. })
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, kind: Kind::Text } => Some(text),
            _ => None,
        }
    }

    /// What it is, in words.
    pub(super) fn noun(&self) -> &'static str {
        match &self.value {
            Value::Scalar { kind, .. } => kind.noun(),
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FromJson)
    }
}

/// Reads JSON, whose keys must be unique, too.
struct FromJson;

fn scalar(text: String, kind: Kind) -> Node {
    Node { place: None, value: Value::Scalar { text, kind }, size: 1 }
}

impl<'de> Visitor<'de> for FromJson {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Node, E> {
        Ok(scalar(text.to_owned(), Kind::Text))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
        Ok(scalar(value.to_string(), Kind::Bool(value)))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
        let text = value.to_string();
        let kind = kind(&text);
        Ok(scalar(text, kind))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Node, E> {
        let text = value.to_string();
        let kind = kind(&text);
        Ok(scalar(text, kind))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        Ok(scalar(value.to_string(), Kind::Float))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        Ok(scalar(String::new(), Kind::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let (mut items, mut size) = (Vec::new(), 1);
        while let Some(item) = access.next_element::<Node>()? {
            size += item.size;
            items.push(Rc::new(item));
        }
        Ok(Node { place: None, value: Value::List(items), size })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let (mut entries, mut keys, mut size) = (Vec::new(), BTreeSet::new(), 1);
        while let Some((key, value)) = access.next_entry::<String, Node>()? {
            if !keys.insert(key.clone()) {
                return Err(de::Error::custom(format!("the key {key:?} is repeated")));
            }
            size += value.size;
            entries.push((key, Rc::new(value)));
        }
        Ok(Node { place: None, value: Value::Map(entries), size })
    }
}
