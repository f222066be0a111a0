//! The objects by kind: pods and templates of pods with the workload behind them, namespaces, Services, webhooks.

use super::object::{ClusterObject, ClusterQuestion, ObjectName, ObjectPlace};
use crate::admission::{Namespace, Workload, controller_of};
use crate::namespaces::texts;
use mesh::pod::{ENFORCE, ManifestObject, Standard, objects_in, template_of};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub(super) struct Inventory<'a> {
    pub(super) pods: Vec<DescribedPod<'a>>,
    /// By namespace.
    pub(super) services: BTreeMap<String, Vec<&'a ClusterObject>>,
    /// MutatingWebhookConfigurations.
    pub(super) webhooks: Vec<&'a ClusterObject>,
    pub(super) config_maps: Vec<&'a ClusterObject>,
    pub(super) is_whole: bool,
    /// Objects that describe pods in a form that Kubernetes refuses: their names and the reasons.
    pub(super) unread: Vec<String>,
}

/// A pod, or the template of a workload.
pub(super) struct DescribedPod<'a> {
    /// The workload that it belongs to, or itself.
    pub(super) workload: ObjectName,
    pub(super) place: Option<&'a ObjectPlace>,
    /// The pod or the template as it is written.
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
    /// Its labels are known.
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

/// The workload of a pod: what its controller belongs to. Not every test or dump has the prefix of a generated name, by which
/// injectors recognize such pods.
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
