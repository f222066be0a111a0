//! The webhook server's certificates and clients, while certificates change.

use super::webhook::{CONFIG, Webhook};
use rustls::{
    ProtocolVersion,
    version::{TLS12, TLS13},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
};

#[test]
fn only_tls_1_2_and_1_3_are_accepted() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    for (versions, expected) in [([&TLS12], ProtocolVersion::TLSv1_2), ([&TLS13], ProtocolVersion::TLSv1_3)] {
        let mut client = webhook.connect_by(&versions);
        assert_eq!(client.send("GET", "/ready", &[], b"").expect("an answer").status, 200);
        assert_eq!(client.version(), Some(expected));
    }
    let mut plain = TcpStream::connect(webhook.address).expect("a connection");
    plain.write_all(b"GET /ready HTTP/1.1\r\nHost: webhook\r\n\r\n").expect("a request");
    let mut given = Vec::new();
    plain.read_to_end(&mut given).expect("an end");
    assert!(!given.starts_with(b"HTTP"), "{given:?}");
    assert_eq!(webhook.metric("sidecar_injector_handshake_failures_total"), 1.0);
}

#[test]
fn a_new_certificate_is_shown_to_new_connections() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    let mut old = webhook.connect();
    let first = old.certificate();
    let expiry = webhook.metric("sidecar_injector_certificate_expiry_timestamp_seconds");
    assert!(expiry > 1_700_000_000.0, "{expiry}");
    webhook.certify();
    webhook.until_line("reloaded");
    let second = webhook.connect().certificate();
    assert_ne!(first, second);
    assert_eq!(old.send("GET", "/ready", &[], b"").expect("an answer").status, 200);

    // With a foreign key, the last valid certificate stays in use.
    let (other, _) = webhook.authority.client("other");
    let (_, key) = webhook.authority.client("another");
    webhook.certify_by(&other, &key);
    let log = webhook.until_line("not reloaded; the previous one stays in use");
    assert_eq!(webhook.connect().certificate(), second);
    assert_eq!(log["what"], "certificate");
    assert!(log["error"].as_str().is_some_and(|error| error.contains("does not match")), "{log}");
}
