//! What `docker/monitoring` reads of the repair agent is exported by it.

use super::scene::{Scene, broken};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};
use testkit::{
    cluster::Fault,
    monitoring::{Exporter, check},
    until,
};

#[test]
fn alerts_and_dashboard_read_what_the_agent_exports() {
    let scene = Scene::new();
    // A failure, which is repeated.
    scene.cluster.fault("delete", "pods", Fault::Refuse(500));
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = address.expect("a free port").to_string();
    let program = scene.start(&["--watch", "--action", "delete", "--metrics", &address]);
    scene.cluster.put(&broken("web", 1));
    until("the broken pod is deleted", || scene.cluster.find("pods", "shop", "web").is_none());
    let mut stream = TcpStream::connect(&address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("an answer");
    check(Exporter::Node, &page);
    assert_eq!(program.stop(), Some(0));
}
