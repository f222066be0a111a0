//! What a cluster's owner applies to have pods injected, as objects of Kubernetes.
//!
//! Roles grant what the programs ask for and nothing else; tests hold both against each other.

mod component;
mod images;
mod installation;
mod network;
mod operator;
mod removal;
mod roles;
mod server;
mod webhooks;

pub use installation::{InstallOptions, Installation, MAX_REVISION, label};
pub use removal::removed;
pub use webhooks::ENVIRONMENT_TAG;

use component::{Component, metadata, of_cluster, selecting};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct ManifestFile {
    /// Without an ending.
    pub name: &'static str,
    pub objects: Vec<Value>,
}

/// Everything, in the order in which it is applied: webhooks last, so that none is called before it can answer.
pub fn files(target: &Installation) -> Vec<ManifestFile> {
    let mut files = Vec::new();
    if target.names_namespace {
        files.push(ManifestFile { name: "namespace", objects: vec![namespace(target)] });
    }
    files.extend([
        ManifestFile { name: "access", objects: roles::of_server(target) },
        ManifestFile { name: "configuration", objects: vec![server::configuration(target)] },
        ManifestFile { name: "server", objects: server::objects(target) },
    ]);
    if target.operator {
        files.push(ManifestFile { name: "operator", objects: operator::objects(target) });
    }
    files.push(ManifestFile { name: "webhooks", objects: webhooks::objects(target) });
    files
}

/// The file that names the others for kustomize.
pub fn kustomization(files: &[ManifestFile]) -> Value {
    let resources: Vec<String> = files.iter().map(|file| format!("{}.yaml", file.name)).collect();
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources })
}

fn namespace(target: &Installation) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": target.namespace } })
}
