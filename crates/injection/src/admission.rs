//! The context of a pod's admission: its namespace, the workload that it belongs to, and what the request says.

use crate::cancellation::Cancellation;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
pub struct AdmissionContext {
    /// The pod's own namespace, else the request's.
    pub namespace: Namespace,
    /// The workload, where it is not to be read from the pod: the object of a manifest that holds its template. Templates
    /// always see it filled in.
    pub workload: Option<Workload>,
    /// Variables that the path of the request sets, in its order.
    pub variables: Vec<(String, String)>,
    /// For kubelets with native sidecars (Kubernetes 1.33 and newer), unless the pod or the values say otherwise.
    pub native_sidecars: bool,
    pub cancellation: Cancellation,
}

/// The workload that a pod belongs to, or the pod itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

impl Workload {
    /// The workload by the pod's owner references: its controller, or the object that owns that one by the naming rules of
    /// Kubernetes' own controllers. A pod whose name was not generated is its own workload.
    ///
    /// The rules are those of Istio's `kube.GetDeployMetaFromPod`.
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

    /// The owner of a controller, by the controller's name and labels.
    fn behind(mut self, labels: &Value) -> Self {
        let label = |name: &str| labels[name].as_str().filter(|value| !value.is_empty());
        let without = |hash: Option<&str>| {
            let rest = self.name.strip_suffix(hash?)?.strip_suffix('-')?;
            (!rest.is_empty()).then(|| rest.to_owned())
        };
        match self.kind.as_str() {
            "ReplicaSet" => {
                if let Some(name) = without(label("pod-template-hash")) {
                    (self.kind, self.name) = ("Deployment".to_owned(), name);
                } else if let Some(name) = without(label("rollouts-pod-template-hash")) {
                    // Without its group, as with Istio.
                    self.api_version = "v1alpha1".to_owned();
                    (self.kind, self.name) = ("Rollout".to_owned(), name);
                }
            }
            "ReplicationController" => {
                if let Some(name) = label("deploymentconfig") {
                    // Its API version stays the controller's, as with Istio, whose dashboards know such workloads by it.
                    (self.kind, self.name) = ("DeploymentConfig".to_owned(), name.to_owned());
                }
            }
            "Job" => {
                // A CronJob gives its jobs the minute, or before Kubernetes 1.21 the second, for which they were due.
                if let Some((name, due)) = self.name.rsplit_once('-')
                    && !name.is_empty()
                    && (8..=10).contains(&due.len())
                    && due.bytes().all(|byte| byte.is_ascii_digit())
                {
                    self.api_version = "batch/v1".to_owned();
                    (self.kind, self.name) = ("CronJob".to_owned(), name.to_owned());
                }
            }
            _ => {}
        }
        self
    }
}

pub(crate) fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
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
}
