//! The operator before an API server that fails.

use super::program::{Operator, cluster, shop, until_subsets, workload};
use crate::cluster::{Fault, until};
use std::time::Duration;

const SHOP: [&str; 2] = ["--namespace", "shop"];

#[test]
fn writes_that_fail_are_tried_again() {
    for fault in [
        Fault::Refuse(409),
        Fault::Refuse(500),
        Fault::Slow(Duration::from_millis(300)),
        Fault::Lost,
        Fault::Hang,
    ] {
        let cluster = cluster();
        shop(&cluster);
        cluster.fault("patch", "destinationrules", fault);
        cluster.fault("patch", "virtualservices", fault);
        cluster.fault("patch", "virtualenvironments/status", fault);
        let operator = Operator::start(&cluster, &SHOP);
        until_subsets(&cluster, &["base", "base-red"]);
        until("it is told", || {
            let one = cluster.find("virtualenvironments", "shop", "demo").expect("it");
            one["status"]["conditions"][1]["reason"] == "Routed"
        });
        assert!(operator.terminate(), "{fault:?}");
    }
}

#[test]
fn lists_and_watches_that_fail_begin_anew() {
    let cluster = cluster();
    shop(&cluster);
    for fault in [Fault::Refuse(500), Fault::Cut, Fault::Lie("{}"), Fault::Hang] {
        cluster.fault("list", "deployments", fault);
    }
    cluster.fault("watch", "services", Fault::Gone);
    cluster.fault("watch", "statefulsets", Fault::Refuse(410));
    cluster.fault("watch", "virtualservices", Fault::Refuse(401));
    let operator = Operator::start(&cluster, &SHOP);
    until_subsets(&cluster, &["base", "base-red"]);
    // What happens while nobody watches, and is forgotten then, is found by a new list.
    workload(&cluster, "Deployment", "base.blue");
    cluster.compact();
    cluster.cut();
    until_subsets(&cluster, &["base", "base-blue", "base-red"]);
    for value in ["base.a", "base.b", "base.c"] {
        cluster.cut();
        workload(&cluster, "Deployment", value);
    }
    until_subsets(&cluster, &["base", "base-a", "base-b", "base-blue", "base-c", "base-red"]);
    assert!(operator.terminate());
}

#[test]
fn a_lease_that_fails_is_tried_again() {
    let cluster = cluster();
    shop(&cluster);
    cluster.fault("get", "leases", Fault::Refuse(500));
    cluster.fault("get", "leases", Fault::Hang);
    cluster.fault("create", "leases", Fault::Lost);
    cluster.fault("update", "leases", Fault::Refuse(409));
    let operator = Operator::start(&cluster, &SHOP);
    until("it leads", || operator.leads());
    until_subsets(&cluster, &["base", "base-red"]);
    assert!(operator.terminate());
    let lease = &cluster.all("leases")[0];
    assert!(lease["spec"]["holderIdentity"].is_null(), "it is given back: {lease}");
}

#[test]
fn without_istio_it_waits_for_it() {
    let cluster = crate::cluster::Cluster::start();
    let printed = super::program::cluster();
    let definitions = printed.all("customresourcedefinitions");
    let (istio, ours): (Vec<_>, Vec<_>) =
        definitions.iter().partition(|definition| definition["spec"]["group"] == "networking.istio.io");
    let put = |definition: &serde_json::Value| {
        let mut new = definition.clone();
        new["metadata"] = serde_json::json!({ "name": definition["metadata"]["name"] });
        cluster.put(&new);
    };
    ours.into_iter().for_each(put);
    shop(&cluster);
    let operator = Operator::start(&cluster, &SHOP);
    until("it says what is missing", || {
        operator
            .line("the watch is disturbed")
            .is_some_and(|line| line["kind"] == "missing" || line["kind"] == "silence")
    });
    istio.into_iter().for_each(put);
    until_subsets(&cluster, &["base", "base-red"]);
    assert!(operator.terminate());
}
