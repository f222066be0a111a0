//! Documents for programs: one an answer, with the version of its form, as JSON or YAML.
//!
//! The forms are types of the commands. Their schemas (`docs/schemas`) are made from the same types by the tests, so that
//! no program carries them.

pub(super) use mesh::data::{Tree, yaml};
use serde::Serialize;

/// The version of all forms. A new field does not raise it; a removed one, or one with another meaning, does.
const VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
}

impl Encoding {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "yaml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// A document with the version of its format.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VersionedDocument<T> {
    /// The version of the format. It increases when a field is removed or changes its meaning.
    version: u32,
    #[serde(flatten)]
    answer: T,
}

impl<T> VersionedDocument<T> {
    pub(super) fn of(answer: T) -> Self {
        Self { version: VERSION, answer }
    }
}

pub(super) fn document(encoding: Encoding, answer: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(&VersionedDocument::of(answer));
    let json = json.expect("our own data has text keys and finite numbers");
    match encoding {
        Encoding::Json => json + "\n",
        Encoding::Yaml => yaml::block(&Tree::read(&json)),
    }
}

/// One of many documents, each as it comes: a line of JSON, or YAML after a line that separates it.
pub(super) fn one_of_many(encoding: Encoding, answer: &impl Serialize) -> String {
    match encoding {
        Encoding::Json => line(answer),
        Encoding::Yaml => format!("---\n{}", document(encoding, answer)),
    }
}

pub(super) fn line(answer: &impl Serialize) -> String {
    let json = serde_json::to_string(&VersionedDocument::of(answer));
    json.expect("our own data has text keys and finite numbers") + "\n"
}

/// The answers about several pods.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Answers<'a> {
    /// One item for each object of the manifest, in order.
    pub(super) answers: Vec<ObjectAnswer<'a>>,
}

/// The answer for one of several pods.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ObjectAnswer<'a> {
    /// The object's kind, namespace and name.
    pub(super) object: &'a str,
    /// The document that the command prints for a single pod.
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub(super) answer: Tree,
}
