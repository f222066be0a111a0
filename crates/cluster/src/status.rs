//! Plain HTTP server of a program's status pages: `/metrics`, `/healthz`, `/readyz`, and the program's own. Requests have no
//! body, each answer closes its connection, and slow or silent clients are disconnected.

use crate::listen::listen;
use crate::slots::{Slot, Slots};
use http::header::{ALLOW, CONTENT_TYPE};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::{Metric, Registry};
use std::{convert::Infallible, net::SocketAddr, rc::Rc, sync::Weak, time::Duration};
use tokio::{net::TcpStream, task, time};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent clients: a kubelet, a few scrapers, and a program's own client.
const MAX_CONNECTIONS: usize = 64;

pub type Reply = Response<Full<Bytes>>;

pub const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    reply
}

pub fn refuse_method(method: &Method) -> Option<Reply> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let text = format!("{method} is not supported; expected GET\n");
    let mut reply = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
    reply.headers_mut().insert(ALLOW, http::HeaderValue::from_static("GET, HEAD"));
    Some(reply)
}

/// Registers a metric. The registry appends a full stop to help texts, and `_total` to counter names.
pub fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

pub fn metrics(registry: &Registry) -> Reply {
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => reply(StatusCode::OK, OPEN_METRICS, text),
        Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
    }
}

/// Serves `/metrics`, `/healthz` and `/readyz`. The program is ready once `blocker`, the reason to wait, is dropped.
pub fn serve_pages(
    flag: &str,
    address: SocketAddr,
    registry: Registry,
    blocker: Weak<str>,
) -> Result<SocketAddr, String> {
    let registry = Rc::new(registry);
    serve(flag, address, move |path, _| match (path, blocker.upgrade()) {
        ("/metrics", _) => metrics(&registry),
        ("/healthz", _) => reply(StatusCode::OK, TEXT, "alive\n"),
        ("/readyz", None) => reply(StatusCode::OK, TEXT, "ready\n"),
        ("/readyz", Some(reason)) => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{reason}\n")),
        _ => reply(StatusCode::NOT_FOUND, TEXT, "not found; paths are /metrics, /healthz and /readyz\n"),
    })
}

/// Serves GET requests on the thread's `LocalSet`. Returns the bound address; fails if the address from `flag` is unusable.
pub fn serve(
    flag: &str,
    address: SocketAddr,
    answer: impl Fn(&str, Option<&str>) -> Reply + Clone + 'static,
) -> Result<SocketAddr, String> {
    let listener = listen(flag, address)?;
    let address = listener.local_addr().unwrap_or(address);
    let slots = Slots::new(MAX_CONNECTIONS);
    task::spawn_local(async move {
        loop {
            let (stream, slot) = slots.accept(&listener).await;
            task::spawn_local(answer_one(stream, slot, answer.clone()));
        }
    });
    Ok(address)
}

async fn answer_one(stream: TcpStream, slot: Slot, answer: impl Fn(&str, Option<&str>) -> Reply) {
    let slot = Rc::new(slot);
    let answering = Rc::clone(&slot);
    let service = service_fn(move |request: Request<Incoming>| {
        answering.begin_request();
        let uri = request.uri();
        let reply = refuse_method(request.method()).unwrap_or_else(|| answer(uri.path(), uri.query()));
        // From here on, the client decides how long the connection stays open.
        answering.end_request(false);
        async move { Ok::<_, Infallible>(reply) }
    });
    let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    // Errors are ignored: clients may disconnect early.
    tokio::select! {
        () = slot.evicted() => {}
        _ = time::timeout(TIMEOUT, connection) => {}
    }
}
