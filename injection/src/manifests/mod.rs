//! What a cluster's owner applies to have pods injected, as objects of Kubernetes.
//!
//! Roles grant what the programs ask for and nothing else; tests hold both against each other.

mod component;
mod installation;
mod operator;
mod roles;
mod server;
mod webhooks;

pub use installation::{Installation, MAX_REVISION, Words, label};
pub use webhooks::ENVIRONMENT_TAG;

use component::{Component, metadata, of_cluster, selecting};
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
