//! HTTP/2, the API server's choice: many requests over one connection, each with its limits, and a shutdown that interrupts none.

use super::client::{pod, review};
use super::webhook::{CONFIG, Webhook};
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    Request,
    body::{Bytes, Frame},
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc, time::Duration};
use testkit::wait::TIMEOUT;
use tokio::{
    net::TcpStream,
    runtime::{Builder, Runtime},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;

type Body = BoxBody<Bytes, Infallible>;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

async fn connect(webhook: &Webhook) -> (SendRequest<Body>, JoinHandle<hyper::Result<()>>) {
    let mut config = (*webhook.trust(rustls::DEFAULT_VERSIONS)).clone();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(webhook.address).await.expect("it listens");
    let name = ServerName::from(webhook.address.ip());
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "the server prefers HTTP/2");
    let spoken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = spoken.expect("HTTP/2");
    (sender, tokio::spawn(connection))
}

fn request(path: &str, body: Body) -> Request<Body> {
    let request = Request::post(format!("https://webhook{path}?timeout=100s"))
        .header("Content-Type", "application/json");
    request.body(body).expect("a request")
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).boxed()
}

fn parts() -> (UnboundedSender<String>, Body) {
    let (sender, mut parts) = unbounded_channel::<String>();
    let parts = stream::poll_fn(move |context| parts.poll_recv(context));
    let frames = parts.map(|part| Ok(Frame::data(Bytes::from(part))));
    (sender, BodyExt::boxed(StreamBody::new(frames)))
}

async fn answer(sender: &mut SendRequest<Body>, request: Request<Body>) -> (u16, String) {
    let answered = timeout(TIMEOUT, sender.send_request(request)).await.expect("in time");
    let answered = answered.expect("an answer");
    assert!(!answered.headers().contains_key("connection"), "HTTP/2 has no such header");
    let status = answered.status().as_u16();
    let body = answered.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("UTF-8"))
}

fn uid(answer: &(u16, String)) -> String {
    assert_eq!(answer.0, 200, "{}", answer.1);
    let given: Value = serde_json::from_str(&answer.1).expect("JSON");
    given["response"]["uid"].as_str().expect("a UID").to_owned()
}

fn requested(uid: &str) -> Request<Body> {
    request("/inject", full(review("admission.k8s.io/v1", uid, &pod()).to_string()))
}

async fn ends(connection: JoinHandle<hyper::Result<()>>) {
    let ended = timeout(TIMEOUT, connection).await.expect("it ends in time").expect("no panic");
    ended.expect("it ends as agreed");
}

#[test]
fn many_reviews_share_one_connection() {
    let webhook = Webhook::start(CONFIG, "", &["--max-connections", "1"]);
    runtime().block_on(async {
        let (sender, connection) = connect(&webhook).await;
        let all = (0..100).map(|number| {
            let mut sender = sender.clone();
            async move {
                let expected = format!("u{number}");
                assert_eq!(uid(&answer(&mut sender, requested(&expected)).await), expected);
            }
        });
        futures::future::join_all(all).await;
        // Another connection evicts the idle one.
        let (mut other, _open) = connect(&webhook).await;
        assert_eq!(uid(&answer(&mut other, requested("u100")).await), "u100");
        ends(connection).await;
    });
    assert_eq!(webhook.metric("sidecar_injection_success_total"), 101.0);
    assert_eq!(webhook.metric("sidecar_injector_handshake_failures_total"), 0.0);
}

#[test]
fn a_request_beyond_a_limit_affects_no_other_of_its_connection() {
    let webhook = Webhook::start(CONFIG, "", &["--timeout", "3"]);
    runtime().block_on(async {
        let (mut sender, _connection) = connect(&webhook).await;
        let mut long = requested("u1");
        long.headers_mut().insert("x", "x".repeat(20_000).parse().expect("a value"));
        assert_eq!(answer(&mut sender, long).await.0, 431);
        assert_eq!(uid(&answer(&mut sender, requested("u2")).await), "u2");

        let (slow, body) = parts();
        slow.send("{".to_owned()).expect("a part");
        let mut other = sender.clone();
        let late = tokio::spawn(async move { answer(&mut other, request("/inject", body)).await });
        assert_eq!(uid(&answer(&mut sender, requested("u3")).await), "u3");
        let (status, text) = late.await.expect("no panic");
        assert_eq!(status, 408, "{text}");

        let (mut sender, _connection) = connect(&webhook).await;
        let (status, text) = answer(&mut sender, request("/inject", full(" ".repeat(7 << 20)))).await;
        assert_eq!(status, 400, "{text}");
    });
    assert_eq!(webhook.get("/ready").status, 200);
}

#[test]
fn a_silent_connection_is_closed() {
    let webhook = Webhook::start(CONFIG, "", &["--timeout", "3"]);
    runtime().block_on(async {
        let (_sender, connection) = connect(&webhook).await;
        ends(connection).await;
    });
}

#[test]
fn a_shutdown_interrupts_no_request() {
    let mut webhook = Webhook::start(CONFIG, "", &["--drain", "600"]);
    runtime().block_on(async {
        let (mut idle, idle_connection) = connect(&webhook).await;
        assert_eq!(uid(&answer(&mut idle, requested("u1")).await), "u1");
        let (mut sender, connection) = connect(&webhook).await;
        let (rest, body) = parts();
        let whole = review("admission.k8s.io/v1", "u2", &json!({ "kind": "Job" })).to_string();
        let (start, end) = whole.split_at(whole.len() / 2);
        rest.send(start.to_owned()).expect("a part");
        let in_flight = tokio::spawn(async move { answer(&mut sender, request("/inject", body)).await });
        // Once this is answered, u2's first half has been read.
        assert_eq!(uid(&answer(&mut idle, requested("u3")).await), "u3");
        tokio::time::sleep(Duration::from_millis(300)).await;

        webhook.signal("TERM");
        webhook.until_line("draining");
        // Each answer now closes its connection.
        let (mut late, late_connection) = connect(&webhook).await;
        assert_eq!(uid(&answer(&mut late, requested("u4")).await), "u4");
        ends(late_connection).await;
        webhook.signal("TERM");
        ends(idle_connection).await;
        rest.send(end.to_owned()).expect("the rest");
        drop(rest);
        assert_eq!(uid(&in_flight.await.expect("no panic")), "u2");
        ends(connection).await;
    });
    assert_eq!(webhook.wait().code(), Some(0));
}
