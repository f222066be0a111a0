//! The input: objects of a cluster as values, with the place of those that are written in files, and the same by kind: pods and
//! templates of pods with the workload behind them, namespaces, Services, webhooks.

use crate::admission::{Namespace, Namespaces, Workload, controller_of, texts};
use mesh::pod::{ENFORCE, ManifestObject, Standard, called, located, objects_in, template_of};
use mesh::{InputProblem, Problems};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

pub(super) struct Inventory<'a> {
    pub(super) pods: Vec<DescribedPod<'a>>,
    pub(super) services: BTreeMap<String, Vec<&'a ClusterObject>>,
    pub(super) webhooks: Vec<&'a ClusterObject>,
    pub(super) config_maps: Vec<&'a ClusterObject>,
    pub(super) is_whole: bool,
    /// Objects that describe pods in a form that Kubernetes refuses: their names and the reasons.
    pub(super) unread: Vec<String>,
}

/// A pod, or the template of a workload.
pub(super) struct DescribedPod<'a> {
    pub(super) workload: ObjectName,
    pub(super) place: Option<&'a ObjectPlace>,
    pub(super) template: &'a Value,
    /// The same as it is read for settings.
    pub(super) read: ManifestObject,
    pub(super) namespace: Rc<KnownNamespace>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) is_pod: bool,
    /// Its containers have not ended for good.
    pub(super) is_running: bool,
}

#[derive(Debug)]
pub(super) struct KnownNamespace {
    pub(super) namespace: Namespace,
    pub(super) is_known: bool,
}

impl<'a> Inventory<'a> {
    pub(super) fn of(question: &ClusterQuestion<'a>) -> Self {
        let mut namespaces = question.namespaces.clone();
        question.objects.iter().for_each(|object| namespaces.describe(&object.value));
        let mut known: BTreeMap<String, Rc<KnownNamespace>> = BTreeMap::new();
        let mut namespace = |name: &str| {
            let of = || {
                let namespace = namespaces.of(name);
                let is_known = namespaces.knows_labels_of(&namespace.name);
                Rc::new(KnownNamespace { namespace, is_known })
            };
            known.entry(name.to_owned()).or_insert_with(of).clone()
        };
        let mut found = Self {
            pods: Vec::new(),
            services: BTreeMap::new(),
            webhooks: Vec::new(),
            config_maps: Vec::new(),
            is_whole: question.is_whole,
            unread: Vec::new(),
        };
        let workloads: BTreeSet<ObjectName> = (question.objects.iter())
            .map(|object| object.name_in(&namespace(object.meta("namespace")).namespace.name))
            .collect();
        for object in question.objects {
            match object.kind() {
                "Service" => {
                    let of = &namespace(object.meta("namespace")).namespace.name;
                    found.services.entry(of.clone()).or_default().push(object);
                }
                "MutatingWebhookConfiguration" => found.webhooks.push(object),
                "ConfigMap" => found.config_maps.push(object),
                kind => {
                    let version = object.value["apiVersion"].as_str().unwrap_or_default();
                    let Some(path) = template_of(kind, version) else { continue };
                    let template = path.iter().try_fold(&object.value, |value, step| value.get(step));
                    let Some(template) = template else { continue };
                    let of = namespace(object.meta("namespace"));
                    found.take(object, template, of, &workloads);
                }
            }
        }
        found
    }

    fn take(
        &mut self,
        object: &'a ClusterObject,
        template: &'a Value,
        namespace: Rc<KnownNamespace>,
        workloads: &BTreeSet<ObjectName>,
    ) {
        let is_pod = object.kind() == "Pod";
        let own = object.name_in(&namespace.namespace.name);
        let workload = if is_pod { of_pod(object, &own) } else { controller(object, &own) };
        // The template of what a Deployment or a CronJob has made is that one's, or an older one.
        let is_replaced = !is_pod && workload != own && workloads.contains(&workload);
        let is_idle = object.kind() == "ReplicaSet" && object.value["spec"]["replicas"] == 0;
        if is_replaced || is_idle {
            return;
        }
        let name = own.to_string();
        let mut read = match objects_in(&name, &object.value) {
            Ok(mut read) if read.len() == 1 => read.remove(0),
            Ok(_) => return,
            Err(problems) => return self.unread.push(problems.joined()),
        };
        read.pod.namespace.clone_from(&namespace.namespace.name);
        read.enforced = Standard::enforced(namespace.namespace.labels.get(ENFORCE).map(String::as_str));
        let status = &object.value["status"];
        let phase = status["phase"].as_str().unwrap_or_default();
        let is_finished = |condition: &Value| {
            matches!(condition["type"].as_str(), Some("Complete" | "Failed")) && condition["status"] == "True"
        };
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let has_ended = matches!(phase, "Succeeded" | "Failed")
            || (object.kind() == "Job" && conditions.any(is_finished));
        let is_running = !has_ended && object.meta("deletionTimestamp").is_empty();
        self.pods.push(DescribedPod {
            workload,
            place: object.place.as_ref(),
            template,
            read,
            namespace,
            labels: texts(template, "labels"),
            annotations: texts(template, "annotations"),
            is_pod,
            is_running,
        });
    }
}

/// The workload of a pod. Not every dump has the prefix of a generated name, by which injectors recognize such pods.
fn of_pod(object: &ClusterObject, own: &ObjectName) -> ObjectName {
    let pod = serde_json::json!({ "metadata": {
        "name": own.name,
        "labels": object.value["metadata"]["labels"],
        "ownerReferences": object.value["metadata"]["ownerReferences"],
        "generateName": "-",
    }});
    let Workload { kind, name, namespace, .. } = Workload::of(&pod, &own.namespace);
    // The node's own pods have it as their owner, each by itself.
    if kind == "Node" { own.clone() } else { ObjectName { kind, namespace, name } }
}

fn controller(object: &ClusterObject, own: &ObjectName) -> ObjectName {
    let Some(owner) = controller_of(&object.value) else { return own.clone() };
    let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
    ObjectName { kind: text("kind"), namespace: own.namespace.clone(), name: text("name") }
}

impl DescribedPod<'_> {
    /// The containers that run beside each other: those of the pod, and native sidecars.
    pub(super) fn containers(&self) -> impl Iterator<Item = &Value> {
        let spec = &self.template["spec"];
        let list = |place: &str| spec[place].as_array().into_iter().flatten();
        let sidecars = list("initContainers").filter(|container| container["restartPolicy"] == "Always");
        list("containers").chain(sidecars)
    }
}

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
    pub line: usize,
    /// Its lines, up to the next object. Empty where they are not known.
    pub text: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    pub kind: String,
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

/// All kinds that findings are based on, beside ConfigMaps. Names of pods show the Deployment behind a ReplicaSet.
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
