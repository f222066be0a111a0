//! The operator with an API server that refuses the same request repeatedly: it survives, and its requests become rarer.
//!
//! The rate is measured by the time for a number of requests: a slow machine only takes longer.

use super::program::{Operator, cluster, shop, until_subsets, workload};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use testkit::cluster::{Cluster, Fault};
use testkit::{http::get, until};

const SHOP: [&str; 2] = ["--namespace", "shop"];

/// Waits for `count` lists of a resource, which must take at least this time.
fn until_listed(cluster: &Cluster, plural: &str, count: usize, least: Duration) {
    let begun = Instant::now();
    until("resource is listed again", || cluster.count("list", plural) >= count);
    let took = begun.elapsed();
    assert!(took >= least, "{count} lists in {took:?}");
}

#[test]
#[ignore = "back-offs of many seconds"]
fn versions_that_are_always_too_old_cause_no_storm_of_lists() {
    // As the status, or within a running watch.
    for fault in [Fault::Refuse(410), Fault::Gone] {
        let cluster = cluster();
        shop(&cluster);
        cluster.storm("watch", "services", fault);
        let operator = Operator::start(&cluster, &SHOP);
        // 0.2, 0.4, 0.8, 1.6 seconds between clients; 0.8, 1.6, 3.2 within one.
        until_listed(&cluster, "services", 5, Duration::from_secs(3));
        until_subsets(&cluster, &["base", "base-red"]);
        workload(&cluster, "Deployment", "base.blue");
        until_subsets(&cluster, &["base", "base-blue", "base-red"]);
        cluster.calm();
        cluster.remove("services", "shop", "cart");
        until("the Service is known to be gone", || cluster.all("virtualservices").is_empty());
        assert!(operator.terminate(), "{fault:?}");
    }
}

#[test]
fn missing_definitions_are_awaited() {
    let cluster = Cluster::start();
    let definitions = super::program::cluster().all("customresourcedefinitions");
    let (istio, ours): (Vec<_>, Vec<_>) =
        definitions.iter().partition(|definition| definition["spec"]["group"] == "networking.istio.io");
    let put = |definition: &Value| {
        let mut new = definition.clone();
        new["metadata"] = json!({ "name": definition["metadata"]["name"] });
        cluster.put(&new);
    };
    ours.into_iter().for_each(put);
    shop(&cluster);
    let operator = Operator::start(&cluster, &SHOP);
    let line = operator.until_line("the watch failed");
    assert_eq!(line["kind"], "missing", "{line}");
    until("other resources are known", || !status(&operator)["Labels"].as_object().is_none_or(Map::is_empty));
    istio.into_iter().for_each(put);
    until_subsets(&cluster, &["base", "base-red"]);
    assert_eq!(cluster.count("list", "services"), 1, "known objects are not listed again");
    assert!(operator.terminate());
}

fn status(operator: &Operator) -> Value {
    serde_json::from_str(&get(operator.status_address(), "/status").1).expect("JSON")
}

/// Regression test: each list reset the delay, causing 1.5 lists and log lines per second.
#[test]
#[ignore = "back-offs of many seconds"]
fn lists_that_are_always_refused_become_rarer() {
    let cluster = cluster();
    shop(&cluster);
    cluster.storm("list", "envoyfilters", Fault::Refuse(404));
    let operator = Operator::start(&cluster, &SHOP);
    // 0.8, 1.6 and 3.2 seconds between lists.
    until_listed(&cluster, "envoyfilters", 4, Duration::from_secs(5));
    assert_eq!(cluster.count("list", "services"), 1, "other resources are listed once");
    assert_eq!(operator.lines("the watch failed").len(), 1, "{}", operator.log());
    let line = operator.line("the watch failed").expect("it");
    assert_eq!(line["error"], "refused by a test (404)", "{line}");
    let counted = "sidecar_environment_watch_errors_total{resource=\"envoyfilters\",kind=\"missing\"}";
    until("each is counted", || operator.number(counted) >= 4);
    cluster.calm();
    until_subsets(&cluster, &["base", "base-red"]);
    assert!(operator.terminate());
}

/// Adds enough Deployments to move the shop's to the third page.
fn more_deployments(cluster: &Cluster) {
    for number in 0..450 {
        cluster.put(&json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": format!("a-{number:03}"), "namespace": "shop" },
            "spec": { "template": { "metadata": { "labels": { "app": "other" } } } } }));
    }
}

#[test]
fn pages_together_may_exceed_the_timeout_of_a_call() {
    let cluster = cluster();
    shop(&cluster);
    more_deployments(&cluster);
    // Calls time out after two seconds.
    cluster.storm("list", "deployments", Fault::Slow(Duration::from_millis(900)));
    let operator = Operator::start(&cluster, &SHOP);
    until_subsets(&cluster, &["base", "base-red"]);
    assert_eq!(operator.line("the watch failed"), None);
    assert!(operator.terminate());
}

#[test]
fn lists_come_in_pages_and_restart_when_the_rest_expires() {
    let cluster = cluster();
    shop(&cluster);
    more_deployments(&cluster);
    // The second page of the first list comes too late.
    cluster.fault("list", "deployments", Fault::Slow(Duration::ZERO));
    cluster.fault("list", "deployments", Fault::Meanwhile(|state| state.compact()));
    let operator = Operator::start(&cluster, &SHOP);
    until_subsets(&cluster, &["base", "base-red"]);
    let pages: Vec<(bool, Option<String>)> = {
        let state = cluster.state();
        let lists = state
            .requests
            .iter()
            .filter(|(access, _)| (access.verb, &*access.resource) == ("list", "deployments"));
        let limit = |text: Option<&str>| text.map(str::to_owned);
        lists
            .map(|(_, list)| (list.parameter("continue").is_some(), limit(list.parameter("limit"))))
            .collect()
    };
    assert!(pages.iter().all(|(_, limit)| limit.as_deref() == Some("200")), "{pages:?}");
    let begun: Vec<bool> = pages.into_iter().map(|(continued, _)| !continued).collect();
    assert_eq!(begun, [true, false, true, false, false]);
    assert!(operator.terminate());
}
