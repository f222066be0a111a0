//! Data without types, and how they are written for people.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};
use serde_json::Number;
use std::fmt;

pub mod yaml;

/// Data without types, whose fields keep their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// The tree of a document of ours.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn read(json: &str) -> Self {
        serde_json::from_str(json).expect("our own documents are JSON")
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(is) => serializer.serialize_bool(*is),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                fields.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

/// Takes whatever JSON may hold.
struct TreeVisitor;

impl<'de> de::Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("data")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(is))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Number::from_f64(number).map_or(Tree::Null, Tree::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = access.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_json_holds_becomes_a_tree_and_json_again() {
        let json = r#"{"b":[null,true,-7,18446744073709551615,1.5,"x"],"a":{}}"#;
        let number = |text: &str| Tree::Number(text.parse().expect("a number"));
        let items = vec![
            Tree::Null,
            Tree::Bool(true),
            number("-7"),
            number("18446744073709551615"),
            number("1.5"),
            Tree::Text("x".to_owned()),
        ];
        let expected =
            Tree::Map(vec![("b".to_owned(), Tree::List(items)), ("a".to_owned(), Tree::Map(Vec::new()))]);
        assert_eq!(Tree::read(json), expected);
        assert_eq!(serde_json::to_string(&expected).expect("JSON"), json);
    }

    #[test]
    fn what_json_can_not_hold_is_refused() {
        let bytes = de::value::BytesDeserializer::<de::value::Error>::new(b"x");
        let error = Tree::deserialize(bytes).expect_err("bytes").to_string();
        assert!(error.ends_with("expected data"), "{error}");
    }
}
