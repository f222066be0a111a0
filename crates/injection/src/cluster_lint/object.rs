//! The input: objects of a cluster as values, with the place of those that are written in files.

use crate::namespaces::Namespaces;
use mesh::pod::{called, located};
use mesh::{InputProblem, Problems};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// An object of Kubernetes; lists are not objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterObject {
    pub value: Value,
    /// `None` for objects of an API server.
    pub place: Option<ObjectPlace>,
}

#[derive(Clone, Debug)]
pub struct ClusterQuestion<'a> {
    /// Lists are unpacked.
    pub objects: &'a [ClusterObject],
    pub namespaces: Namespaces,
    /// The objects are all Namespaces, Services and webhooks of a cluster: an absent one does not exist.
    pub is_whole: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPlace {
    pub file: Arc<str>,
    /// Its first line, from 1.
    pub line: usize,
    /// Its lines, up to the next object. Empty where they are not known.
    pub text: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    pub kind: String,
    /// Empty for objects that have none.
    pub namespace: String,
    pub name: String,
}

/// A kind of object that findings are based on, as `kubectl get` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededResource {
    /// With its group, such as `deployments.apps`.
    pub name: &'static str,
    pub is_namespaced: bool,
}

const fn needed(name: &'static str, is_namespaced: bool) -> NeededResource {
    NeededResource { name, is_namespaced }
}

/// All kinds that findings are based on, beside the ConfigMaps of [`super::config_maps`]. ReplicaSets are left out: the names
/// of pods show the Deployment that owns theirs.
pub const RESOURCES: &[NeededResource] = &[
    needed("namespaces", false),
    needed("mutatingwebhookconfigurations.admissionregistration.k8s.io", false),
    needed("pods", true),
    needed("services", true),
    needed("deployments.apps", true),
    needed("statefulsets.apps", true),
    needed("daemonsets.apps", true),
    needed("jobs.batch", true),
    needed("cronjobs.batch", true),
];

impl ClusterObject {
    /// The objects in the output of `kubectl get -o json`: one, or a list.
    pub fn unpacked(value: Value) -> Vec<Self> {
        let Value::Object(mut fields) = value else { return Vec::new() };
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        let Some(of) = kind.strip_suffix("List").map(str::to_owned) else {
            return vec![Self { value: Value::Object(fields), place: None }];
        };
        let version = fields.get("apiVersion").cloned();
        let Some(Value::Array(items)) = fields.remove("items") else { return Vec::new() };
        let complete = |mut item: Value| {
            // Items of a typed list have no kind.
            if let Value::Object(fields) = &mut item
                && !of.is_empty()
            {
                fields.entry("kind").or_insert_with(|| of.clone().into());
                if let Some(version) = &version {
                    fields.entry("apiVersion").or_insert_with(|| version.clone());
                }
            }
            Self { value: item, place: None }
        };
        items.into_iter().map(complete).collect()
    }

    /// The objects of a file. `name` is that of the file, for findings and problems.
    ///
    /// # Errors
    /// When it is neither YAML nor JSON, or holds no object.
    pub fn in_file(name: &str, text: &str) -> Result<Vec<Self>, Problems> {
        let found = located(name, text)?;
        let starts: Vec<Option<usize>> = found.iter().map(|one| one.line).collect();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let file: Arc<str> = name.into();
        let mut objects = Vec::new();
        for (at, one) in found.into_iter().enumerate().filter(|(_, one)| !one.value.is_null()) {
            let place = match starts[at] {
                Some(line) => {
                    let next = starts[at + 1..].iter().flatten().next().copied().unwrap_or(lines.len() + 1);
                    let own = lines.get(line - 1..next.max(line) - 1).unwrap_or_default();
                    ObjectPlace { file: file.clone(), line, text: own.concat().into() }
                }
                None => ObjectPlace { file: file.clone(), line: 1, text: "".into() },
            };
            if one.value.get("kind").and_then(Value::as_str).is_none() {
                let text = format!(
                    "has something at line {} that is not an object: it has no kind; expected manifests, or what \
                     kubectl get -o yaml prints",
                    place.line
                );
                return Err(Problems(vec![InputProblem::of(name, text)]));
            }
            objects.push(Self { value: one.value, place: Some(place) });
        }
        if objects.is_empty() {
            let text = "holds no object; expected manifests, or what kubectl get -o yaml prints";
            return Err(Problems(vec![InputProblem::of(name, text)]));
        }
        Ok(objects)
    }

    pub(super) fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    pub(super) fn meta(&self, field: &str) -> &str {
        self.value["metadata"][field].as_str().unwrap_or_default()
    }

    /// `namespace` is empty for an object that is in none.
    pub(super) fn name_in(&self, namespace: &str) -> ObjectName {
        let name = called(Some(self.meta("name")), Some(self.meta("generateName"))).unwrap_or_default();
        ObjectName { kind: self.kind().to_owned(), namespace: namespace.to_owned(), name }
    }

    /// A manifest has no uid.
    pub(super) fn is_of_cluster(&self) -> bool {
        !self.meta("uid").is_empty()
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl Serialize for ObjectName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
