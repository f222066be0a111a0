//! The real kubectl with a simulated API server.

use crate::object::object;
use crate::sessions::PROGRAM;
use serde_json::json;
use std::collections::BTreeSet;
use testkit::{
    cluster::{Access, Cluster},
    word,
};

#[test]
fn the_roles_are_sufficient_and_refusals_name_them() {
    let cluster = Cluster::start();
    cluster.put(&object("pod.json"));
    // The agent runs on another node.
    let mut agent = object("agents.json")["items"][0].take();
    (agent["apiVersion"], agent["kind"]) = (json!("v1"), json!("Pod"));
    agent["metadata"]["labels"] = json!({ "app.kubernetes.io/name": "sidecar-node" });
    agent["spec"]["nodeName"] = json!("worker-2");
    cluster.put(&agent);
    let (kubeconfig, reader) = (cluster.kubeconfig(), cluster.account("shop", "reader"));
    PROGRAM.sessions(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubectl/sessions/cluster.txt"),
        &[
            ("READER", word(&reader)),
            ("KUBECONFIG", word(&kubeconfig)),
            ("ROLES", concat!(env!("CARGO_MANIFEST_DIR"), "/../../docker/kubectl/clusterrole.yaml")),
            // Folder for kubectl's discovery cache.
            ("HOME", word(&cluster.folder)),
        ],
    );
    let state = cluster.state();
    // Only the reader has a token.
    let of_reader = state.requests.iter().filter(|(_, request)| request.header("authorization").is_some());
    let made: BTreeSet<(&str, &str)> =
        of_reader.map(|(Access { resource, verb, .. }, _)| (resource.as_str(), *verb)).collect();
    let expected = [("deployments", "get"), ("pods", "get"), ("pods", "list"), ("services", "get")];
    assert_eq!(made, expected.into_iter().collect());
}
