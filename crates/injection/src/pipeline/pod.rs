//! A pod as one JSON value with typed access to the parts that injection changes. Their types are checked after parsing and after
//! each patch; all other parts are kept as written.

use crate::admission::strings;
use mesh::data::document::{DocumentReader, noun};
use mesh::{InputProblem, Problems};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::mem;

pub(crate) const PROBES: [&str; 3] = ["readinessProbe", "livenessProbe", "startupProbe"];
/// Network actions of probes and hooks, all supported by the agent. `exec` and `sleep` are local.
pub(crate) const NETWORK_ACTIONS: [&str; 3] = ["httpGet", "tcpSocket", "grpc"];

type PodFields = Map<String, Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodSpecList {
    InitContainers,
    Containers,
    Volumes,
    ImagePullSecrets,
}

impl PodSpecList {
    pub(crate) const ALL: [Self; 4] =
        [Self::InitContainers, Self::Containers, Self::Volumes, Self::ImagePullSecrets];
    pub(crate) const OF_CONTAINERS: [Self; 2] = [Self::Containers, Self::InitContainers];

    pub(crate) const fn field(self) -> &'static str {
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

pub(crate) trait PodSpecItem {
    fn name(&self) -> &str;

    fn list(&self, field: &str) -> &[Value];

    fn fields_mut(&mut self) -> &mut PodFields;

    fn variable(&self, name: &str) -> Option<&str> {
        let variable = self.list("env").iter().rev().find(|variable| variable["name"] == name)?;
        variable.get("value")?.as_str()
    }

    fn set_variable(&mut self, name: &str, value: &str) {
        self.set_variables(&BTreeMap::from([(name, value)]));
    }

    fn set_variables(&mut self, variables: &BTreeMap<&str, &str>) {
        if variables.is_empty() {
            return;
        }
        let env = self.fields_mut().entry("env").or_insert(Value::Null);
        if !env.is_array() {
            *env = Value::Array(Vec::new());
        }
        if let Value::Array(env) = env {
            env.retain(|variable| !variables.contains_key(variable.name()));
            env.extend(variables.iter().map(|(name, value)| json!({"name": name, "value": value})));
        }
    }

    /// `runAsUser` or `runAsGroup` of a container; `None` if absent or not an integer.
    fn runs_as(&self, field: &str) -> Option<i64>;
}

#[cfg(test)]
std::thread_local! {
    /// Number of item name reads, a measure of list searches.
    pub(super) static NAMES_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl PodSpecItem for Value {
    fn name(&self) -> &str {
        #[cfg(test)]
        NAMES_READ.set(NAMES_READ.get() + 1);
        self.get("name").and_then(Self::as_str).unwrap_or_default()
    }

    fn list(&self, field: &str) -> &[Value] {
        self.get(field).and_then(Self::as_array).map_or(&[], Vec::as_slice)
    }

    fn fields_mut(&mut self) -> &mut PodFields {
        self.as_object_mut().expect("the items of a checked pod are objects")
    }

    fn runs_as(&self, field: &str) -> Option<i64> {
        self.get("securityContext")?.get(field)?.as_i64()
    }
}

pub(crate) fn object_in<'a>(fields: &'a mut PodFields, field: &str) -> &'a mut PodFields {
    let value = fields.entry(field).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made one")
}

/// Resolves a port; a name is looked up in the containers, by protocol if given.
pub(crate) fn port_number<'a>(
    port: &Value,
    protocol: Option<&str>,
    containers: impl IntoIterator<Item = &'a Value>,
) -> Option<u16> {
    let as_port = |number: &Value| number.as_u64().and_then(|number| u16::try_from(number).ok());
    let fits = |port: &Value| protocol.is_none_or(|it| port["protocol"].as_str().unwrap_or("TCP") == it);
    match port {
        Value::String(name) => {
            let ports = containers.into_iter().flat_map(|container| container.list("ports"));
            let named = ports.into_iter().find(|port| port["name"] == name.as_str() && fits(port));
            named.map_or_else(|| name.parse().ok(), |port| as_port(&port["containerPort"]))
        }
        number => as_port(number),
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckedPod(Value);

impl Default for CheckedPod {
    fn default() -> Self {
        Self(Value::Object(Map::new()))
    }
}

impl CheckedPod {
    pub(crate) fn read(title: &str, pod: Value) -> Result<Self, Problems> {
        if !pod.is_object() {
            let text = format!("is {}; expected an object", noun(&pod));
            return Err(Problems(vec![InputProblem::of(title, text)]));
        }
        let mut reader = DocumentReader::of(title, &pod);
        check(&mut reader);
        Problems::check(reader.finish()).map(|()| Self(pod))
    }

    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    pub(crate) fn into_value(self) -> Value {
        self.0
    }

    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        let annotation = self.0.get("metadata")?.get("annotations")?.get(name)?;
        Some(annotation.as_str().unwrap_or_default())
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        Some(self.0.get("metadata")?.get("labels")?.get(name)?.as_str().unwrap_or_default())
    }

    pub(crate) fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        strings(&self.0, "annotations")
    }

    pub(crate) fn set(&mut self, field: &str, name: impl Into<String>, text: impl Into<String>) {
        self.0["metadata"][field][name.into()] = text.into().into();
    }

    /// Removes annotations, and the mapping if this empties it.
    pub(crate) fn retain_annotations(&mut self, fits: impl Fn(&str) -> bool) {
        let metadata = self.0.get_mut("metadata").and_then(Value::as_object_mut);
        let Some(metadata) = metadata else { return };
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            let before = annotations.len();
            annotations.retain(|name, _| fits(name));
            if annotations.is_empty() && before > 0 {
                metadata.remove("annotations");
            }
        }
    }

    pub(crate) fn items(&self, list: PodSpecList) -> &[Value] {
        self.0.get("spec").map_or(&[], |spec| spec.list(list.field()))
    }

    pub(crate) fn items_mut(&mut self, list: PodSpecList) -> &mut [Value] {
        let items = self.0.get_mut("spec").and_then(|spec| spec.get_mut(list.field())?.as_array_mut());
        items.map_or(&mut [], Vec::as_mut_slice)
    }

    /// Edits a list; removes it if the edit empties it. Originally empty or null lists stay.
    pub(crate) fn edit<T>(&mut self, list: PodSpecList, change: impl FnOnce(&mut Vec<Value>) -> T) -> T {
        let field = list.field();
        let written = self.0.get_mut("spec").and_then(|spec| spec.get_mut(field));
        let mut items = match written {
            Some(Value::Array(items)) => mem::take(items),
            _ => Vec::new(),
        };
        let was_empty = items.is_empty();
        let outcome = change(&mut items);
        if !items.is_empty() {
            self.0["spec"][field] = items.into();
        } else if let Some(Value::Object(spec)) = self.0.get_mut("spec").filter(|_| !was_empty) {
            spec.remove(field);
        }
        outcome
    }

    /// A list's items by name, for searches in loops; the first of duplicates wins.
    pub(crate) fn by_name(&self, list: PodSpecList) -> HashMap<&str, &Value> {
        self.items(list).iter().rev().map(|item| (item.name(), item)).collect()
    }

    pub(crate) fn containers_by_name(&self) -> HashMap<&str, &Value> {
        let lists = PodSpecList::OF_CONTAINERS.into_iter().rev();
        lists.flat_map(|list| self.by_name(list)).collect()
    }

    pub(crate) fn places(&self, list: PodSpecList) -> HashMap<String, usize> {
        let items = self.items(list).iter().enumerate().rev();
        items.map(|(at, item)| (item.name().to_owned(), at)).collect()
    }

    pub(crate) fn item(&self, list: PodSpecList, name: &str) -> Option<&Value> {
        self.items(list).iter().find(|item| item.name() == name)
    }

    /// All containers, long-running ones first.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &Value> {
        PodSpecList::OF_CONTAINERS.into_iter().flat_map(|list| self.items(list))
    }

    pub(crate) fn container(&self, name: &str) -> Option<(PodSpecList, &Value)> {
        PodSpecList::OF_CONTAINERS.into_iter().find_map(|list| Some((list, self.item(list, name)?)))
    }

    pub(crate) fn container_mut(&mut self, name: &str) -> Option<&mut Value> {
        let (list, _) = self.container(name)?;
        self.items_mut(list).iter_mut().find(|item| item.name() == name)
    }

    pub(crate) fn take(&mut self, list: PodSpecList, name: &str) -> Option<Value> {
        self.edit(list, |items| {
            let at = items.iter().position(|item| item.name() == name)?;
            Some(items.remove(at))
        })
    }

    pub(crate) fn meta(&self, field: &str) -> &str {
        self.0.get("metadata").and_then(|meta| meta.get(field)?.as_str()).unwrap_or_default()
    }

    pub(crate) fn set_default_namespace(&mut self, namespace: &str) {
        if self.meta("namespace").is_empty() && !namespace.is_empty() {
            self.0["metadata"]["namespace"] = namespace.into();
        }
    }

    pub(crate) fn spec(&self, field: &str) -> Option<&Value> {
        self.0.get("spec")?.get(field)
    }
}

fn check(reader: &mut DocumentReader<'_>) {
    reader.mapping("metadata");
    for field in ["metadata.name", "metadata.generateName", "metadata.namespace"] {
        reader.string(field);
    }
    for field in ["metadata.labels", "metadata.annotations"] {
        reader.strings(field);
    }
    reader.mapping("spec");
    for list in PodSpecList::ALL {
        let path = format!("spec.{}", list.field());
        for (at, item) in reader.list(&path).iter().enumerate() {
            check_item(reader, list, item, &|| format!("{path}[{at}]"));
        }
    }
}

pub(crate) fn check_changed(title: &str, list: PodSpecList, at: usize, item: &Value) -> Result<(), Problems> {
    let mut reader = DocumentReader::of(title, item);
    check_item(&mut reader, list, item, &|| format!("spec.{}[{at}]", list.field()));
    Problems::check(reader.finish())
}

fn check_item(reader: &mut DocumentReader<'_>, list: PodSpecList, item: &Value, path: &dyn Fn() -> String) {
    if !item.is_object() {
        return reader.refuse(&path(), item, "an object");
    }
    match item.get("name") {
        Some(Value::String(_)) => {}
        None if !list.is_of_containers() => {}
        _ => reader.problem(&path(), None, "has no name; give it one"),
    }
    if !list.is_of_containers() {
        return;
    }
    for field in ["env", "ports", "volumeMounts"] {
        match item.get(field) {
            None | Some(Value::Null | Value::Array(_)) => {}
            Some(other) => reader.refuse(&format!("{}.{field}", path()), other, "a list"),
        }
    }
    let context = item.get("securityContext");
    for field in ["runAsUser", "runAsGroup"] {
        let id = context.and_then(|context| context.get(field)).filter(|id| !id.is_null());
        if let Some(id) = id.filter(|id| id.as_i64().is_none_or(|id| id < 0)) {
            let text = format!("is {id}; expected a whole number from 0");
            reader.problem(&format!("{}.securityContext.{field}", path()), None, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_kept_as_they_were_written_or_removed_with_their_last_item() {
        for written in [json!({}), json!({"spec": {"containers": null, "volumes": []}})] {
            let mut pod = CheckedPod::read("pod", written.clone()).expect("a pod");
            for list in PodSpecList::ALL {
                pod.edit(list, |items| items.push(json!({"name": "a"})));
                assert_eq!(pod.take(list, "a"), Some(json!({"name": "a"})));
                assert_eq!(pod.spec(list.field()), None, "{written}");
                assert_eq!(pod.take(list, "a"), None);
            }
        }
        let written = json!({"spec": {"containers": null, "volumes": []}});
        let mut pod = CheckedPod::read("pod", written.clone()).expect("a pod");
        PodSpecList::ALL.into_iter().for_each(|list| pod.edit(list, Vec::clear));
        assert_eq!(pod.into_value(), written);
    }

    #[test]
    fn annotations_are_removed_with_the_last_one_and_kept_as_they_were_written() {
        let kept = |annotations: Value| {
            let pod = json!({"metadata": {"annotations": annotations}});
            let mut pod = CheckedPod::read("pod", pod).expect("a pod");
            pod.retain_annotations(|name| name != "a");
            pod.into_value()["metadata"].clone()
        };
        assert_eq!(kept(json!({"a": "1", "b": "2"})), json!({"annotations": {"b": "2"}}));
        assert_eq!(kept(json!({"a": "1"})), json!({}));
        assert_eq!(kept(json!({})), json!({"annotations": {}}));
    }

    #[test]
    fn every_part_of_a_wrong_type_is_reported() {
        let written = json!({
            "metadata": {"labels": {"a": 1}, "annotations": []},
            "spec": {
                "containers": [{"image": "x"}, 7, {"name": "a", "env": {}, "securityContext": {"runAsUser": "x"}}],
                "initContainers": {},
            },
        });
        let shown = CheckedPod::read("pod", written).expect_err("problems").to_string();
        for place in [
            "pod: metadata.labels.a: \"1\" is a number",
            "pod: metadata.annotations: is a list",
            "pod: spec.containers[0]: has no name",
            "pod: spec.containers[1]: \"7\" is a number",
            "pod: spec.containers[2].env: is a mapping",
            "pod: spec.containers[2].securityContext.runAsUser: is \"x\"",
            "pod: spec.initContainers: is a mapping",
        ] {
            assert!(shown.contains(place), "{place} in {shown}");
        }
        assert!(shown.starts_with("7 problems"), "{shown}");
    }
}
