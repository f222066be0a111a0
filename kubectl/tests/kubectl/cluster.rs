//! The real kubectl against a played API server.

use crate::fake::{Ran, agent, pod, ran};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::Path, process::Command};
use testkit::cluster::{Access, Cluster};
use testkit::word;

/// The plugin with this kubeconfig.
fn run(cluster: &Cluster, kubeconfig: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-capture"));
    // kubectl keeps what it has discovered below the home folder.
    ran(command
        .args(words)
        .args(["-n", "shop", "--kubeconfig", word(kubeconfig)])
        .env_remove("KUBECTL")
        .env("HOME", &*cluster.folder))
}

fn scene() -> Cluster {
    let cluster = Cluster::start();
    cluster.put(&pod("web-0"));
    let mut agent = agent();
    agent["apiVersion"] = json!("v1");
    agent["kind"] = json!("Pod");
    agent["metadata"]["labels"] = json!({ "app.kubernetes.io/name": "sidecar-node" });
    agent["spec"]["nodeName"] = json!("worker-2");
    cluster.put(&agent);
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

#[test]
fn the_real_kubectl_gets_everything() {
    let cluster = scene();
    let kubeconfig = cluster.kubeconfig();
    let words = ["explain", "deployment/web", "reviews:http", "8080", "-o", "json"];
    let document = run(&cluster, &kubeconfig, &words).with(0).json();
    // The agent is another node's.
    let unknown = document["kernel_unknown"].as_str().expect("a reason");
    assert!(unknown.starts_with("no node agent runs on node worker-1"), "{unknown}");
    let answers = document["answers"].as_array().expect("a list");
    let of = |at: usize| (answers[at]["address"].as_str(), answers[at]["manifest"]["port"].as_u64());
    assert_eq!([of(0), of(1)], [(Some("10.96.0.9:9080"), Some(15001)), (Some("8080"), Some(15006))]);
    let missing = run(&cluster, &kubeconfig, &["explain", "wbe", "8080"]).with(1);
    assert!(
        missing.stderr.contains("pods \"wbe\" not found; check the name, and the namespace (-n)"),
        "{}",
        missing.stderr
    );
}

/// A service account with the roles of the manifest.
fn account(cluster: &Cluster) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docker/kubectl/clusterrole.yaml");
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

#[test]
fn the_roles_are_enough_and_a_refusal_names_them() {
    let cluster = scene();
    let kubeconfig = cluster.account("shop", "reader");
    let refused = run(&cluster, &kubeconfig, &["explain", "web-0", "8080"]).with(1);
    let expected =
        "; grant your user get pods, as role sidecar-capture of docker/kubectl/clusterrole.yaml does\n";
    assert!(refused.stderr.ends_with(expected), "{}", refused.stderr);

    let kubeconfig = account(&cluster);
    cluster.state().requests.clear();
    run(&cluster, &kubeconfig, &["explain", "deployment/web", "reviews:http", "8080"]).with(0);
    run(&cluster, &kubeconfig, &["explain", "web-0", "8080"]).with(0);
    let state = cluster.state();
    let made: BTreeSet<(&str, &str)> =
        state.requests.iter().map(|(Access { resource, verb, .. }, _)| (resource.as_str(), *verb)).collect();
    let expected = [("deployments", "get"), ("pods", "get"), ("pods", "list"), ("services", "get")];
    assert_eq!(made, expected.into_iter().collect());
}
