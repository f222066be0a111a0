//! Kubernetes objects that install the injector, from the Helm chart, whose templates are rendered here. Roles grant exactly the
//! programs' requests, as tests verify.

mod installation;

pub use installation::{Installation, MAX_REVISION, NAMESPACE, label};

use crate::chart::ChartTemplate;
use serde_json::{Value, json};

/// The environment tag's webhook configuration. The API server calls configurations in name order, and this one must follow
/// `istio-..` and `sidecar-injector-..`, whose containers it reads: a full stop sorts after a hyphen.
pub const ENVIRONMENT_TAG: &str = "sidecar-injector.environment-tag";

#[derive(Clone, Debug, PartialEq)]
pub struct ManifestFile {
    pub name: &'static str,
    pub objects: Vec<Value>,
}

/// All files in the order of application: webhooks last, so that none is called before its server is ready.
pub fn files(target: &Installation) -> Vec<ManifestFile> {
    let values = json!({ "injector": target.values });
    let objects = |template: ChartTemplate| template.objects(&target.namespace, &values);
    let mut files = Vec::new();
    if target.names_namespace {
        files.push(ManifestFile { name: "namespace", objects: vec![namespace(target)] });
    }
    let mut access = objects(ChartTemplate::INJECTOR);
    let roles = access.iter().take_while(|object| object["kind"] != "ConfigMap").count();
    let mut configuration = access.split_off(roles);
    let server = configuration.split_off(1);
    files.extend([
        ManifestFile { name: "access", objects: access },
        ManifestFile { name: "configuration", objects: configuration },
        ManifestFile { name: "server", objects: server },
    ]);
    if target.values["operator"]["enabled"] == true {
        let all = std::iter::once(environment_definition()).chain(objects(ChartTemplate::OPERATOR)).collect();
        files.push(ManifestFile { name: "operator", objects: all });
    }
    files.push(ManifestFile { name: "webhooks", objects: objects(ChartTemplate::WEBHOOKS) });
    files
}

/// The chart's CustomResourceDefinition of VirtualEnvironment, with upstream's name, group, version and spec, so that upstream's
/// objects are accepted. Defaults are only in descriptions: a schema's defaults would be written into every object.
pub fn environment_definition() -> Value {
    let values = json!({ "injector": { "operator": { "enabled": true } } });
    let mut found = ChartTemplate::CRD.objects("", &values).remove(0);
    // The annotation is for `helm uninstall`.
    found["metadata"].as_object_mut().expect("an object has metadata").remove("annotations");
    found
}

pub fn kustomization(files: &[ManifestFile]) -> Value {
    let resources: Vec<String> = files.iter().map(|file| format!("{}.yaml", file.name)).collect();
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources })
}

fn namespace(target: &Installation) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": target.namespace } })
}

/// Returns the objects in deletion order: webhooks, so that no pod waits for a missing server; programs; their roles; the
/// programs' data; finally the namespace, if the installation includes it. The CRD stays.
pub fn removed(target: &Installation) -> Vec<Value> {
    let mut everything = target.clone();
    everything.values["operator"]["enabled"] = true.into();
    everything.values["environmentLabels"] = json!(["virtual-env"]);
    let installed: Vec<Value> = files(&everything).into_iter().flat_map(|file| file.objects).collect();
    let mut all: Vec<Value> = installed.iter().filter_map(named).collect();
    let lease = everything.with_revision("sidecar-injector-environment");
    for (version, kind, name) in
        [("v1", "Secret", everything.secret()), ("coordination.k8s.io/v1", "Lease", lease)]
    {
        let metadata = json!({ "name": name, "namespace": everything.namespace });
        all.push(json!({ "apiVersion": version, "kind": kind, "metadata": metadata }));
    }
    let rank = |object: &Value| ORDER.iter().position(|kind| object["kind"] == **kind);
    all.retain(|object| rank(object).is_some());
    all.sort_by_key(rank);
    if everything.names_namespace {
        all.push(namespace(&everything));
    }
    all
}

/// Kinds in deletion order. Other kinds are kept, except an installation's Namespace.
const ORDER: [&str; 13] = [
    "MutatingWebhookConfiguration",
    "Deployment",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "Service",
    "ClusterRoleBinding",
    "RoleBinding",
    "ClusterRole",
    "Role",
    "ServiceAccount",
    "Secret",
    "Lease",
    "ConfigMap",
];

fn named(object: &Value) -> Option<Value> {
    let mut metadata = json!({ "name": object["metadata"]["name"].as_str()? });
    if let Some(namespace) = object["metadata"].get("namespace") {
        metadata["namespace"] = namespace.clone();
    }
    Some(json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::installation::tests::plain;
    use std::collections::BTreeSet;

    #[test]
    fn all_objects_except_namespace_and_crd_are_removed() {
        let values = json!({ "operator": { "enabled": true }, "environmentLabels": ["virtual-env"] });
        let target = plain(values).expect("right");
        let kind = |object: &Value| object["kind"].as_str().expect("a kind").to_owned();
        let installed: BTreeSet<String> =
            files(&target).iter().flat_map(|file| &file.objects).map(kind).collect();
        let removed: BTreeSet<String> = removed(&target).iter().map(kind).collect();
        let kept: Vec<&String> = installed.difference(&removed).collect();
        assert_eq!(
            kept,
            ["CustomResourceDefinition"],
            "the namespace comes last if the installation names it"
        );
    }
}
