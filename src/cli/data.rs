//! What is printed for programs: one document an answer, with the version of its form, as JSON or YAML.
//!
//! The forms are types of the commands. Their schemas (`docs/schemas`) are made from the same types by the tests, so that
//! no program carries them.

use super::yaml;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};
use serde_json::Number;
use std::fmt;

/// The version of all forms. A field that comes to a form does not raise it; one that goes, or means something else, does.
const VERSION: u32 = 1;

/// How data are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
}

impl Encoding {
    /// The encoding of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "yaml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// An answer with the version of its form.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Document<T> {
    /// The version of the form: a number that grows when a field goes or comes to mean something else.
    version: u32,
    #[serde(flatten)]
    answer: T,
}

impl<T> Document<T> {
    pub(super) fn of(answer: T) -> Self {
        Self { version: VERSION, answer }
    }
}

/// A document of its own.
pub(super) fn document(encoding: Encoding, answer: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(&Document::of(answer));
    encoded(encoding, &json.expect("our own data has text keys and finite numbers"))
}

/// One of many documents, each as it comes: a line of JSON, or YAML behind a line that separates it.
pub(super) fn one_of_many(encoding: Encoding, answer: &impl Serialize) -> String {
    match encoding {
        Encoding::Json => line(answer),
        Encoding::Yaml => format!("---\n{}", document(encoding, answer)),
    }
}

/// A document in one line of JSON.
pub(super) fn line(answer: &impl Serialize) -> String {
    let json = serde_json::to_string(&Document::of(answer));
    json.expect("our own data has text keys and finite numbers") + "\n"
}

fn encoded(encoding: Encoding, json: &str) -> String {
    match encoding {
        Encoding::Json => format!("{json}\n"),
        Encoding::Yaml => yaml::block(&Tree::read(json)),
    }
}

/// Data without types, whose fields keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// The tree of a document of ours.
    pub(super) fn read(json: &str) -> Self {
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
        deserializer.deserialize_any(Reader)
    }
}

/// Takes whatever JSON may hold.
struct Reader;

impl<'de> de::Visitor<'de> for Reader {
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

/// What is said of several pods.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Answers<'a> {
    /// One for each object of the manifest, in its order.
    pub(super) answers: Vec<Answer<'a>>,
}

/// What is said of one of several pods.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Answer<'a> {
    /// The object's kind, namespace and name.
    pub(super) object: &'a str,
    /// The document that the command prints of a single pod.
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub(super) answer: Tree,
}
