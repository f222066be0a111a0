//! What `docker/monitoring` reads of the webhook is exported by it.

use super::client::{Response, head};
use super::manifests::{objects, start};
use serde_json::Value;
use std::{fs, io::Write, net::TcpStream};
use testkit::{
    cluster::Cluster,
    monitoring::{Exporter, check},
    until,
};

fn get(address: &str, path: &str) -> Response {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(head("GET", path, &[], 0).as_bytes()).expect("a request");
    Response::read(&mut stream).expect("an answer")
}

#[test]
fn alerts_and_dashboard_read_what_the_webhook_exports() {
    let cluster = Cluster::start();
    let all = objects(&["--environment-tag"]);
    all.iter().for_each(|object| drop(cluster.put(object)));
    let _server = start(&cluster, &all);
    let log = cluster.file("log");
    let mut address = None;
    until("it serves", || {
        let log = fs::read_to_string(&log).expect("a log");
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        address = lines.filter_map(|line| line["metrics_address"].as_str().map(str::to_owned)).next();
        address.is_some()
    });
    let address = address.expect("it serves");
    // The first lists of its watches, and the webhook configurations, have been read.
    until("it is ready", || get(&address, "/ready").status == 200);
    until("it knows its webhooks", || {
        get(&address, "/metrics").text().contains("sidecar_injector_webhooks{")
    });
    check(Exporter::Webhook, &get(&address, "/metrics").text());
}
