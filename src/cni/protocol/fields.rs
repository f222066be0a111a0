//! An object of JSON, its values not yet parsed.

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{collections::HashSet, fmt};

/// The fields in their order, doubles included.
#[derive(Debug)]
pub(crate) struct PluginFields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> PluginFields<'a> {
    /// # Errors
    /// When the text is not an object.
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// A field's value; `None` if it is not there, or `null`, which Go writes for what is not set.
    pub(crate) fn value(&self, name: &str) -> Option<&'a RawValue> {
        self.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
            .filter(|value| value.get() != "null")
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.iter().any(|(key, _)| key == name)
    }

    /// The name of each field that repeats an earlier one's.
    pub(crate) fn doubles(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        self.0.iter().map(|(name, _)| name.as_str()).filter(move |name| !seen.insert(*name))
    }
}

impl<'de> Deserialize<'de> for PluginFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PluginFieldsVisitor;
        impl<'de> Visitor<'de> for PluginFieldsVisitor {
            type Value = PluginFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(PluginFields(fields))
            }
        }
        deserializer.deserialize_map(PluginFieldsVisitor)
    }
}
