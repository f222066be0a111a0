//! A pod taken apart: the parts that injection changes, by their types, and all the rest as it was written.
//!
//! Whatever JSON comes in, either it has the form that Kubernetes wants of these parts, or every place where it has not is
//! a problem. Put together again, a pod that nobody changed is what it was.

use policy::{Problem, Problems};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

type Fields = Map<String, Value>;

/// A list of a pod's that injection adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    InitContainers,
    Containers,
    Volumes,
    ImagePullSecrets,
}

impl List {
    pub(super) const ALL: [Self; 4] =
        [Self::InitContainers, Self::Containers, Self::Volumes, Self::ImagePullSecrets];
    pub(super) const OF_CONTAINERS: [Self; 2] = [Self::Containers, Self::InitContainers];

    /// Its field, in a pod and in the annotations that tell of an injection.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::InitContainers => "initContainers",
            Self::Containers => "containers",
            Self::Volumes => "volumes",
            Self::ImagePullSecrets => "imagePullSecrets",
        }
    }

    const fn is_of_containers(self) -> bool {
        matches!(self, Self::InitContainers | Self::Containers)
    }
}

/// An item of such a list: a container, a volume, a secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Item(pub(super) Fields);

impl Item {
    pub(super) fn name(&self) -> &str {
        self.0.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The items of one of its lists; none if it has no such list.
    pub(super) fn list(&self, field: &str) -> &[Value] {
        self.0.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// One of its objects, made where there is none.
    pub(super) fn object_mut(&mut self, field: &str) -> &mut Fields {
        object_in(&mut self.0, field)
    }

    /// The value of a variable of a container, where it is text.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let variable = self.list("env").iter().rev().find(|variable| variable["name"] == name)?;
        variable.get("value")?.as_str()
    }

    /// Sets a variable, behind all others.
    pub(super) fn set_variable(&mut self, name: &str, value: &str) {
        let env = self.0.entry("env").or_insert_with(|| Value::Array(Vec::new()));
        if !env.is_array() {
            *env = Value::Array(Vec::new());
        }
        if let Value::Array(env) = env {
            env.retain(|variable| variable["name"] != name);
            env.push(serde_json::json!({"name": name, "value": value}));
        }
    }

    /// `runAsUser` or `runAsGroup` of a container; `None` where it says nothing, or no whole number.
    pub(super) fn runs_as(&self, field: &str) -> Option<i64> {
        self.0.get("securityContext")?.get(field)?.as_i64()
    }
}

/// The object of a field, made where there is none.
pub(super) fn object_in<'a>(fields: &'a mut Fields, field: &str) -> &'a mut Fields {
    let value = fields.entry(field).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made one")
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pod {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    lists: [Vec<Item>; List::ALL.len()],
    /// All the rest. Parts from above that are empty or null stay in it as they were written.
    rest: Fields,
}

impl Pod {
    /// Takes a pod apart. `title` names it in problems.
    ///
    /// # Errors
    /// Every part that has not the form that it has to have.
    pub(super) fn read(title: &str, written: Value) -> Result<Self, Problems> {
        let mut reader = Reader { title, problems: Vec::new() };
        let mut pod = Self::default();
        match written {
            Value::Object(rest) => pod.rest = rest,
            other => {
                let text = format!("is {}; expected an object", noun(&other));
                return Err(Problems(vec![Problem::of(title, text)]));
            }
        }
        if let Some(meta) = reader.object(&mut pod.rest, "metadata") {
            for field in ["name", "generateName", "namespace"] {
                if let Some(other) = meta.get(field).filter(|value| !value.is_string() && !value.is_null()) {
                    reader.no_text(&format!("metadata.{field}"), other);
                }
            }
            pod.labels = reader.texts(meta, "labels");
            pod.annotations = reader.texts(meta, "annotations");
        }
        if let Some(spec) = reader.object(&mut pod.rest, "spec") {
            for list in List::ALL {
                pod.lists[list as usize] = reader.items(spec, list);
            }
        }
        if reader.problems.is_empty() { Ok(pod) } else { Err(Problems(reader.problems)) }
    }

    /// Puts it together again.
    pub(super) fn written(self) -> Value {
        let Self { labels, annotations, lists, rest: mut whole } = self;
        for (field, texts) in [("labels", labels), ("annotations", annotations)] {
            if !texts.is_empty() {
                let texts = texts.into_iter().map(|(name, text)| (name, Value::String(text))).collect();
                object_in(&mut whole, "metadata").insert(field.to_owned(), texts);
            }
        }
        for (list, items) in List::ALL.into_iter().zip(lists) {
            if !items.is_empty() {
                let items = items.into_iter().map(|item| Value::Object(item.0)).collect();
                object_in(&mut whole, "spec").insert(list.field().to_owned(), items);
            }
        }
        Value::Object(whole)
    }

    pub(super) fn items(&self, list: List) -> &[Item] {
        &self.lists[list as usize]
    }

    pub(super) fn items_mut(&mut self, list: List) -> &mut Vec<Item> {
        &mut self.lists[list as usize]
    }

    /// The item of this name.
    pub(super) fn item(&self, list: List, name: &str) -> Option<&Item> {
        self.items(list).iter().find(|item| item.name() == name)
    }

    /// All containers, those that run all along first.
    pub(super) fn containers(&self) -> impl Iterator<Item = &Item> {
        List::OF_CONTAINERS.into_iter().flat_map(|list| self.items(list))
    }

    /// The container of this name, and in which list it is.
    pub(super) fn container(&self, name: &str) -> Option<(List, &Item)> {
        List::OF_CONTAINERS.into_iter().find_map(|list| Some((list, self.item(list, name)?)))
    }

    /// The container of this name.
    pub(super) fn container_mut(&mut self, name: &str) -> Option<&mut Item> {
        let (list, _) = self.container(name)?;
        self.items_mut(list).iter_mut().find(|item| item.name() == name)
    }

    /// Takes an item out.
    pub(super) fn take(&mut self, list: List, name: &str) -> Option<Item> {
        let items = self.items_mut(list);
        let at = items.iter().position(|item| item.name() == name)?;
        Some(items.remove(at))
    }

    /// A text of its metadata; empty where there is none.
    pub(super) fn meta(&self, field: &str) -> &str {
        self.rest.get("metadata").and_then(|meta| meta.get(field)?.as_str()).unwrap_or_default()
    }

    /// Says where it is, if it does not say so itself.
    pub(super) fn place(&mut self, namespace: &str) {
        if self.meta("namespace").is_empty() && !namespace.is_empty() {
            object_in(&mut self.rest, "metadata").insert("namespace".to_owned(), namespace.into());
        }
    }

    /// A field of its spec beside the lists.
    pub(super) fn spec(&self, field: &str) -> Option<&Value> {
        self.rest.get("spec")?.get(field)
    }
}

struct Reader<'a> {
    title: &'a str,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn object<'a>(&mut self, fields: &'a mut Fields, field: &str) -> Option<&'a mut Fields> {
        match fields.get_mut(field)? {
            Value::Null => None,
            Value::Object(object) => Some(object),
            other => {
                let text = format!("is {}; expected an object", noun(other));
                self.problem(field, text);
                None
            }
        }
    }

    /// Takes labels or annotations out.
    fn texts(&mut self, meta: &mut Fields, field: &str) -> BTreeMap<String, String> {
        let path = format!("metadata.{field}");
        let Some(texts) = self.object(meta, field) else { return BTreeMap::new() };
        let mut found = BTreeMap::new();
        for (name, value) in &*texts {
            match value {
                Value::String(text) => drop(found.insert(name.clone(), text.clone())),
                Value::Null => drop(found.insert(name.clone(), String::new())),
                other => self.no_text(&format!("{path}.{name}"), other),
            }
        }
        if !found.is_empty() {
            meta.remove(field);
        }
        found
    }

    /// Takes the items of a list out.
    fn items(&mut self, spec: &mut Fields, list: List) -> Vec<Item> {
        let path = format!("spec.{}", list.field());
        let items = match spec.get(list.field()) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => {
                let text = format!("is {}; expected a list", noun(other));
                self.problem(&path, text);
                return Vec::new();
            }
        };
        for (at, item) in items.iter().enumerate() {
            let path = format!("{path}[{at}]");
            let Value::Object(fields) = item else {
                self.problem(&path, format!("is {}; expected an object", noun(item)));
                continue;
            };
            match fields.get("name") {
                Some(Value::String(_)) => {}
                None if !list.is_of_containers() => {}
                _ => self.problem(&path, "has no name, by which it is known; give it one".to_owned()),
            }
            if list.is_of_containers() {
                self.container(fields, &path);
            }
        }
        if items.is_empty() {
            return Vec::new();
        }
        let Some(Value::Array(items)) = spec.remove(list.field()) else { return Vec::new() };
        items.into_iter().filter_map(fields).map(Item).collect()
    }

    fn container(&mut self, fields: &Fields, path: &str) {
        for field in ["env", "ports", "volumeMounts"] {
            match fields.get(field) {
                None | Some(Value::Null | Value::Array(_)) => {}
                Some(other) => {
                    self.problem(&format!("{path}.{field}"), format!("is {}; expected a list", noun(other)));
                }
            }
        }
        let context = fields.get("securityContext");
        for field in ["runAsUser", "runAsGroup"] {
            let id = context.and_then(|context| context.get(field)).filter(|id| !id.is_null());
            if let Some(id) = id.filter(|id| id.as_i64().is_none_or(|id| id < 0)) {
                let text = format!("is {id}; expected a whole number from 0 on");
                self.problem(&format!("{path}.securityContext.{field}"), text);
            }
        }
    }

    fn no_text(&mut self, field: &str, value: &Value) {
        let text = format!("is {}; Kubernetes takes a text here, so write it in quotes", noun(value));
        self.problem(field, text);
    }

    fn problem(&mut self, field: &str, text: String) {
        self.problems.push(Problem::of(&format!("{}: {field}", self.title), text));
    }
}

fn fields(value: Value) -> Option<Fields> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// What a value is, in words.
pub(super) const fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_nobody_changes_stays_as_it_was_written() {
        for written in [
            json!({}),
            json!({"metadata": null, "spec": {"containers": null, "volumes": []}}),
            json!({"metadata": {"labels": {}, "annotations": {"a": "b"}}, "spec": {}, "more": [1]}),
            json!({"spec": {"containers": [{"name": "a", "env": null}], "imagePullSecrets": [{}]}}),
        ] {
            assert_eq!(Pod::read("pod", written.clone()).expect("a pod").written(), written);
        }
    }

    #[test]
    fn every_part_that_is_not_as_it_has_to_be_is_told() {
        let written = json!({
            "metadata": {"labels": {"a": 1}, "annotations": []},
            "spec": {
                "containers": [{"image": "x"}, 7, {"name": "a", "env": {}, "securityContext": {"runAsUser": "x"}}],
                "initContainers": {},
            },
        });
        let told = Pod::read("pod", written).expect_err("problems").to_string();
        for place in [
            "pod: metadata.labels.a: is a number",
            "pod: annotations: is a list",
            "pod: spec.containers[0]: has no name",
            "pod: spec.containers[1]: is a number",
            "pod: spec.containers[2].env: is an object",
            "pod: spec.containers[2].securityContext.runAsUser: is \"x\"",
            "pod: spec.initContainers: is an object",
        ] {
            assert!(told.contains(place), "{place} in {told}");
        }
        assert!(told.starts_with("7 problems"), "{told}");
    }
}
