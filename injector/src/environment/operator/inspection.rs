//! What the operator tells over HTTP: to its client on the same machine, and to Prometheus.

use super::core::Core;
use super::numbers::Numbers;
use crate::listen::listen;
use crate::logging::Level;
use cluster::slots::Slots;
use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use injection::environment::standing::acting;
use serde_json::{Map, Value, json};
use std::{cell::RefCell, convert::Infallible, io, net::SocketAddr, rc::Rc, time::Duration};
use tokio::{task, time};
use tracing::level_filters::LevelFilter;

/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many clients are served at once: an operator's own, a kubelet and a scraper or two.
const MOST_CONNECTIONS: usize = 64;

/// An answer: its status, its form, its text.
type Reply = (u16, &'static str, String);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// What can be asked.
pub(super) struct Inspection {
    pub(super) core: Rc<RefCell<Core>>,
    pub(super) numbers: Rc<Numbers>,
    pub(super) level: Level,
    /// The one namespace that is looked at; `None` for all.
    pub(super) namespace: Option<String>,
}

impl Inspection {
    /// Answers the operator's client (`/status`, `/version`, `/log`).
    pub(super) fn tell(&self, path: &str, query: Option<&str>) -> Reply {
        match path {
            "/status" => (200, JSON, format!("{:#}\n", self.status())),
            "/version" => {
                let version = json!({"Version": env!("CARGO_PKG_VERSION"), "BuildTime": ""});
                (200, JSON, format!("{version}\n"))
            }
            "/log" => self.log(query.unwrap_or_default()),
            _ => (404, TEXT, "there are /status, /version and /log\n".to_owned()),
        }
    }

    /// Answers Prometheus and the kubelet (`/metrics`, `/healthz`, `/readyz`).
    pub(super) fn count(&self, path: &str) -> Reply {
        match path {
            "/metrics" => (200, "text/plain; version=0.0.4; charset=utf-8", self.numbers.text()),
            "/healthz" => (200, TEXT, "alive\n".to_owned()),
            "/readyz" if self.numbers.is_ready() => (200, TEXT, "ready\n".to_owned()),
            "/readyz" => (503, TEXT, "not all that is watched is known yet\n".to_owned()),
            _ => (404, TEXT, "there are /metrics, /healthz and /readyz\n".to_owned()),
        }
    }

    fn log(&self, query: &str) -> Reply {
        let level = query.split('&').find_map(|part| part.strip_prefix("level="));
        let Some(level) = level else { return (400, TEXT, "parameter \"level\" missing.".to_owned()) };
        let filter = match level {
            "ERROR" => LevelFilter::ERROR,
            "INFO" => LevelFilter::INFO,
            "DEBUG" => LevelFilter::DEBUG,
            _ => {
                return (400, TEXT, format!("invalid level: {level} (should be ERROR, INFO or DEBUG)"));
            }
        };
        self.level.set(filter);
        (200, TEXT, format!("log level changed to {level}"))
    }

    /// One namespace as upstream tells it, or several by their names.
    fn status(&self) -> Value {
        let core = self.core.borrow();
        if let Some(namespace) = &self.namespace {
            return one(&core, namespace);
        }
        let all = core.store().namespaces();
        let told: Map<String, Value> =
            all.into_iter().map(|namespace| (namespace.clone(), one(&core, &namespace))).collect();
        json!({"Namespaces": told})
    }
}

fn one(core: &Core, namespace: &str) -> Value {
    let store = core.store();
    let environments = store.environments(namespace);
    let acting = acting(environments.iter().map(|(one, _)| *one));
    let services = store.services(namespace).into_iter().map(|service| {
        let ports: Vec<u16> =
            service.ports.iter().filter(|port| port.is_http).map(|port| port.number).collect();
        let told = json!({
            "Selectors": service.selector, "Ports": ports, "Gateways": service.gateways, "Hosts": service.hosts,
            "CustomRule": service.rule_text,
        });
        (service.name, told)
    });
    let labels = store.workloads(namespace).into_iter();
    let labels =
        labels.map(|workload| (format!("{}#{}", workload.kind, workload.name), json!(workload.labels)));
    json!({
        "VirtualEnv": acting.map(|one| json!({"Namespace": one.namespace, "Name": one.name})),
        "Services": services.collect::<Map<String, Value>>(),
        "Labels": labels.collect::<Map<String, Value>>(),
    })
}

/// Serves answers as long as the runtime lives. Says where.
///
/// # Errors
/// When the address can't be listened on.
pub(super) fn serve(
    flag: &str,
    address: SocketAddr,
    answer: impl Fn(&str, Option<&str>) -> Reply + Clone + 'static,
) -> Result<SocketAddr, String> {
    let failed = |error: io::Error| format!("{flag} {address}: can't be listened on: {error}");
    let listener = listen(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let slots = Slots::new(MOST_CONNECTIONS);
    task::spawn_local(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // No file descriptors are left, as far as one can tell: wait for some.
                slots.close_idle();
                time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let answer = answer.clone();
            let slot = Rc::new(slots.take().await);
            let answering = Rc::clone(&slot);
            let service = service_fn(move |request: Request<_>| {
                answering.asked();
                let reply = reply(&request, &answer);
                async move { Ok::<_, Infallible>(reply) }
            });
            // A client that goes away is no trouble of ours.
            let connection =
                http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
            task::spawn_local(async move {
                tokio::select! {
                    () = slot.wanted() => {}
                    _ = time::timeout(PATIENCE, connection) => {}
                }
            });
        }
    });
    Ok(bound)
}

fn reply<B>(request: &Request<B>, answer: &impl Fn(&str, Option<&str>) -> Reply) -> Response<Full<Bytes>> {
    let (status, form, text) = match request.method().as_str() {
        "GET" => answer(request.uri().path(), request.uri().query()),
        other => (405, TEXT, format!("{other} is not answered here; expected GET\n")),
    };
    let response = Response::builder().status(status).header("Content-Type", form);
    response.body(Full::new(Bytes::from(text))).expect("a status and a header that HTTP knows")
}
