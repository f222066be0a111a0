//! `environment inspect`: what it prints, and how it ends.

use super::program::{Operator, cluster, get, shop, until_subsets};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Command,
    thread,
};

/// How it ended, and what it printed on both streams.
fn inspect(address: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
        .args(["environment", "inspect", "--address", address])
        .args(arguments)
        .output()
        .expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[test]
fn it_tells_what_the_operator_knows() {
    let cluster = cluster();
    shop(&cluster);
    cluster.put(&json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "mail", "namespace": "shop",
            "annotations": { "kt-virtual-environment/gateways": "gw1", "kt-virtual-environment/hosts": "m.example",
                "kt-virtual-environment/rule": "{\"timeout\":\"3s\"}" } },
        "spec": { "selector": { "app": "mail" }, "ports": [{ "name": "http", "port": 80 }, { "name": "tcp", "port": 81 }] } }));
    let operator = Operator::start(&cluster, &["--namespace", "shop"]);
    until_subsets(&cluster, &["base", "base-red"]);
    let address = operator.status_address();
    let (code, status, _) = inspect(&address, &["status"]);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!((code, &status["VirtualEnv"]), (Some(0), &json!({ "Namespace": "shop", "Name": "demo" })));
    let mail = json!({ "Selectors": { "app": "mail" }, "Ports": [80], "Gateways": ["gw1"], "Hosts": ["m.example"],
        "CustomRule": "{\"timeout\":\"3s\"}" });
    assert_eq!(status["Services"]["mail"], mail);
    assert_eq!(
        status["Labels"]["StatefulSet#cart-base.red"],
        json!({ "app": "cart", "virtual-env": "base.red" })
    );
    let (code, version, _) = inspect(&address, &["version"]);
    let version: Value = serde_json::from_str(&version).expect("JSON");
    assert_eq!(
        (code, version["Version"].is_string(), version["BuildTime"].is_string()),
        (Some(0), true, true)
    );
    for (level, code, expected) in [
        ("level=DEBUG", 0, "log level changed to DEBUG\n"),
        ("level=debug", 1, "invalid level: debug (should be ERROR, INFO or DEBUG)\n"),
        ("levl=INFO", 1, "parameter \"level\" missing.\n"),
        ("level=ERROR", 0, "log level changed to ERROR\n"),
    ] {
        assert_eq!(inspect(&address, &["log", level]), (Some(code), expected.to_owned(), String::new()));
    }
    assert_eq!(inspect(&address, &["log"]).0, Some(1));
    assert_eq!(get(&address, "/other").0, 404);
    let metrics = operator.line("operating").expect("it")["metrics"].as_str().expect("it").to_owned();
    assert_eq!((get(&metrics, "/readyz").0, get(&metrics, "/healthz").0), (200, 200));
}

#[test]
fn where_nobody_answers_it_says_so() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let (code, stdout, stderr) = inspect(&free.to_string(), &["status"]);
    assert_eq!((code, &*stdout), (Some(1), ""));
    assert!(stderr.contains(&format!("--address {free}: no operator answers there")), "{stderr}");
    let (code, _, stderr) = inspect(&free.to_string(), &[]);
    assert!(code == Some(2) && stderr.contains("environment inspect: needs a command: "), "{stderr}");
}

#[test]
fn an_answer_that_was_cut_off_was_printed_as_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let read = stream.read(&mut [0; 1024]).expect("a request");
        assert!(read > 0);
        stream.write_all(b"HTTP/1.0 200 OK\r\ncontent-length: 20\r\n\r\n{\"Services\":").expect("it reads");
    });
    let (code, stdout, stderr) = inspect(&address, &["status"]);
    server.join().expect("an answer");
    assert_eq!((code, &*stdout), (Some(1), ""));
    assert!(stderr.contains("the answer ends after 12 of 20 bytes"), "{stderr}");
}

#[test]
fn all_addresses_are_those_of_both_families() {
    let operator = Operator::start(&cluster(), &["--metrics-address", "[::]:0"]);
    let address = operator.line("operating").expect("it")["metrics"].as_str().expect("it").to_owned();
    let (host, port) = address.rsplit_once(':').expect("an address");
    assert_eq!(get(&format!("127.0.0.1:{port}"), "/healthz").0, 200);
    // A machine without IPv6 has the other one only.
    if host != "0.0.0.0" {
        assert_eq!(get(&format!("[::1]:{port}"), "/healthz").0, 200);
    }
}
