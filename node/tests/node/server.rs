//! A server that plays the API server of Kubernetes, as far as pods of a node and events go: over HTTPS, with versions,
//! watches, bookmarks, preconditions, content types and refusals as the real one has them, and with faults on demand.

use super::certificates::Authority;
use super::http::{Connection, Request, answer, chunk, head};
use super::writes::{delete, patch};
use rustls::{ServerConfig, ServerConnection, StreamOwned, server::WebPkiClientVerifier};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

/// A kind of request, by the verb that a role allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Access {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) verb: &'static str,
}

/// What goes wrong with the next request of a verb.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It is answered late.
    Slow(Duration),
    /// It is never answered.
    Hang,
    /// It is answered by this status.
    Refuse(u16),
    /// It is answered by this text.
    Lie(&'static str),
    /// Its answer ends in the middle.
    Cut,
    /// The version that it asks for is said to be too old.
    Gone,
}

/// What the server knows.
#[derive(Default)]
pub(crate) struct State {
    version: u64,
    /// Versions up to this one are forgotten.
    oldest: u64,
    pub(crate) pods: BTreeMap<(String, String), Value>,
    /// What happened, for watches.
    log: Vec<(u64, Value)>,
    /// How often all watches were cut.
    cuts: u64,
    pub(crate) faults: Vec<(&'static str, Fault)>,
    /// Who may ask; anybody if there is none.
    pub(crate) token: Option<String>,
    pub(crate) requests: Vec<(Access, Request)>,
    pub(crate) events: Vec<Value>,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Authority,
    shared: Arc<Shared>,
}

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) changed: Condvar,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test has failed inside")
    }
}

impl Server {
    /// Starts one; `asks_for_certificates` lets in only clients that have one.
    pub(crate) fn start(asks_for_certificates: bool) -> Self {
        let authority = Authority::new("authority");
        let (certificate, key) = authority.server();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let builder = if asks_for_certificates {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(authority.certificate()).expect("a certificate");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let config = Arc::new(builder.with_single_cert(vec![certificate], key).expect("a configuration"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let server = Self { address, authority, shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, shared) = (Arc::clone(&config), Arc::clone(&shared));
                // A connection that the client ends is no fault of ours.
                thread::spawn(move || serve(stream, config, &shared));
            }
        });
        server
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// A pod comes, or is changed, as by the kubelet.
    pub(crate) fn put(&self, pod: Value) {
        self.state().put(pod);
        self.shared.changed.notify_all();
    }

    pub(crate) fn remove(&self, namespace: &str, name: &str) {
        self.state().remove(namespace, name);
        self.shared.changed.notify_all();
    }

    /// All open watches end in the middle of a line.
    pub(crate) fn cut(&self) {
        self.state().cuts += 1;
        self.shared.changed.notify_all();
    }

    /// Tells watches how far they have come.
    pub(crate) fn bookmark(&self) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        let object = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": {
            "resourceVersion": version.to_string(), "creationTimestamp": null } });
        state.log.push((version, json!({ "type": "BOOKMARK", "object": object })));
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Forgets the past: what has not come further has to list again.
    pub(crate) fn compact(&self) {
        let mut state = self.state();
        state.oldest = state.version;
        state.log.clear();
    }

    /// How many requests of a verb there were.
    pub(crate) fn count(&self, verb: &str) -> usize {
        self.state().requests.iter().filter(|(access, _)| access.verb == verb).count()
    }
}

impl State {
    pub(super) fn put(&mut self, mut pod: Value) -> Value {
        self.version += 1;
        pod["metadata"]["resourceVersion"] = self.version.to_string().into();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        let known = self.pods.insert(key(&pod), pod.clone());
        let type_ = if known.is_some() { "MODIFIED" } else { "ADDED" };
        self.log.push((self.version, json!({ "type": type_, "object": pod })));
        pod
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<Value> {
        let mut pod = self.pods.remove(&(namespace.to_owned(), name.to_owned()))?;
        self.version += 1;
        pod["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.log.push((self.version, json!({ "type": "DELETED", "object": pod })));
        Some(pod)
    }

    /// Something happens on another node, of which our watch hears nothing.
    pub(crate) fn happen_elsewhere(&mut self) {
        self.version += 1;
    }

    fn fault(&mut self, verb: &str) -> Option<Fault> {
        let at = self.faults.iter().position(|(of, _)| *of == verb)?;
        Some(self.faults.remove(at).1)
    }
}

fn key(pod: &Value) -> (String, String) {
    let text = |name: &str| pod["metadata"][name].as_str().expect("a text").to_owned();
    (text("namespace"), text("name"))
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, shared: &Shared) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut connection = StreamOwned::new(connection, stream);
    while let Some(request) = Request::read(&mut connection)? {
        one(&mut connection, &request, shared)?;
    }
    Ok(())
}

fn one(connection: &mut Connection, request: &Request, shared: &Shared) -> io::Result<()> {
    let Some(access) = access(request) else { return refuse(connection, 404) };
    let verb = access.verb;
    let (fault, known) = {
        let mut state = shared.state();
        let bearer = state.token.as_ref().map(|token| format!("Bearer {token}"));
        state.requests.push((access, request.clone()));
        let known = bearer.is_none() || bearer.as_deref() == request.header("authorization");
        (state.fault(verb), known)
    };
    match fault {
        _ if !known => return refuse(connection, 401),
        Some(Fault::Slow(time)) => thread::sleep(time),
        Some(Fault::Hang) => loop {
            thread::park();
        },
        Some(Fault::Refuse(status)) => return refuse(connection, status),
        Some(Fault::Lie(text)) => return answer(connection, 200, text),
        Some(Fault::Cut) => {
            connection.write_all(head(200, Some(1_000)).as_bytes())?;
            connection.write_all(b"{\"kind\": \"PodList\", \"items\": [{\"metad")?;
            connection.flush()?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Some(Fault::Gone) => {
            connection.write_all(head(200, None).as_bytes())?;
            chunk(connection, &format!("{}\n", gone()))?;
            return chunk(connection, "");
        }
        None => {}
    }
    let namespace =
        request.path.split('/').skip_while(|part| *part != "namespaces").nth(1).unwrap_or_default();
    let name = request.path.rsplit('/').next().unwrap_or_default();
    match verb {
        "list" => list(connection, request, shared),
        "watch" => watch(connection, request, shared),
        "get" => {
            let pod = shared.state().pods.get(&(namespace.to_owned(), name.to_owned())).map(Value::to_string);
            match pod {
                Some(pod) => answer(connection, 200, &pod),
                None => refuse(connection, 404),
            }
        }
        "create" => {
            let event: Value = serde_json::from_slice(&request.body).map_err(io::Error::other)?;
            shared.state().events.push(event.clone());
            answer(connection, 201, &event.to_string())
        }
        "patch" => patch(connection, request, shared, namespace, name),
        _ => delete(connection, request, shared, namespace, name),
    }
}

/// What a role has to allow for a request; `None` for what we don't play.
fn access(request: &Request) -> Option<Access> {
    let parts: Vec<&str> = request.path.split('/').skip(1).collect();
    let (group, resource, is_one) = match parts[..] {
        ["api", "v1", "pods"] => ("", "pods", false),
        ["api", "v1", "namespaces", _, "pods", _] => ("", "pods", true),
        ["apis", "events.k8s.io", "v1", "namespaces", _, "events"] => ("events.k8s.io", "events", false),
        ["apis", "events.k8s.io", "v1", "namespaces", _, "events", _] => ("events.k8s.io", "events", true),
        _ => return None,
    };
    let verb = match (&*request.method, is_one) {
        ("GET", false) if request.parameter("watch") == Some("true") => "watch",
        ("GET", false) => "list",
        ("GET", true) => "get",
        ("POST", false) => "create",
        ("PATCH", true) => "patch",
        ("DELETE", true) => "delete",
        _ => return None,
    };
    Some(Access { group, resource, verb })
}

pub(super) fn refuse(connection: &mut Connection, code: u16) -> io::Result<()> {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "no", "reason": "No", "code": code });
    answer(connection, code, &status.to_string())
}

fn gone() -> Value {
    json!({ "type": "ERROR", "object": { "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410 } })
}

fn is_selected(request: &Request, pod: &Value) -> bool {
    let node =
        request.parameter("fieldSelector").and_then(|selector| selector.strip_prefix("spec.nodeName="));
    node.is_none_or(|node| pod["spec"]["nodeName"] == node)
}

fn list(connection: &mut Connection, request: &Request, shared: &Shared) -> io::Result<()> {
    let body = {
        let state = shared.state();
        let items: Vec<&Value> = state.pods.values().filter(|pod| is_selected(request, pod)).collect();
        json!({ "kind": "PodList", "apiVersion": "v1",
            "metadata": { "resourceVersion": state.version.to_string() }, "items": items })
    };
    answer(connection, 200, &body.to_string())
}

fn watch(connection: &mut Connection, request: &Request, shared: &Shared) -> io::Result<()> {
    let number = |name: &str| request.parameter(name).and_then(|text| text.parse::<u64>().ok());
    let mut seen = number("resourceVersion").unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(number("timeoutSeconds").unwrap_or(60));
    let bookmarks = request.parameter("allowWatchBookmarks") == Some("true");
    connection.write_all(head(200, None).as_bytes())?;
    let cuts = shared.state().cuts;
    loop {
        let (from, mut lines) = (seen, String::new());
        let mut state = shared.state();
        if seen < state.oldest {
            drop(state);
            chunk(connection, &format!("{}\n", gone()))?;
            return chunk(connection, "");
        }
        if state.cuts > cuts {
            drop(state);
            chunk(connection, "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Po")?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        for (version, event) in state.log.iter().filter(|(version, _)| *version > from) {
            let is_bookmark = event["type"] == "BOOKMARK";
            if if is_bookmark { bookmarks } else { is_selected(request, &event["object"]) } {
                lines += &format!("{event}\n");
            }
            seen = *version;
        }
        if lines.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                return chunk(connection, "");
            }
            state = shared.changed.wait_timeout(state, left).expect("no test has failed inside").0;
            drop(state);
        } else {
            drop(state);
            chunk(connection, &lines)?;
        }
    }
}
