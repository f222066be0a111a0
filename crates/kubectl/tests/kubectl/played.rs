//! A played API server with the pod `shop/web-0` on `worker-1`, and the plugin with the real kubectl.

use crate::object::object;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::cluster::Cluster;
use testkit::command_line::{Ended, ended};
use testkit::word;

pub(crate) fn run(cluster: &Cluster, kubeconfig: &Path, words: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-capture"));
    // kubectl keeps what it has discovered below the home folder.
    ended(
        command
            .args(words)
            .args(["-n", "shop", "--kubeconfig", word(kubeconfig)])
            .env_remove("KUBECTL")
            .env("HOME", &*cluster.folder),
    )
}

pub(crate) fn scene() -> Cluster {
    let cluster = Cluster::start();
    cluster.put(&object("pod.json"));
    put_agent(&cluster, "worker-2");
    cluster.put(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
    }));
    cluster.put(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "reviews", "namespace": "shop" },
        "spec": { "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ports": [{ "name": "http", "port": 9080 }] },
    }));
    cluster
}

pub(crate) fn put_agent(cluster: &Cluster, node: &str) {
    let mut agent = object("agents.json")["items"][0].take();
    agent["apiVersion"] = json!("v1");
    agent["kind"] = json!("Pod");
    agent["metadata"]["labels"] = json!({ "app.kubernetes.io/name": "sidecar-node" });
    agent["spec"]["nodeName"] = json!(node);
    cluster.put(&agent);
}

pub(crate) fn account(cluster: &Cluster) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker/kubectl/clusterrole.yaml");
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&fs::read_to_string(path).expect("a manifest")).expect("YAML");
    for role in &documents {
        cluster.put(role);
        let (kind, name) = (&role["kind"], &role["metadata"]["name"]);
        let binding = if kind == "Role" { "RoleBinding" } else { "ClusterRoleBinding" };
        cluster.put(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": binding,
            "metadata": { "name": name, "namespace": role["metadata"]["namespace"] },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
            "subjects": [{ "kind": "ServiceAccount", "namespace": "shop", "name": "reader" }],
        }));
    }
    cluster.account("shop", "reader")
}
