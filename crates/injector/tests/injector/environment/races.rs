//! Changes by other programs between the operator's read and its write.

use super::program::{Operator, cluster, routed, shop, until_subsets, until_told, workload};
use serde_json::{Value, json};
use testkit::cluster::{Cluster, Fault};

const SHOP: [&str; 2] = ["--namespace", "shop"];

fn own() -> Value {
    json!({ "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": { "name": "cart", "namespace": "shop" }, "spec": { "hosts": ["cart"], "http": [] } })
}

/// Waits until the operator reports the foreign route, and checks that the route is unchanged.
fn until_left(cluster: &Cluster) {
    until_told(cluster, "demo", "ServicesLeftOut");
    let route = cluster.find("virtualservices", "shop", "cart").expect("a route");
    assert_eq!(route["spec"], own()["spec"]);
    let owners = route["metadata"]["ownerReferences"].as_array();
    assert!(owners.is_none_or(Vec::is_empty), "{route}");
    assert_eq!(cluster.find("destinationrules", "shop", "cart"), None, "none of our objects is beside it");
}

#[test]
fn a_route_created_meanwhile_by_a_user_is_not_taken_over() {
    let cluster = cluster();
    shop(&cluster);
    let made = Fault::Meanwhile(|state| drop(state.place(&own())));
    cluster.fault("create", "virtualservices", made);
    let operator = Operator::start(&cluster, &["--all-namespaces"]);
    until_left(&cluster);
    cluster.remove("virtualservices", "shop", "cart");
    until_subsets(&cluster, &["base", "base-red"]);
    assert!(operator.terminate());
}

#[test]
fn a_route_replaced_meanwhile_is_not_taken_over() {
    let exchanged = Fault::Meanwhile(|state| {
        state.delete("virtualservices", "shop", "cart");
        state.place(&own());
    });
    // The same object, now owned by the user.
    let kept = Fault::Meanwhile(|state| {
        let mut route = state.find("virtualservices", "shop", "cart").expect("a route").clone();
        route["metadata"]["ownerReferences"] = json!([]);
        route["spec"] = own()["spec"].clone();
        state.place(&route);
    });
    for fault in [exchanged, kept] {
        let cluster = cluster();
        shop(&cluster);
        let operator = Operator::start(&cluster, &SHOP);
        until_subsets(&cluster, &["base", "base-red"]);
        cluster.fault("patch", "virtualservices", fault);
        workload(&cluster, "Deployment", "base.blue");
        until_left(&cluster);
        assert!(operator.terminate());
    }
}

#[test]
fn objects_deleted_meanwhile_are_made_again() {
    let cluster = cluster();
    shop(&cluster);
    let operator = Operator::start(&cluster, &SHOP);
    until_subsets(&cluster, &["base", "base-red"]);
    cluster.fault(
        "patch",
        "virtualservices",
        Fault::Meanwhile(|state| state.delete("virtualservices", "shop", "cart")),
    );
    workload(&cluster, "Deployment", "base.blue");
    until_subsets(&cluster, &["base", "base-blue", "base-red"]);
    assert_eq!(routed(&cluster).map(|(_, routes)| routes), Some(3));
    assert!(operator.terminate());
}
