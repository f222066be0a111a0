//! Whom the webhook's server speaks to, and by which certificate, while that and the configuration change.

use super::client::{JSON, pod, review, reviewed};
use super::webhook::{CONFIG, Webhook};
use rustls::{
    ProtocolVersion,
    version::{TLS12, TLS13},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
};
use testkit::http::request_head;

/// A greeting as TLS 1.1 has it (RFC 4346, 7.4.1.2): its version, and two suites that old servers took. It names an algorithm
/// of signatures, so that nothing but the version is wrong with it.
fn greeting_of_1_1() -> Vec<u8> {
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0]);
    hello.extend([0, 8, 0, 13, 0, 4, 0, 2, 4, 3]);
    let length = u8::try_from(hello.len()).expect("a short one");
    let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    record
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_nothing_else() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    for (versions, expected) in [([&TLS12], ProtocolVersion::TLSv1_2), ([&TLS13], ProtocolVersion::TLSv1_3)] {
        let mut client = webhook.connect_by(&versions);
        assert_eq!(client.send("GET", "/ready", &[], b"").expect("an answer").status, 200);
        assert_eq!(client.version(), Some(expected));
    }
    let mut old = TcpStream::connect(webhook.address).expect("a connection");
    old.write_all(&greeting_of_1_1()).expect("a greeting");
    let mut given = Vec::new();
    old.read_to_end(&mut given).expect("an end");
    let alert = (given.first(), &given[given.len().saturating_sub(2)..]);
    assert_eq!(alert, (Some(&21), &[2, 70][..]), "a fatal alert: protocol_version");
    let mut plain = TcpStream::connect(webhook.address).expect("a connection");
    plain.write_all(b"GET /ready HTTP/1.1\r\nHost: webhook\r\n\r\n").expect("a request");
    let mut given = Vec::new();
    plain.read_to_end(&mut given).expect("an end");
    assert!(!given.starts_with(b"HTTP"), "{given:?}");
    assert_eq!(webhook.metric("sidecar_injector_handshake_failures_total"), 2.0);
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

    // A key that is another's, and a text that is none: the last good one stays.
    let (other, _) = webhook.authority.client("other");
    let (_, key) = webhook.authority.client("another");
    for (certificate, key, times) in [(other.as_str(), key.as_str(), 1), ("", "", 2)] {
        webhook.certify_by(certificate, key);
        webhook.logged_times("not reloaded; the one before stays in use", times);
        assert_eq!(webhook.connect().certificate(), second);
    }
    let count = |outcome: &str| {
        webhook.metric(&format!("sidecar_injector_certificate_reloads_total{{outcome=\"{outcome}\"}}"))
    };
    assert_eq!([count("done"), count("failed")], [1.0, 2.0]);
    let log = webhook.until_line("not reloaded; the one before stays in use");
    assert_eq!(log["what"], "certificate");
    assert!(log["error"].as_str().is_some_and(|error| error.contains("expected the key")), "{log}");
}

#[test]
fn a_new_configuration_decides_about_the_next_pod() {
    let webhook = Webhook::start("policy: disabled\n", "", &[]);
    let mut client = webhook.connect();
    let mut outcome = |uid: &str| {
        let answer = reviewed(&mut client, "/inject", uid, &pod()).expect("an answer");
        assert_eq!(answer.status, 200);
        let reported = webhook.outcome_of(uid);
        if reported["outcome"] == "refused" {
            eprintln!("{reported}");
        };
        reported["outcome"].as_str().expect("a text").to_owned()
    };
    assert_eq!(outcome("u1"), "skipped");
    webhook.configure("policy: enabled\n", "");
    webhook.until_line("reloaded");
    assert_eq!(outcome("u2"), "injected");
    webhook.configure("policy: disabled\ntemplates: 7\n", "global: [\n");
    let log = webhook.until_line("not reloaded; the one before stays in use");
    let error = log["error"].as_str().expect("a text");
    assert!(error.contains("/config") && error.contains("/values"), "all that is wrong at once: {error}");
    assert_eq!(outcome("u3"), "injected");
    webhook.configure("policy: disabled\n", "");
    webhook.logged_times("reloaded", 2);
    assert_eq!(outcome("u4"), "skipped");
    assert_eq!(webhook.metric("sidecar_injector_configuration_reloads_total{outcome=\"done\"}"), 2.0);
    assert_eq!(webhook.metric("sidecar_injection_skip_total"), 2.0);
}

/// What a review says is not lost between a configuration and the next, nor a connection that is kept.
#[test]
fn bytes_of_a_review_may_come_across_a_change() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    let mut client = webhook.connect();
    let body = review("admission.k8s.io/v1", "u1", &pod()).to_string();
    let request = request_head("POST", "/inject", &[JSON], body.len()) + &body;
    let (start, rest) = request.as_bytes().split_at(request.len() / 2);
    client.write(start).expect("a part");
    webhook.configure("policy: disabled\n", "");
    webhook.certify();
    webhook.logged_times("reloaded", 2);
    client.write(rest).expect("the rest");
    assert_eq!(client.read().expect("an answer").json()["response"]["allowed"], true);
    assert_eq!(webhook.outcome_of("u1")["outcome"], "skipped");
}
