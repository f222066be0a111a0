//! Sorts a cluster's objects, with their file locations, by kind: pods and templates with their workloads, namespaces, Services
//! and webhooks.

use crate::admission::{Namespace, Namespaces, ObjectLabels, Workload, controller_of};
use mesh::pod::{ENFORCE, KubernetesObject, ManifestObject, Standard};
use mesh::{InputProblem, Problems, data::document::at};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, rc::Rc};

#[derive(Default)]
pub(super) struct Inventory<'a> {
    pub(super) pods: Vec<DescribedPod<'a>>,
    pub(super) services: BTreeMap<String, Vec<&'a KubernetesObject>>,
    pub(super) webhooks: Vec<&'a KubernetesObject>,
    pub(super) config_maps: Vec<&'a KubernetesObject>,
    pub(super) is_whole: bool,
}

pub(super) struct DescribedPod<'a> {
    pub(super) workload: ObjectName,
    pub(super) template: &'a Value,
    pub(super) read: ManifestObject,
    pub(super) namespace: Rc<Namespace>,
    pub(super) is_namespace_known: bool,
    pub(super) labels: ObjectLabels,
    pub(super) is_pod: bool,
    /// False if the containers exited for good.
    pub(super) is_running: bool,
}

impl<'a> Inventory<'a> {
    pub(super) fn of(question: &ClusterQuestion<'a>) -> Self {
        let mut namespaces = question.namespaces.clone();
        question.objects.iter().for_each(|object| namespaces.describe(&object.value));
        let mut known: BTreeMap<&str, Rc<Namespace>> = BTreeMap::new();
        let mut namespace = |object: &'a KubernetesObject| {
            let name = object.meta("namespace");
            known.entry(name).or_insert_with(|| Rc::new(namespaces.of(name))).clone()
        };
        let mut found = Self { is_whole: question.is_whole, ..Self::default() };
        let workloads: BTreeSet<ObjectName> =
            (question.objects.iter()).map(|object| name_in(object, &namespace(object).name)).collect();
        for object in question.objects {
            match object.kind() {
                "Service" => {
                    found.services.entry(namespace(object).name.clone()).or_default().push(object);
                }
                "MutatingWebhookConfiguration" => found.webhooks.push(object),
                "ConfigMap" => found.config_maps.push(object),
                _ => found.take(object, namespace(object), &namespaces, &workloads),
            }
        }
        found
    }

    fn take(
        &mut self,
        object: &'a KubernetesObject,
        namespace: Rc<Namespace>,
        namespaces: &Namespaces,
        workloads: &BTreeSet<ObjectName>,
    ) {
        let template = object.readable_template().and_then(|path| at(&object.value, path));
        let Some((template, mut read)) = template.and_then(|template| Some((template, object.pod()?))) else {
            return;
        };
        let is_pod = object.kind() == "Pod";
        let own = name_in(object, &namespace.name);
        let workload = if is_pod { of_pod(object, &own) } else { controller(object, &own) };
        // Objects that a Deployment or CronJob owns copy its current or an older template.
        let is_replaced = !is_pod && workload != own && workloads.contains(&workload);
        let is_idle = object.kind() == "ReplicaSet" && object.value["spec"]["replicas"] == 0;
        if is_replaced || is_idle {
            return;
        }
        read.pod.namespace.clone_from(&namespace.name);
        read.enforced = Standard::enforced(namespace.labels.get(ENFORCE).map(String::as_str));
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
            labels: read.pod.labels.clone().unwrap_or_default(),
            workload,
            template,
            read,
            is_namespace_known: namespaces.knows_labels_of(&namespace.name),
            namespace,
            is_pod,
            is_running,
        });
    }
}

/// Returns a pod's workload. Dumps may lack `generateName`, which injectors require, so one is added.
fn of_pod(object: &KubernetesObject, own: &ObjectName) -> ObjectName {
    let pod = serde_json::json!({ "metadata": {
        "name": own.name,
        "labels": object.value["metadata"]["labels"],
        "ownerReferences": object.value["metadata"]["ownerReferences"],
        "generateName": "-",
    }});
    let Workload { kind, name, namespace, .. } = Workload::of(&pod, &own.namespace);
    // A node owns its mirror pods, which are separate workloads.
    if kind == "Node" { own.clone() } else { ObjectName { kind, namespace, name } }
}

fn controller(object: &KubernetesObject, own: &ObjectName) -> ObjectName {
    let Some(owner) = controller_of(&object.value) else { return own.clone() };
    let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
    ObjectName { kind: text("kind"), namespace: own.namespace.clone(), name: text("name") }
}

impl DescribedPod<'_> {
    /// The containers that run concurrently: regular ones and native sidecars.
    pub(super) fn containers(&self) -> impl Iterator<Item = &Value> {
        let spec = &self.template["spec"];
        let list = |place: &str| spec[place].as_array().into_iter().flatten();
        let sidecars = list("initContainers").filter(|container| container["restartPolicy"] == "Always");
        list("containers").chain(sidecars)
    }
}

#[derive(Clone, Debug)]
pub struct ClusterQuestion<'a> {
    /// Objects; lists are unpacked.
    pub objects: &'a [KubernetesObject],
    pub namespaces: Namespaces,
    /// True if all Namespaces, Services and webhooks of a cluster are included: missing objects don't exist.
    pub is_whole: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// A kind that findings need, in the form that `kubectl get` accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededResource {
    /// Name with its group, such as `deployments.apps`.
    pub name: &'static str,
    pub is_namespaced: bool,
}

/// All kinds that findings need, except ConfigMaps. Pods' names show a ReplicaSet's Deployment.
pub const RESOURCES: &[NeededResource] = &[
    NeededResource { name: "namespaces", is_namespaced: false },
    NeededResource {
        name: "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        is_namespaced: false,
    },
    NeededResource { name: "pods", is_namespaced: true },
    NeededResource { name: "services", is_namespaced: true },
    NeededResource { name: "deployments.apps", is_namespaced: true },
    NeededResource { name: "statefulsets.apps", is_namespaced: true },
    NeededResource { name: "daemonsets.apps", is_namespaced: true },
    NeededResource { name: "jobs.batch", is_namespaced: true },
    NeededResource { name: "cronjobs.batch", is_namespaced: true },
];

/// Parses a file's objects; `name` is for findings and problems. Fails unless the file is YAML or JSON with an object.
pub fn objects_of_file(name: &str, text: &str) -> Result<Vec<KubernetesObject>, Problems> {
    let found = KubernetesObject::all(name, text)?;
    let expected = "expected manifests, or output of kubectl get -o yaml";
    let problem = |text: String| Err(Problems(vec![InputProblem::of(name, text)]));
    if let Some(other) = found.iter().find(|object| object.kind().is_empty()) {
        let line = other.place.as_ref().map_or(1, |place| place.lines.start);
        return problem(format!("has no kind at line {line}; {expected}"));
    }
    if found.is_empty() {
        return problem(format!("holds no object; {expected}"));
    }
    // Equal problems are one finding, regardless of their position.
    Ok(found.into_iter().map(KubernetesObject::without_positions).collect())
}

pub(super) fn name_in(object: &KubernetesObject, namespace: &str) -> ObjectName {
    let (kind, name) = (object.kind().to_owned(), object.called().unwrap_or_default());
    ObjectName { kind, namespace: namespace.to_owned(), name }
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
