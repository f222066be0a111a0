//! The operator beside the garbage collector: routes stay while VirtualEnvironments come and go.

use super::program::{Operator, cluster, environment, shop, writes};
use serde_json::{Value, json};
use testkit::cluster::Cluster;
use testkit::until;

const SLOW: [&str; 4] = ["--namespace", "shop", "--debounce", "1h"];
const OURS: [&str; 2] = ["virtualservices", "destinationrules"];

/// Owners' names of the shop's objects, in order; a star marks the controller.
fn owners(cluster: &Cluster, plural: &str) -> Option<Vec<String>> {
    let object = cluster.find(plural, "shop", "cart")?;
    let reported = |owner: &Value| {
        let star = if owner["controller"] == true { "*" } else { "" };
        format!("{}{star}", owner["name"].as_str().expect("a name"))
    };
    Some(object["metadata"]["ownerReferences"].as_array().into_iter().flatten().map(reported).collect())
}

fn until_owned(cluster: &Cluster, expected: &[&str]) {
    until("cart is owned", || {
        OURS.iter().all(|plural| owners(cluster, plural).is_some_and(|found| found == expected))
    });
}

fn was_gone(cluster: &Cluster) -> bool {
    OURS.iter().any(|plural| cluster.state().was_deleted(plural, "cart"))
}

#[test]
fn routes_stay_when_another_environment_takes_over() {
    for cascade in ["background", "foreground"] {
        let cluster = cluster();
        shop(&cluster);
        // All objects have the same age, so their names decide.
        environment(&cluster, "later", &json!({ "envLabel": { "defaultSubset": "base" } }));
        let operator = Operator::start(&cluster, &SLOW);
        until_owned(&cluster, &["demo*", "later"]);
        let how = format!("--cascade={cascade}");
        let (done, reported) =
            cluster.kubectl(&["delete", "virtualenvironments", "demo", "-n", "shop", "--wait=false", &how]);
        assert!(done, "{reported}");
        until_owned(&cluster, &["later*"]);
        until("demo is deleted", || cluster.find("virtualenvironments", "shop", "demo").is_none());
        assert!(!was_gone(&cluster), "{cascade}: {}", operator.log());
        // A third environment becomes an owner at once, despite the debounce.
        environment(&cluster, "third", &json!({}));
        until_owned(&cluster, &["later*", "third"]);
        assert!(operator.terminate());
    }
}

#[test]
fn orphans_stay_and_are_taken_over() {
    let cluster = cluster();
    shop(&cluster);
    let mut pay = cluster.find("services", "shop", "cart").expect("it");
    pay["metadata"] = json!({ "name": "pay", "namespace": "shop" });
    cluster.put(&pay);
    let operator = Operator::start(&cluster, &["--namespace", "shop"]);
    until_owned(&cluster, &["demo*"]);
    until("pay has routes", || cluster.find("virtualservices", "shop", "pay").is_some());
    let orphan = ["delete", "virtualenvironments", "demo", "-n", "shop", "--wait=false", "--cascade=orphan"];
    let (done, reported) = cluster.kubectl(&orphan);
    assert!(done, "{reported}");
    until_owned(&cluster, &[]);
    cluster.remove("services", "shop", "pay");
    let (before, rounds) = (writes(&cluster), operator.number("sidecar_environment_rounds_total"));
    until("operator has reconciled", || operator.number("sidecar_environment_rounds_total") > rounds);
    assert_eq!(writes(&cluster), before, "orphaned objects are kept");
    environment(&cluster, "next", &json!({ "envLabel": { "defaultSubset": "base" } }));
    until_owned(&cluster, &["next*"]);
    until("pay's routes are removed", || cluster.find("virtualservices", "shop", "pay").is_none());
    assert!(!was_gone(&cluster), "{}", operator.log());
    assert!(operator.terminate());
}
