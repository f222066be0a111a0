//! The repair agent exports the metrics that `docker/monitoring` reads.

use super::scene::{Scene, broken};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};
use testkit::{
    cluster::Fault,
    http::get,
    monitoring::{Exporter, check},
    until,
};

fn free() -> String {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.expect("a free port").to_string()
}

#[test]
fn alerts_and_dashboard_read_exported_metrics() {
    let scene = Scene::new();
    scene.cluster.fault("delete", "pods", Fault::Refuse(500));
    let address = free();
    let program = scene.start(&["--watch", "--action", "delete", "--metrics", &address]);
    scene.cluster.put(&broken("web", 1));
    until("the broken pod is deleted", || scene.cluster.find("pods", "shop", "web").is_none());
    until("the deletion is logged", || program.log().contains("it is deleted"));
    let metrics = get(&address, "/metrics").1;
    check(Exporter::Node, &metrics);
    assert!(metrics.contains("sidecar_node_recovered_total 0"), "{metrics}");
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn silent_clients_hold_up_no_other() {
    let scene = Scene::new();
    let address = free();
    let program = scene.start(&["--watch", "--action", "delete", "--metrics", &address]);
    until("it listens", || TcpStream::connect(&address).is_ok());
    let _silent: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    let start = Instant::now();
    assert_eq!(get(&address, "/healthz").0, 200);
    // Each may stay silent for 10 s, and at most 64 are open at once.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let open = fs::read_dir(format!("/proc/{}/fd", program.id())).expect("it runs").count();
    assert!(open < 100, "{open} descriptors");
    assert_eq!(program.stop(), Some(0));
}
