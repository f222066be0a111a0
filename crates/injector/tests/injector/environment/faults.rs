//! The operator with a failing API server.

use super::program::{Operator, cluster, shop, until_subsets, until_told, workload};
use serde_json::{Value, json};
use std::{fs, net::TcpListener, time::Duration};
use testkit::cluster::Fault;
use testkit::http::get;
use testkit::monitoring::{Exporter, check};
use testkit::{certificates::Authority, scope, until};

const SHOP: [&str; 2] = ["--namespace", "shop"];

#[test]
fn failed_writes_are_retried() {
    let slow = Fault::Slow(Duration::from_millis(300));
    let all = vec![Fault::Refuse(409), Fault::Refuse(500), slow, Fault::Lost, Fault::Hang];
    for fault in scope::of(all, 1) {
        let cluster = cluster();
        shop(&cluster);
        for verb in ["create", "patch"] {
            cluster.fault(verb, "destinationrules", fault);
            cluster.fault(verb, "virtualservices", fault);
        }
        cluster.fault("patch", "virtualenvironments/status", fault);
        let operator = Operator::start(&cluster, &SHOP);
        until_subsets(&cluster, &["base", "base-red"]);
        until_told(&cluster, "demo", "Routed");
        workload(&cluster, "Deployment", "base.blue");
        until_subsets(&cluster, &["base", "base-blue", "base-red"]);
        assert!(operator.terminate(), "{fault:?}");
    }
}

#[test]
fn failed_lists_and_watches_are_restarted() {
    let cluster = cluster();
    shop(&cluster);
    // One fault per resource, since the delays of one resource grow.
    for (verb, plural, fault) in [
        ("list", "virtualenvironments", Fault::Refuse(500)),
        ("list", "deployments", Fault::Cut),
        ("list", "destinationrules", Fault::Lie("{}")),
        ("list", "envoyfilters", Fault::Hang),
        ("watch", "services", Fault::Gone),
        ("watch", "statefulsets", Fault::Refuse(410)),
        ("watch", "virtualservices", Fault::Refuse(401)),
    ] {
        cluster.fault(verb, plural, fault);
    }
    let operator = Operator::start(&cluster, &SHOP);
    until_subsets(&cluster, &["base", "base-red"]);
    until("all faults have occurred", || cluster.state().faults.is_empty());
    // A new list reveals changes that no watch observed before their compaction.
    workload(&cluster, "Deployment", "base.blue");
    cluster.compact();
    cluster.cut();
    until_subsets(&cluster, &["base", "base-blue", "base-red"]);
    assert!(operator.terminate());
}

#[test]
fn a_failed_lease_is_retried() {
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
    assert!(lease["spec"]["holderIdentity"].is_null(), "it is released: {lease}");
}

#[test]
fn watches_may_last_almost_five_minutes() {
    let cluster = cluster();
    shop(&cluster);
    let operator = Operator::start(&cluster, &["--namespace", "shop", "--watch-timeout", "294s"]);
    until_subsets(&cluster, &["base", "base-red"]);
    workload(&cluster, "Deployment", "base.blue");
    until_subsets(&cluster, &["base", "base-blue", "base-red"]);
    assert_eq!(operator.line("the watch failed"), None, "{}", operator.log());
    assert!(operator.terminate());
}

#[test]
fn a_changed_certificate_authority_is_trusted_without_a_restart() {
    let cluster = cluster();
    shop(&cluster);
    fs::write(cluster.file("ca.crt"), Authority::new("former").pem).expect("written");
    let operator = Operator::start(&cluster, &SHOP);
    until("the server is not trusted", || operator.line("the watch failed").is_some());
    // The missing file is logged once per client.
    fs::remove_file(cluster.file("ca.crt")).expect("removed");
    let line = operator.until_line("credentials can't be renewed");
    assert!(line["error"].as_str().is_some_and(|error| error.contains("No such file")), "{line}");
    fs::write(cluster.file("ca.crt"), &cluster.authority.pem).expect("written");
    until_subsets(&cluster, &["base", "base-red"]);
    assert!(operator.lines("credentials can't be renewed").len() <= 2, "{}", operator.log());
    assert!(operator.terminate());
}

#[test]
fn an_unreachable_api_server_is_reported() {
    let cluster = cluster();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|there| there.local_addr()).expect("an address");
    let path = cluster.kubeconfig();
    let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    let server = format!("https://{free}/");
    config["clusters"][0]["cluster"]["server"] = json!(server);
    fs::write(&path, config.to_string()).expect("written");
    let operator = Operator::start(&cluster, &SHOP);
    let line = operator.until_line("the watch failed");
    assert_eq!(line["kind"], "unreachable", "{line}");
    assert_eq!(operator.until_line("operating")["server"], server);
    assert!(line["error"].as_str().is_some_and(|error| error.contains("refused")), "{line}");
    assert!(!operator.log().contains("failed with error"), "logged twice: {}", operator.log());
}

#[test]
fn alerts_and_dashboard_read_exported_metrics() {
    let cluster = cluster();
    shop(&cluster);
    cluster.fault("create", "virtualservices", Fault::Refuse(500));
    let operator = Operator::start(&cluster, &SHOP);
    until_subsets(&cluster, &["base", "base-red"]);
    check(Exporter::Operator, &get(operator.metrics(), "/metrics").1);
    assert!(operator.terminate());
}
