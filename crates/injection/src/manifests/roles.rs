//! What the programs may ask of the API server: what they do ask, and no more.

use super::{Component, Installation, metadata, of_cluster, webhooks};
use serde_json::{Value, json};

/// Of `serve --self-signed`: its Secret, the webhook configurations whose `caBundle` it sets, and what it watches for reviews.
pub(super) fn of_server(target: &Installation) -> Vec<Value> {
    let (name, component) = (target.name(), Component::Webhook);
    let rules = json!([
        // A role can't name what does not exist yet (Kubernetes, "Referring to resources").
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
        { "apiGroups": [""], "resources": ["secrets"], "resourceNames": [target.secret()],
            "verbs": ["list", "update", "watch"] },
    ]);
    let of_all = json!([
        { "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": webhooks::names(target), "verbs": ["list", "patch", "watch"] },
        { "apiGroups": [""], "resources": ["namespaces", "nodes"], "verbs": ["list", "watch"] },
    ]);
    let mut objects = vec![account(target, &name, component)];
    objects.extend(role(target, &name, component, &rules));
    objects.extend(cluster_role(target, &name, component, &of_all));
    objects
}

pub(super) fn account(target: &Installation, name: &str, component: Component) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(target, name, component) })
}

/// A role in the namespace of the installation, and who has it.
pub(super) fn role(target: &Installation, name: &str, component: Component, rules: &Value) -> [Value; 2] {
    let metadata = metadata(target, name, component);
    [
        json!({ "apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules }),
        json!({ "apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": GROUP, "kind": "Role", "name": name }, "subjects": subjects(target, name) }),
    ]
}

/// A role for the whole cluster, and who has it.
pub(super) fn cluster_role(
    target: &Installation,
    name: &str,
    component: Component,
    rules: &Value,
) -> [Value; 2] {
    let metadata = of_cluster(target, name, component);
    [
        json!({ "apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": rules }),
        json!({ "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": name },
            "subjects": subjects(target, name) }),
    ]
}

const GROUP: &str = "rbac.authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn subjects(target: &Installation, name: &str) -> Value {
    json!([{ "kind": "ServiceAccount", "name": name, "namespace": target.namespace }])
}
