//! A manifest as a tree: what was written, and where.
//!
//! `serde_json::Value` has no positions. A scalar keeps its text: whether `0755` is a number
//! depends on the reader.

use super::scalar::{ScalarKind, kind};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::{collections::BTreeSet, fmt, rc::Rc};

/// A place in a text; unknown of what JSON holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextPosition {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct ManifestNode {
    pub(super) place: Option<TextPosition>,
    pub(super) value: ManifestValue,
    /// How many values it holds, those of aliases included. In YAML, a long text counts as several.
    pub(super) size: usize,
}

#[derive(Clone, Debug)]
pub(super) enum ManifestValue {
    Scalar { text: String, kind: ScalarKind },
    List(Vec<Rc<ManifestNode>>),
    Map(Vec<(String, Rc<ManifestNode>)>),
}

impl ManifestNode {
    /// The value under a key; `None` where there is none, or it is null.
    pub(super) fn get(&self, key: &str) -> Option<&Rc<Self>> {
        let ManifestValue::Map(entries) = &self.value else { return None };
        let (_, node) = entries.iter().find(|(name, _)| name == key)?;
        (!node.is_null()).then_some(node)
    }

    /// The value at a path of keys.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key).map(Rc::as_ref))
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value, ManifestValue::Scalar { kind: ScalarKind::Null, .. })
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            ManifestValue::Scalar { text, kind: ScalarKind::Text } => Some(text),
            _ => None,
        }
    }

    /// What it is, in words.
    pub(super) fn noun(&self) -> &'static str {
        match &self.value {
            ManifestValue::Scalar { kind, .. } => kind.noun(),
            ManifestValue::List(_) => "a list",
            ManifestValue::Map(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for ManifestNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FromJson)
    }
}

/// Reads JSON. Repeated keys are refused, as in YAML.
struct FromJson;

fn scalar(text: String, kind: ScalarKind) -> ManifestNode {
    ManifestNode { place: None, value: ManifestValue::Scalar { text, kind }, size: 1 }
}

impl<'de> Visitor<'de> for FromJson {
    type Value = ManifestNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ManifestNode, E> {
        Ok(scalar(text.to_owned(), ScalarKind::Text))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<ManifestNode, E> {
        Ok(scalar(value.to_string(), ScalarKind::Bool(value)))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<ManifestNode, E> {
        let text = value.to_string();
        let kind = kind(&text);
        Ok(scalar(text, kind))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<ManifestNode, E> {
        let text = value.to_string();
        let kind = kind(&text);
        Ok(scalar(text, kind))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<ManifestNode, E> {
        Ok(scalar(value.to_string(), ScalarKind::Float))
    }

    fn visit_unit<E: de::Error>(self) -> Result<ManifestNode, E> {
        Ok(scalar(String::new(), ScalarKind::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<ManifestNode, A::Error> {
        let (mut items, mut size) = (Vec::new(), 1);
        while let Some(item) = access.next_element::<ManifestNode>()? {
            size += item.size;
            items.push(Rc::new(item));
        }
        Ok(ManifestNode { place: None, value: ManifestValue::List(items), size })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<ManifestNode, A::Error> {
        let (mut entries, mut keys, mut size) = (Vec::new(), BTreeSet::new(), 1);
        while let Some((key, value)) = access.next_entry::<String, ManifestNode>()? {
            if !keys.insert(key.clone()) {
                return Err(de::Error::custom(format!("the key {key:?} is repeated")));
            }
            size += value.size;
            entries.push((key, Rc::new(value)));
        }
        Ok(ManifestNode { place: None, value: ManifestValue::Map(entries), size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_json_counts_what_it_holds() {
        for (json, size) in [("1", 1), ("[]", 1), ("[1,[2,3]]", 5), (r#"{"a":1,"b":{"c":[2]}}"#, 5)] {
            let node: ManifestNode = serde_json::from_str(json).expect("JSON");
            assert_eq!(node.size, size, "{json}");
        }
    }

    #[test]
    fn scalars_of_json_are_what_they_say() {
        for (json, text, kind) in [
            (r#""1""#, "1", ScalarKind::Text),
            ("true", "true", ScalarKind::Bool(true)),
            ("-7", "-7", ScalarKind::Whole(-7)),
            ("18446744073709551615", "18446744073709551615", ScalarKind::Whole(u64::MAX.into())),
            ("1.5", "1.5", ScalarKind::Float),
            ("null", "", ScalarKind::Null),
        ] {
            let node: ManifestNode = serde_json::from_str(json).expect("JSON");
            let ManifestValue::Scalar { text: found, kind: found_kind } = &node.value else {
                panic!("{node:?}")
            };
            assert_eq!((found.as_str(), *found_kind, node.place), (text, kind, None));
        }
    }

    #[test]
    fn what_json_can_not_hold_or_repeats_is_refused() {
        let bytes = de::value::BytesDeserializer::<de::value::Error>::new(b"x");
        let error = ManifestNode::deserialize(bytes).expect_err("bytes").to_string();
        assert!(error.ends_with("expected JSON"), "{error}");
        let error =
            serde_json::from_str::<ManifestNode>(r#"{"a":1,"a":2}"#).expect_err("a key twice").to_string();
        assert!(error.starts_with("the key \"a\" is repeated"), "{error}");
    }
}
