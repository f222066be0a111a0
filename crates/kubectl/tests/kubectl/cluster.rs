//! The real kubectl against a played API server.

use crate::played::{account, run, scene};
use std::collections::BTreeSet;
use testkit::cluster::Access;

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
    let words = ["explain", "deployment/web", "reviews:http", "8080", "-o", "json"];
    let document = run(&cluster, &kubeconfig, &words).with(0).json();
    // The agent is another node's.
    let unknown = document["kernel_unknown"].as_str().expect("a reason");
    assert!(unknown.starts_with("no node agent runs on node worker-1"), "{unknown}");
    let answers = document["answers"].as_array().expect("a list");
    let of = |at: usize| (answers[at]["address"].as_str(), answers[at]["manifest"]["port"].as_u64());
    assert_eq!([of(0), of(1)], [(Some("10.96.0.9:9080"), Some(15001)), (Some("8080"), Some(15006))]);
    run(&cluster, &kubeconfig, &["explain", "web-0", "8080"]).with(0);
    let state = cluster.state();
    let made: BTreeSet<(&str, &str)> =
        state.requests.iter().map(|(Access { resource, verb, .. }, _)| (resource.as_str(), *verb)).collect();
    let expected = [("deployments", "get"), ("pods", "get"), ("pods", "list"), ("services", "get")];
    assert_eq!(made, expected.into_iter().collect());
}
