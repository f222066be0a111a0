//! Namespaces without a cluster: settings of flags for all of them, over those of manifests for each.

use crate::admission::Namespace;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    default: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: BTreeMap<String, String>,
    described: BTreeMap<String, Namespace>,
}

impl Namespaces {
    /// `default` is that of objects that name none; all have the labels, if any are given, and the annotations.
    pub fn new(
        default: &str,
        labels: Option<BTreeMap<String, String>>,
        annotations: BTreeMap<String, String>,
    ) -> Self {
        Self { default: default.to_owned(), labels, annotations, described: BTreeMap::new() }
    }

    /// Takes the namespaces of a manifest's document, alone or in a list. Of two of one name the last counts, as it does where they
    /// are applied.
    pub fn describe(&mut self, document: &Value) {
        let items = document.get("items").and_then(Value::as_array).into_iter().flatten();
        for object in std::iter::once(document).chain(items) {
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            // Other groups have a kind of this name too, such as that of Azure Service Bus.
            let is_core = object["apiVersion"].as_str().is_none_or(|version| version == "v1");
            if is_core
                && object["kind"] == "Namespace"
                && let Some(name) = name
            {
                let (labels, annotations) = (texts(object, "labels"), texts(object, "annotations"));
                let known = Namespace { name: name.to_owned(), labels, annotations };
                self.described.insert(name.to_owned(), known);
            }
        }
    }

    /// An empty `name` is the default namespace.
    pub fn of(&self, name: &str) -> Namespace {
        let name = if name.is_empty() { &self.default } else { name };
        let mut found = self.described.get(name).cloned().unwrap_or_default();
        found.name = name.to_owned();
        found.labels.extend(self.labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        // The API server gives every namespace this one.
        found.labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        found.annotations.extend(self.annotations.clone());
        found
    }

    pub fn knows_labels_of(&self, name: &str) -> bool {
        self.labels.is_some() || self.described.contains_key(name)
    }
}

/// The labels or annotations of an object. A null is the empty string, as it is for the API server; what is not a string
/// is left out.
pub(crate) fn strings<'a>(
    object: &'a Value,
    field: &str,
) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    let fields = object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
    fields.into_iter().flatten().filter_map(|(key, value)| match value {
        Value::String(text) => Some((key.as_str(), text.as_str())),
        Value::Null => Some((key.as_str(), "")),
        _ => None,
    })
}

pub(crate) fn texts(object: &Value, field: &str) -> BTreeMap<String, String> {
    strings(object, field).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_win_over_manifests_and_count_for_all() {
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let mut all = Namespaces::new("shop", None, BTreeMap::new());
        let shop = json!({"kind": "Namespace",
            "metadata": {"name": "shop", "labels": {"a": "1", "b": "1"}, "annotations": {"c": "1"}}});
        let bus = json!({"apiVersion": "servicebus.azure.com/v1api20211101", "kind": "Namespace",
            "metadata": {"name": "shop", "labels": {"a": "2"}}});
        let pod = json!({"kind": "Pod", "metadata": {"name": "other"}});
        all.describe(&json!({"kind": "List", "items": [shop, pod, bus]}));
        assert!(all.knows_labels_of("shop") && !all.knows_labels_of("other"));
        all.labels = Some(pairs(&[("b", "2")]));
        all.annotations = pairs(&[("d", "2")]);
        let name = "kubernetes.io/metadata.name";
        let shop = all.of("");
        assert_eq!(shop.labels, pairs(&[("a", "1"), ("b", "2"), (name, "shop")]));
        assert_eq!(shop.annotations, pairs(&[("c", "1"), ("d", "2")]));
        assert_eq!(all.of("other").labels, pairs(&[("b", "2"), (name, "other")]));
        assert!(all.knows_labels_of("other"));
    }
}
