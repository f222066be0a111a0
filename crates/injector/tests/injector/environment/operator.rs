//! The operator with an API server: its writes, the objects that it keeps, and leader election.

use super::program::{
    Operator, cluster, environment, routed, shop, until_subsets, until_told, workload, writes,
};
use serde_json::json;
use testkit::{http::get, until};

const SHOP: [&str; 2] = ["--namespace", "shop"];

#[test]
fn routes_follow_services_and_workloads() {
    let cluster = cluster();
    shop(&cluster);
    let own = json!({ "apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService",
        "metadata": { "name": "own", "namespace": "shop" }, "spec": { "hosts": ["own"] } });
    cluster.put(&own);
    let operator = Operator::start(&cluster, &SHOP);
    until_subsets(&cluster, &["base", "base-red"]);
    let uid = cluster.find("virtualenvironments", "shop", "demo").expect("it")["metadata"]["uid"].clone();
    let route = cluster.find("virtualservices", "shop", "cart").expect("a route");
    let owner = &route["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&uid, &json!(true)));
    until_told(&cluster, "demo", "Routed");

    workload(&cluster, "Deployment", "base.blue");
    until_subsets(&cluster, &["base", "base-blue", "base-red"]);
    cluster.remove("statefulsets", "shop", "cart-base.red");
    until_subsets(&cluster, &["base", "base-blue"]);
    // Changes by other programs to the operator's objects are reverted.
    let mut broken = cluster.find("virtualservices", "shop", "cart").expect("a route");
    broken["spec"]["http"] = json!([]);
    cluster.put(&broken);
    until_subsets(&cluster, &["base", "base-blue"]);
    environment(
        &cluster,
        "demo",
        &json!({ "envHeader": { "autoInject": true }, "envLabel": { "defaultSubset": "base" } }),
    );
    until("there is a filter", || cluster.find("envoyfilters", "shop", "demo").is_some());

    cluster.remove("virtualenvironments", "shop", "demo");
    until("objects are gone", || {
        cluster.all("virtualservices").len() == 1
            && cluster.all("destinationrules").is_empty()
            && cluster.all("envoyfilters").is_empty()
    });
    assert_eq!(cluster.find("virtualservices", "shop", "own").expect("it")["spec"], own["spec"]);
    assert!(operator.terminate());
}

#[test]
fn a_restart_writes_nothing() {
    let cluster = cluster();
    shop(&cluster);
    let first = Operator::start(&cluster, &SHOP);
    until_subsets(&cluster, &["base", "base-red"]);
    // The status is written last.
    until_told(&cluster, "demo", "Routed");
    drop(first);
    let before = writes(&cluster);
    // The first operator's Lease must expire first.
    let second = Operator::start(&cluster, &SHOP);
    until("second reconciled", || second.leads() && second.number("sidecar_environment_rounds_total") >= 1);
    assert_eq!(writes(&cluster), before, "{}", second.log());
    assert_eq!(routed(&cluster).map(|(_, routes)| routes), Some(2));
}

#[test]
fn one_of_two_leads_and_the_other_follows_at_once() {
    let cluster = cluster();
    shop(&cluster);
    let one = Operator::start(&cluster, &SHOP);
    until("it leads", || one.leads());
    let other = Operator::start(&cluster, &SHOP);
    until_subsets(&cluster, &["base", "base-red"]);
    let holder = || {
        let lease = cluster.find("leases", "shop", "sidecar-injector-environment").unwrap_or_default();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    };
    let identity =
        |operator: &Operator| operator.until_line("operating")["identity"].as_str().expect("it").to_owned();
    assert_eq!(holder(), identity(&one));
    assert!(!other.leads());
    let mut lease = cluster.find("leases", "shop", "sidecar-injector-environment").expect("it");
    lease["metadata"]["labels"] = json!({ "team": "shop" });
    cluster.put(&lease);
    assert!(one.terminate());
    until("the other one leads", || other.leads());
    assert_eq!(holder(), identity(&other));
    let lease = cluster.find("leases", "shop", "sidecar-injector-environment").expect("it");
    assert_eq!(lease["metadata"]["labels"]["team"], "shop", "labels are kept");
    workload(&cluster, "Deployment", "base.blue");
    until_subsets(&cluster, &["base", "base-blue", "base-red"]);
    // Another process takes the Lease: all writes stop.
    let mut lease = cluster.find("leases", "shop", "sidecar-injector-environment").expect("it");
    lease["spec"]["holderIdentity"] = json!("somebody");
    lease["spec"]["leaseDurationSeconds"] = json!(3600);
    cluster.put(&lease);
    until("it no longer leads", || !other.leads());
    let before = writes(&cluster);
    cluster.remove("deployments", "shop", "cart-base.blue");
    let rounds = other.number("sidecar_environment_rounds_total");
    until("the change is observed", || !get(other.status_address(), "/status").1.contains("cart-base.blue"));
    assert_eq!((writes(&cluster), other.number("sidecar_environment_rounds_total")), (before, rounds));
    assert!(other.terminate());
    assert_eq!(holder(), "somebody", "another's Lease is not released");
}

#[test]
fn operators_of_two_namespaces_do_not_wait_for_each_other() {
    let cluster = cluster();
    shop(&cluster);
    cluster.namespace("mall", &json!({}));
    let operators = ["shop", "mall"].map(|namespace| Operator::start(&cluster, &["--namespace", namespace]));
    until("operators lead", || operators.iter().all(Operator::leads));
    let holds = |namespace: &str| cluster.find("leases", namespace, "sidecar-injector-environment").is_some();
    assert!(holds("shop") && holds("mall") && !holds("default"));
    // `--lease-namespace` overrides `--namespace`.
    let third = Operator::start(&cluster, &["--namespace", "shop", "--lease-namespace", "default"]);
    until("third leads too", || third.leads());
    assert!(holds("default"));
}
