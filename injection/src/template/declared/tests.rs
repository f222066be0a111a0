//! The document that explains the vocabulary, held against it: its examples are read, and it names every word.

use super::condition::CONDITIONS;
use super::fact::FACTS;
use super::node::{EACH, WHOLES};
use super::shape::CONTAINER;
use super::shape::VOLUME;
use super::{BUILT_IN, Template, WORDS, built_in};
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../../docs/templates.md");

#[test]
fn every_example_is_read() {
    let examples: Vec<&str> =
        DOCUMENT.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let written = policy::pod::values("example", example).expect("YAML").remove(0);
        let templates = written.get("templates").and_then(Value::as_object).expect("templates");
        for (name, template) in templates {
            Template::read(name, template).expect("a template");
        }
    }
}

#[test]
fn every_word_is_explained() {
    let fields = |shape: &'static super::shape::Shape| shape.fields.iter().map(|field| field.word);
    let words = WORDS
        .into_iter()
        .chain(FACTS.iter().map(|(name, _)| *name))
        .chain(CONDITIONS.iter().map(|(name, _)| *name))
        .chain(BUILT_IN.iter().map(|(name, _)| *name))
        .chain(fields(&CONTAINER))
        .chain(fields(&VOLUME));
    for word in words {
        assert!(DOCUMENT.contains(&format!("`{word}`")), "{word} is not explained");
    }
    for (name, _) in WHOLES {
        assert!(DOCUMENT.contains(&format!("`${{{name}}}`")), "{name} is not explained");
    }
    for (name, _) in EACH {
        assert!(DOCUMENT.contains(&format!("`each: {name}`")), "{name} is not explained");
    }
}

#[test]
fn names_of_built_in_templates() {
    assert_eq!(built_in().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["sidecar", "envoy", "linkerd"]);
}
