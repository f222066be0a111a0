//! What of an installation is deleted, without a cluster: each object by its name, in the order in which nothing is left behind.

use super::{Installation, files};
use serde_json::{Value, json};

/// The objects, in the order of their deletion: webhooks, so that no pod waits for a server that is gone; programs; their roles,
/// without which a program that is still ending can't write its Secret again; then what the programs have written, and read;
/// at last the namespace, if the installation names it. Parts that may never have been installed are among them. The CRD and
/// its objects are not.
pub fn removed(target: &Installation) -> Vec<Value> {
    let everything = Installation {
        operator: true,
        environment_labels: match &target.environment_labels[..] {
            [] => vec!["virtual-env".to_owned()],
            labels => labels.to_vec(),
        },
        ..target.clone()
    };
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
        all.push(json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": everything.namespace } }));
    }
    all
}

/// Kinds in the order of their deletion. A kind that is not named is kept; of a Namespace the installation decides.
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

/// An object by its name.
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
    use crate::manifests::InstallOptions;
    use crate::manifests::installation::tests::PLAIN;
    use std::collections::BTreeSet;

    #[test]
    fn everything_is_removed_but_the_namespace_and_the_crd() {
        let options = InstallOptions {
            operator: true,
            environment_labels: Some("virtual-env"),
            names_namespace: true,
            ..PLAIN
        };
        let target = Installation::read(&options).expect("right");
        let kind = |object: &Value| object["kind"].as_str().expect("a kind").to_owned();
        let installed: BTreeSet<String> =
            files(&target).iter().flat_map(|file| &file.objects).map(kind).collect();
        let removed: BTreeSet<String> = removed(&target).iter().map(kind).collect();
        let kept: Vec<&String> = installed.difference(&removed).collect();
        assert_eq!(
            kept,
            ["CustomResourceDefinition"],
            "the namespace comes last where the installation names it"
        );
    }
}
