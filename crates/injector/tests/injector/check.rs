//! `check` before and after an installation, and `explain` with a cluster: sessions with the simulated API server.

use super::installation::{Kubelet, NAMESPACE, WEBHOOKS, available, run};
use super::sessions;
use crate::PROGRAM;
use serde_json::json;
use testkit::cluster::Cluster;
use testkit::word;

const INSTALL: &str = "sidecar-injector manifests --image example/injector:1 --proxy-image example/proxy:1 | kubectl apply -f -";

/// Runs a file's sessions with this cluster, and two service accounts without permissions.
fn check(name: &str, cluster: &Cluster) {
    let kubeconfig = cluster.kubeconfig();
    let accounts = ["person", "nobody"].map(|name| cluster.account("shop", name));
    let server = cluster.address.to_string();
    sessions::check(
        name,
        &[
            ("PERSON", word(&accounts[0])),
            ("NOBODY", word(&accounts[1])),
            ("KUBECONFIG", word(&kubeconfig)),
            ("SERVER", &server),
            // Folder for kubectl's discovery cache.
            ("HOME", word(&cluster.folder)),
        ],
    );
}

#[test]
fn facts_of_a_cluster_explain_pods() {
    check("explain-cluster", &Cluster::start());
}

#[test]
fn obstacles_to_an_installation_are_found_without_changes() {
    check("check", &Cluster::start());
}

#[test]
fn working_and_broken_installations_are_judged() {
    let cluster = Cluster::start();
    let mut kubelet = Kubelet::default();
    run(&cluster, INSTALL);
    kubelet.follow(&cluster);
    check("check-installed", &cluster);
    let review = cluster.state().reviews.last().cloned().expect("a review").1;
    assert_eq!(review["request"]["dryRun"], true);

    kubelet.0.clear();
    available(&cluster, "sidecar-injector", false);
    let mut configuration = cluster.find(WEBHOOKS, "", "sidecar-injector").expect("it");
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = "bm8=".into();
    cluster.put(&configuration);
    cluster.remove("clusterrolebindings", "", "sidecar-injector");
    cluster.put(&json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "injector-1",
        "namespace": NAMESPACE, "labels": { "app.kubernetes.io/instance": "sidecar-injector" } },
        "status": { "containerStatuses": [{ "image": "example/injector:1",
            "state": { "waiting": { "reason": "ImagePullBackOff" } } }] } }));
    check("check-broken", &cluster);
}

#[test]
fn an_unreachable_api_server_is_not_a_finding() {
    let cluster = Cluster::start();
    let kubeconfig = cluster.kubeconfig();
    let text = std::fs::read_to_string(&kubeconfig).expect("a kubeconfig");
    let silent =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    std::fs::write(&kubeconfig, text.replace(&cluster.address.to_string(), &silent.to_string()))
        .expect("written");
    let ended = PROGRAM.run(&["check", "--kubeconfig", word(&kubeconfig)]).with(1);
    assert_eq!(ended.stdout, "");
    let text = ended.stderr;
    assert!(text.contains(&format!("the API server https://{silent}/ does not answer")), "{text}");
}
