//! The context of a pod's admission: its namespace, its workload, and the request's settings.

use mesh::{InputProblem, Problems};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, sync::atomic::AtomicBool, sync::atomic::Ordering::Relaxed};

/// The labels or annotations of an object.
pub type ObjectLabels = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    pub labels: ObjectLabels,
    pub annotations: ObjectLabels,
}

#[derive(Clone, Debug, Default)]
pub struct AdmissionContext {
    /// The pod's own namespace, else the request's.
    pub namespace: Namespace,
    /// True if the object lacks a namespace; templates get none.
    pub is_namespace_assumed: bool,
    /// A workload that can't be derived from the pod; templates always get one.
    pub workload: Option<Workload>,
    pub variables: Vec<(String, String)>,
    /// True if the kubelets run native sidecars (Kubernetes 1.33 and newer); the pod and the values override this.
    pub native_sidecars: bool,
    pub cancellation: Cancellation,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

impl Workload {
    /// Derives the workload from the pod's owner references and Kubernetes' naming rules, like Istio's
    /// `kube.GetDeployMetaFromPod`. A pod without a generated name is its own workload.
    pub fn of(pod: &Value, namespace: &str) -> Self {
        let meta = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut found = Self {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: text(&meta["name"]),
            namespace: namespace.to_owned(),
        };
        let generated = meta["generateName"].as_str().is_some_and(|prefix| !prefix.is_empty());
        let Some(controller) = controller_of(pod).filter(|_| generated) else { return found };
        let name = text(&controller["name"]);
        if !name.is_empty() {
            found.name = name;
        }
        found.kind = text(&controller["kind"]);
        found.api_version = text(&controller["apiVersion"]);
        found.behind(&meta["labels"])
    }

    fn behind(self, labels: &Value) -> Self {
        let label = |name: &str| labels[name].as_str().filter(|value| !value.is_empty());
        let without = |hash: &str| self.name.strip_suffix(label(hash)?)?.strip_suffix('-');
        let own = self.api_version.as_str();
        let found = match self.kind.as_str() {
            // A Rollout has no API group here, as in Istio.
            "ReplicaSet" => (without("pod-template-hash").map(|name| (own, "Deployment", name)))
                .or_else(|| Some(("v1alpha1", "Rollout", without("rollouts-pod-template-hash")?))),
            // Keeps the controller's API version, by which Istio's dashboards identify such workloads.
            "ReplicationController" => label("deploymentconfig").map(|name| (own, "DeploymentConfig", name)),
            "Job" => {
                // A CronJob appends the due minute to its jobs' names; before Kubernetes 1.21, the due second.
                let is_due = |due: &str| {
                    (8..=10).contains(&due.len()) && due.bytes().all(|byte| byte.is_ascii_digit())
                };
                let named = self.name.rsplit_once('-').filter(|(_, due)| is_due(due));
                named.map(|(name, _)| ("batch/v1", "CronJob", name))
            }
            _ => None,
        };
        let Some((version, kind, name)) = found.filter(|(.., name)| !name.is_empty()) else { return self };
        let [api_version, kind, name] = [version, kind, name].map(str::to_owned);
        Self { api_version, kind, name, ..self }
    }
}

pub(crate) fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

/// Namespaces from manifests and flags; flags apply to all namespaces and override manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    default: String,
    labels: Option<ObjectLabels>,
    annotations: ObjectLabels,
    described: BTreeMap<String, Namespace>,
}

impl Namespaces {
    /// `default` is the namespace of objects without one; labels, if given, and annotations apply to all namespaces.
    pub fn new(default: &str, labels: Option<ObjectLabels>, annotations: ObjectLabels) -> Self {
        Self { default: default.to_owned(), labels, annotations, described: BTreeMap::new() }
    }

    /// Adds a Namespace and ignores other objects; the last of duplicates wins.
    pub fn describe(&mut self, object: &Value) {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        // Other API groups, such as Azure Service Bus's, define Namespaces.
        let is_core = object["apiVersion"].as_str().is_none_or(|version| version == "v1");
        if let Some(name) = name.filter(|_| is_core && object["kind"] == "Namespace") {
            let (labels, annotations) = (texts(object, "labels"), texts(object, "annotations"));
            let known = Namespace { name: name.to_owned(), labels, annotations };
            self.described.insert(name.to_owned(), known);
        }
    }

    /// Returns the named namespace, or the default if `name` is empty.
    pub fn of(&self, name: &str) -> Namespace {
        let name = if name.is_empty() { &self.default } else { name };
        let mut found = self.described.get(name).cloned().unwrap_or_default();
        found.name = name.to_owned();
        found.labels.extend(self.labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        // Set on every namespace by the API server.
        found.labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        found.annotations.extend(self.annotations.clone());
        found
    }

    pub fn knows_labels_of(&self, name: &str) -> bool {
        self.labels.is_some() || self.described.contains_key(name)
    }
}

/// The proxy's variables in a webhook request's path, in the path's order. After `/inject`, `cluster/east/net/a--slash--b` sets
/// `ISTIO_META_CLUSTER_ID=east` and `ISTIO_META_NETWORK=a/b`. Other names are converted to upper case; a name without a value is
/// ignored. The older format is a sequence of `:ENV:NAME=VALUE` with the same names.
pub fn path_variables(path: &str) -> Vec<(String, String)> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let given = path.strip_prefix("/inject").unwrap_or(path);
    let given = given.strip_prefix('/').unwrap_or(given);
    if given.starts_with(":ENV:") {
        let pairs = given.split(":ENV:").filter_map(|pair| pair.split_once('='));
        let pairs = pairs.filter(|(name, _)| !name.is_empty());
        return pairs.map(|(name, value)| (variable(name), value.to_owned())).collect();
    }
    let words: Vec<&str> = given.split('/').collect();
    let pairs = words.chunks_exact(2).map(|pair| (variable(pair[0]), pair[1].replace("--slash--", "/")));
    pairs.filter(|(name, _)| !name.is_empty()).collect()
}

fn variable(name: &str) -> String {
    match name {
        "cluster" => "ISTIO_META_CLUSTER_ID".to_owned(),
        "net" => "ISTIO_META_NETWORK".to_owned(),
        other => other.to_uppercase(),
    }
}

/// Cancellation of a review after its caller's timeout. A thread can't be stopped, so the review checks this flag between steps,
/// and within steps that a pod or a template can make long. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn check(&self) -> Result<(), Problems> {
        let problem = || Problems(vec![InputProblem::of("pod", "its review was cancelled")]);
        if self.is_cancelled() { Err(problem()) } else { Ok(()) }
    }
}

/// Returns an object's string labels or annotations; null counts as an empty string, as in the API server.
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

pub fn texts(object: &Value, field: &str) -> ObjectLabels {
    strings(object, field).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(kind: &str, version: &str, name: &str, labels: &Value, expected: (&str, &str, &str)) {
        let owner = json!({"apiVersion": version, "kind": kind, "name": name, "controller": true});
        let pod = json!({"metadata": {
            "generateName": "x-",
            "labels": labels,
            "ownerReferences": [{"kind": "Other", "name": "other"}, owner],
        }});
        let found = Workload::of(&pod, "shop");
        assert_eq!((&*found.api_version, &*found.kind, &*found.name), expected, "{pod}");
        assert_eq!(found.namespace, "shop");
    }

    #[test]
    fn controllers_and_their_owners() {
        let hash = json!({"pod-template-hash": "5d8f"});
        check("ReplicaSet", "apps/v1", "web-5d8f", &hash, ("apps/v1", "Deployment", "web"));
        check("ReplicaSet", "apps/v1", "web", &hash, ("apps/v1", "ReplicaSet", "web"));
        check("ReplicaSet", "apps/v1", "web-5d8f", &json!({}), ("apps/v1", "ReplicaSet", "web-5d8f"));
        check("StatefulSet", "apps/v1", "db-5d8f", &hash, ("apps/v1", "StatefulSet", "db-5d8f"));
        let rollout = json!({"rollouts-pod-template-hash": "77"});
        check("ReplicaSet", "apps/v1", "web-77", &rollout, ("v1alpha1", "Rollout", "web"));
        let config = json!({"deploymentconfig": "web"});
        check("ReplicationController", "v1", "web-1", &config, ("v1", "DeploymentConfig", "web"));
        check("Job", "batch/v1", "sum-28123456", &json!({}), ("batch/v1", "CronJob", "sum"));
        check("Job", "batch/v1beta1", "sum-1612345678", &json!({}), ("batch/v1", "CronJob", "sum"));
        check("Job", "batch/v1", "sum-1234567", &json!({}), ("batch/v1", "Job", "sum-1234567"));
        check("Job", "batch/v1", "sum-12345678901", &json!({}), ("batch/v1", "Job", "sum-12345678901"));
    }

    #[test]
    fn a_pod_by_itself() {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true});
        let named = json!({"metadata": {"name": "db-0", "ownerReferences": [owner]}});
        assert_eq!(Workload::of(&named, "").kind, "Pod");
        assert_eq!(Workload::of(&named, "").name, "db-0");
        assert_eq!(Workload::of(&json!({"metadata": {"generateName": "x-"}}), "").kind, "Pod");
        assert_eq!(Workload::of(&json!([]), "").name, "");
    }

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
        [shop, pod, bus].iter().for_each(|object| all.describe(object));
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

    fn check_path(path: &str, expected: &[(&str, &str)]) {
        let found = path_variables(path);
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn pairs_become_variables() {
        check_path("/inject", &[]);
        check_path("/inject/", &[]);
        check_path("/inject/cluster/east/", &[("ISTIO_META_CLUSTER_ID", "east")]);
        check_path("/inject/net/a--slash--b/zone/x/odd", &[("ISTIO_META_NETWORK", "a/b"), ("ZONE", "x")]);
    }

    #[test]
    fn the_older_form() {
        check_path("/inject/:ENV:net=a:ENV:=x:ENV:B:ENV:C=1=2", &[("ISTIO_META_NETWORK", "a"), ("C", "1=2")]);
    }
}
