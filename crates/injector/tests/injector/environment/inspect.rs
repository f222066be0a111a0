//! `environment inspect`: its output and exit codes.

use super::program::{Operator, cluster, shop, until_subsets};
use crate::PROGRAM;
use serde_json::json;
use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};
use testkit::{command_line::Ended, http::get};

fn inspect(address: &str, arguments: &[&str]) -> Ended {
    PROGRAM.run(&[&["environment", "inspect", "--address", address], arguments].concat())
}

#[test]
fn the_state_of_the_operator_is_printed() {
    let cluster = cluster();
    shop(&cluster);
    cluster.put(&json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "mail", "namespace": "shop",
            "annotations": { "kt-virtual-environment/gateways": "gw1", "kt-virtual-environment/hosts": "m.example",
                "kt-virtual-environment/rule": "{\"timeout\":\"3s\"}" } },
        "spec": { "selector": { "app": "mail" }, "ports": [{ "name": "http", "port": 80 }, { "name": "tcp", "port": 81 }] } }));
    let operator = Operator::start(&cluster, &["--namespace", "shop"]);
    until_subsets(&cluster, &["base", "base-red"]);
    let address = operator.status_address();
    let read = |command: &str| inspect(&address, &[command]).with(0).json();
    let status = read("status");
    assert_eq!(status["VirtualEnv"], json!({ "Namespace": "shop", "Name": "demo" }));
    let mail = json!({ "Selectors": { "app": "mail" }, "Ports": [80], "Gateways": ["gw1"], "Hosts": ["m.example"],
        "CustomRule": "{\"timeout\":\"3s\"}" });
    assert_eq!(status["Services"]["mail"], mail);
    assert_eq!(
        status["Labels"]["StatefulSet#cart-base.red"],
        json!({ "app": "cart", "virtual-env": "base.red" })
    );
    let version = read("version");
    assert!(version["Version"].is_string() && version["BuildTime"].is_string(), "{version}");
    for (level, code, expected) in [
        ("level=DEBUG", 0, "log level changed to DEBUG\n"),
        ("level=debug", 1, "invalid level: debug (should be ERROR, INFO or DEBUG)\n"),
        ("levl=INFO", 1, "parameter \"level\" missing.\n"),
        ("level=ERROR", 0, "log level changed to ERROR\n"),
    ] {
        let ended = inspect(&address, &["log", level]).with(code);
        assert_eq!((&*ended.stdout, &*ended.stderr), (expected, ""));
    }
    inspect(&address, &["log"]).with(1);
    assert_eq!(get(&address, "/other").0, 404);
    let metrics = operator.metrics();
    assert_eq!((get(&metrics, "/readyz").0, get(&metrics, "/healthz").0), (200, 200));
}

#[test]
fn a_missing_operator_is_reported() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let ended = inspect(&free.to_string(), &["status"]).with(1);
    let expected = format!("--address {free}: no operator answers");
    assert!(ended.stdout.is_empty() && ended.stderr.contains(&expected), "{ended:?}");
    let ended = inspect(&free.to_string(), &[]).with(2);
    assert!(ended.stderr.contains("environment inspect: needs a command: "), "{ended:?}");
}

#[test]
fn a_truncated_answer_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let read = stream.read(&mut [0; 1024]).expect("a request");
        assert!(read > 0);
        stream.write_all(b"HTTP/1.0 200 OK\r\ncontent-length: 20\r\n\r\n{\"Services\":").expect("it reads");
    });
    let ended = inspect(&address, &["status"]).with(1);
    server.join().expect("an answer");
    let expected = "end of file before message length reached";
    assert!(ended.stdout.is_empty() && ended.stderr.contains(expected), "{ended:?}");
}
