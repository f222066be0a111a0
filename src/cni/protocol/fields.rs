//! An object of JSON, its values not yet parsed.

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;

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

    /// The names that are there again.
    pub(crate) fn doubles(&self) -> impl Iterator<Item = &str> {
        let again = |(at, (name, _)): &(usize, &(String, &RawValue))| {
            self.0[..*at].iter().any(|(earlier, _)| earlier == name)
        };
        self.0.iter().enumerate().filter(again).map(|(_, (name, _))| name.as_str())
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
