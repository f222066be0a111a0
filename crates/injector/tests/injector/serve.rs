//! The webhook server's answers over HTTPS: to all kinds of requests, to slow requests, and at shutdown.

use super::client::{JSON, pod, review, reviewed};
use super::webhook::{CONFIG, Webhook};
use serde_json::{Value, json};
use std::{
    io::Read,
    net::TcpStream,
    time::{Duration, Instant},
};
use testkit::http::{Client, get, request_head};

const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

#[test]
fn all_kinds_of_requests_are_answered_and_counted() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    // One connection for all requests, like the API server's.
    let mut client = webhook.connect();
    let whole = review(VERSIONS[0], "u1", &pod()).to_string();
    let mut failures = 0;
    let mut check = |method: &str, content_type: &str, body: &str, status: u16, text: &str| {
        let headers = [("Content-Type", content_type)];
        let response = client.send(method, "/inject", &headers, body.as_bytes()).expect("an answer");
        assert_eq!(response.status, status, "{body:.80}: {response:?}");
        assert!(response.text().contains(text), "{body:.80}: {}", response.text());
        failures += 1;
        response
    };
    check("POST", "application/json", "", 400, "no body found");
    check("GET", "application/json", "", 400, "no body found");
    check("POST", "text/plain", &whole, 415, "expected application/json");
    check("POST", "application/json; charset=utf-8", &whole, 415, "expected application/json");
    for end in [1, whole.len() / 2, whole.len() - 1] {
        let response = check("POST", "application/json", &whole[..end], 200, "the body is not JSON").json();
        assert_eq!(response["response"]["uid"], "", "{}", &whole[..end]);
    }
    for body in ["\0", "[]", "{}", "null", "{\"kind\":\"AdmissionReview\"}", &"[".repeat(100_000)] {
        let response = check("POST", "application/json", body, 200, "\"allowed\":false").json();
        assert_eq!(
            (&response["apiVersion"], &response["response"]["uid"]),
            (&VERSIONS[0].into(), &"".into())
        );
    }
    for version in VERSIONS {
        let empty = json!({ "apiVersion": version, "kind": "AdmissionReview" }).to_string();
        let response = check("PUT", "application/json", &empty, 200, "has no request").json();
        assert_eq!(response["apiVersion"], version);
        let bad = review(version, "u2", &json!({ "kind": "Job" })).to_string();
        let response = check("POST", "application/json", &bad, 200, "expected a Pod").json();
        assert_eq!((&response["apiVersion"], &response["response"]["uid"]), (&version.into(), &"u2".into()));
    }
    assert_eq!(webhook.outcome_of("u2")["outcome"], "refused");
    let counts = ["requests", "failure", "success", "skip"]
        .map(|name| webhook.metric(&format!("sidecar_injection_{name}_total")));
    assert_eq!(counts, [failures.into(), failures.into(), 0.0, 0.0]);
    assert_eq!(webhook.metric("sidecar_injection_time_seconds_count"), f64::from(failures));
}

#[test]
fn other_paths_have_other_answers() {
    let webhook = Webhook::start(CONFIG, "", &["--metrics-address", "127.0.0.1:0"]);
    let status = |method: &str, path: &str| {
        webhook.connect().send(method, path, &[JSON], b"").expect("an answer").status
    };
    for (method, path, expected) in [
        ("GET", "/ready", 200),
        ("GET", "/ready?verbose", 200),
        ("GET", "/metrics", 200),
        ("POST", "/metrics", 405),
        ("GET", "/", 404),
        ("POST", "/injection", 404),
        ("POST", "/environment-tag", 404),
        ("POST", "/inject/", 400),
        ("POST", "/inject/net/%ff", 400),
    ] {
        assert_eq!(status(method, path), expected, "{method} {path}");
    }
    for (path, expected) in [("/ready", 200), ("/metrics", 200), ("/inject", 404)] {
        assert_eq!(get(webhook.plain(), path).0, expected, "{path}");
    }
}

#[test]
fn an_invalid_default_template_is_reported_before_any_pod() {
    let config = |defaults: &str| {
        format!(
            "policy: enabled\ndefaultTemplates: [{defaults}]\ntemplates:\n  own: '{{{{ index .Spec.Containers 7 }}}}'\n"
        )
    };
    let webhook = Webhook::start(&config("own"), "", &[]);
    let ready = webhook.get("/ready");
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("own"), "{}", ready.text());
    assert_eq!(webhook.get("/ready?verbosity").text(), ready.text());
    let verbose = webhook.get("/ready?timeout=1s&verbose");
    assert!(
        verbose.status == 503 && verbose.text().contains("[-]configuration failed: "),
        "{}",
        verbose.text()
    );
    assert_eq!(webhook.metric("sidecar_injector_configuration_usable"), 0.0);

    // A template that is not a default affects no other pod.
    webhook.configure(&config("sidecar"), "");
    webhook.until_line("reloaded");
    let warning = webhook.until_line("a template fails to render; pods that name it are refused");
    assert_eq!(warning["template"], "own");
    assert_eq!(webhook.get("/ready").status, 200);
    assert_eq!(webhook.metric("sidecar_injector_configuration_usable"), 1.0);

    webhook.configure(&config("own"), "");
    webhook.until_line("not reloaded; the previous one stays in use");
    assert_eq!(webhook.get("/ready").status, 200);
    assert_eq!(webhook.metric("sidecar_injector_configuration_reloads_total{outcome=\"failed\"}"), 1.0);
    let answer = reviewed(&mut webhook.connect(), "/inject", "u1", &pod()).expect("an answer").json();
    assert_eq!(answer["response"]["patchType"], "JSONPatch", "{answer}");
}

#[test]
fn all_addresses_are_those_of_both_families() {
    let webhook = Webhook::start(CONFIG, "", &["--metrics-address", "[::]:0"]);
    let address = webhook.plain();
    // A machine without IPv6 has only the IPv4 address.
    let hosts = if address.is_ipv6() { &["127.0.0.1", "::1"][..] } else { &["127.0.0.1"] };
    for host in hosts {
        assert_eq!(get((*host, address.port()), "/ready").0, 200, "{host}");
    }
}

#[test]
fn a_body_of_any_length_is_answered() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    let most = 6 * 1024 * 1024;
    for (length, status) in [(most, 200), (most + 1, 400), (3 * most, 400)] {
        let response = webhook.connect().send("POST", "/inject", &[JSON], &vec![b' '; length]);
        let response = response.expect("an answer");
        assert_eq!(response.status, status, "{length}: {}", response.text());
        assert_eq!(response.header("connection") == Some("close"), status == 400, "{length}");
    }
    // A chunked body has no known length.
    let mut client = webhook.connect();
    let chunked = [JSON, ("Transfer-Encoding", "chunked")];
    client.write(request_head("POST", "/inject", &chunked, 0).as_bytes()).expect("a head");
    let whole = review(VERSIONS[0], "u1", &json!({ "kind": "Job" })).to_string();
    for part in whole.as_bytes().chunks(7) {
        client.write(format!("{:x}\r\n", part.len()).as_bytes()).expect("a chunk");
        client.write(&[part, b"\r\n"].concat()).expect("a chunk");
    }
    client.write(b"0\r\n\r\n").expect("an end");
    assert_eq!(client.read().expect("an answer").json()["response"]["uid"], "u1");
    // No client reads the answer to a truncated request; the next connection is served.
    let mut client = webhook.connect();
    client.write(request_head("POST", "/inject", &[JSON], 100).as_bytes()).expect("a head");
    drop(client);
    assert_eq!(webhook.get("/ready").status, 200);
}

#[test]
fn invalid_heads_end_only_their_connection() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    let long = request_head("GET", "/ready", &[("X", &"x".repeat(20_000))], 0);
    let many: Vec<(&str, &str)> = vec![("X", "x"); 500];
    let many = request_head("GET", "/ready", &many, 0);
    for (text, status) in [
        ("nonsense\r\n\r\n", Some(400)),
        ("GET /ready HTTP/3.0\r\n\r\n", Some(400)),
        ("POST /inject HTTP/1.1\r\nContent-Length: -1\r\n\r\n", Some(400)),
        (&long, Some(431)),
        (&many, Some(431)),
    ] {
        let mut client = webhook.connect();
        client.write(text.as_bytes()).expect("a head");
        assert_eq!(client.read().ok().map(|response| response.status), status, "{text:.60}");
        assert!(client.is_ended(), "{text:.60}");
    }
    assert_eq!(webhook.get("/ready").status, 200);
}

#[test]
fn slow_clients_are_disconnected_and_delay_no_other() {
    let webhook = Webhook::start(CONFIG, "", &["--timeout", "1"]);
    let mut silent = TcpStream::connect(webhook.address).expect("a connection");
    let mut without_a_head = webhook.connect();
    let (mut half_a_head, mut second_head) = (webhook.connect(), webhook.connect());
    half_a_head.write(b"POST /inject HTTP/1.1\r\nHost:").expect("a part");
    assert_eq!(second_head.send("GET", "/ready", &[], b"").expect("an answer").status, 200);
    second_head.write(b"GET /ready").expect("a part");
    let mut half_a_body = webhook.connect();
    half_a_body.write(request_head("POST", "/inject", &[JSON], 1_000).as_bytes()).expect("a head");
    half_a_body.write(b"{\"kind\":").expect("a part");
    assert_eq!(webhook.get("/ready").status, 200);

    let response = half_a_body.read().expect("an answer");
    assert_eq!((response.status, response.header("connection")), (408, Some("close")));
    assert!(half_a_body.is_ended());
    for (client, what) in [
        (&mut without_a_head, "no head"),
        (&mut half_a_head, "half a head"),
        (&mut second_head, "a second head"),
    ] {
        assert!(client.is_ended(), "{what}");
    }
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0, "a handshake that never begins");
    assert_eq!(webhook.metric("sidecar_injector_handshake_failures_total"), 1.0);
}

#[test]
fn silent_clients_delay_no_other() {
    let webhook = Webhook::start(CONFIG, "", &["--max-connections", "40"]);
    let silent: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(webhook.address).expect("it listens")).collect();
    let start = Instant::now();
    assert_eq!(webhook.get("/ready").status, 200);
    // Clients may be silent for 10 s.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    drop(silent);
    // Incomplete bodies delay nothing either.
    let mut without_a_body: Vec<Client> = (0..60).map(|_| webhook.connect()).collect();
    for client in &mut without_a_body {
        let _ = client.write(request_head("POST", "/inject", &[JSON], 100).as_bytes());
    }
    let mut another: Vec<Client> = (0..40).map(|_| webhook.connect()).collect();
    let answer = reviewed(&mut another[39], "/inject", "u1", &pod()).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        without_a_body.iter_mut().all(|client| client.read().map_or(true, |answer| answer.status == 503))
    );
}

#[test]
fn a_shutdown_interrupts_no_request() {
    let mut webhook = Webhook::start(CONFIG, "", &["--drain", "600"]);
    let body = review(VERSIONS[0], "u1", &json!({ "kind": "Job" })).to_string();
    let begun = |webhook: &Webhook| -> Client {
        let mut client = webhook.connect();
        client.write(request_head("POST", "/inject", &[JSON], body.len()).as_bytes()).expect("a head");
        client.write(&body.as_bytes()[..10]).expect("a part");
        client
    };
    let mut idle = webhook.connect();
    assert_eq!(idle.send("GET", "/ready", &[], b"").expect("an answer").status, 200);
    let mut in_flight = begun(&webhook);
    webhook.signal("TERM");
    webhook.until_line("draining");
    // Not ready, but still serving: the API server may not have noticed yet.
    assert_eq!(webhook.get("/ready").status, 503);
    let late =
        reviewed(&mut webhook.connect(), "/inject", "u2", &json!({ "kind": "Job" })).expect("an answer");
    assert_eq!((late.status, late.header("connection")), (200, Some("close")));
    // The second signal ends the drain.
    webhook.signal("TERM");
    assert!(idle.is_ended());
    while !webhook.refuses() {
        std::thread::yield_now();
    }
    in_flight.write(&body.as_bytes()[10..]).expect("the rest");
    assert_eq!(in_flight.read().expect("an answer").json()["response"]["uid"], "u1");
    assert_eq!(webhook.wait().code(), Some(0));
    let reported: Value = webhook.outcome_of("u1");
    assert_eq!(reported["outcome"], "refused", "{reported}");
}
