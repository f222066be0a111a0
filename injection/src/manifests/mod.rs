//! What a cluster's owner applies to have pods injected, as objects of Kubernetes.
//!
//! Roles grant what the programs ask for and nothing else; tests hold both against each other.

mod installation;
mod operator;
mod roles;
mod server;
mod webhooks;

pub use installation::{Installation, MAX_REVISION, Words, label};
pub use webhooks::ENVIRONMENT_TAG;

use serde_json::{Value, json};

/// Objects that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Without an ending.
    pub name: &'static str,
    pub objects: Vec<Value>,
}

/// Everything, in the order in which it is applied: webhooks last, so that nobody is called before somebody can answer.
pub fn files(wanted: &Installation) -> Vec<File> {
    let mut files = Vec::new();
    if wanted.names_namespace {
        files.push(File { name: "namespace", objects: vec![namespace(wanted)] });
    }
    files.extend([
        File { name: "access", objects: roles::of_server(wanted) },
        File { name: "configuration", objects: vec![server::configuration(wanted)] },
        File { name: "server", objects: server::objects(wanted) },
    ]);
    if wanted.operator {
        files.push(File { name: "operator", objects: operator::objects(wanted) });
    }
    files.push(File { name: "webhooks", objects: webhooks::objects(wanted) });
    files
}

/// The file that names the others for kustomize.
pub fn kustomization(files: &[File]) -> Value {
    let resources: Vec<String> = files.iter().map(|file| format!("{}.yaml", file.name)).collect();
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources })
}

fn namespace(wanted: &Installation) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": wanted.namespace } })
}

/// The programs of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Component {
    Webhook,
    Operator,
}

/// The labels that select a program's pods.
fn selecting(wanted: &Installation, component: Component) -> Value {
    let component = match component {
        Component::Webhook => "webhook",
        Component::Operator => "operator",
    };
    json!({ "app.kubernetes.io/name": "sidecar-injector", "app.kubernetes.io/instance": wanted.name(),
        "app.kubernetes.io/component": component })
}

/// Metadata of an object in the namespace of the installation.
fn metadata(wanted: &Installation, name: &str, component: Component) -> Value {
    json!({ "name": name, "namespace": wanted.namespace, "labels": selecting(wanted, component) })
}

/// Metadata of an object in no namespace.
fn of_cluster(wanted: &Installation, name: &str, component: Component) -> Value {
    json!({ "name": name, "labels": selecting(wanted, component) })
}
