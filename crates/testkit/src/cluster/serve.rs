//! Serves a client's requests in order, injected faults first; also lists and watches.

use super::{
    authorization::{self, User},
    kinds::{Kind, Target},
    refusal::Refusal,
    state::{Fault, Happening, Shared, text},
    write,
};
use crate::http::{Connection, Request, answer, chunk, head};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    net::TcpStream,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

pub(crate) fn connection(stream: TcpStream, config: Arc<ServerConfig>, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let tls = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut connection = StreamOwned::new(tls, stream);
    while let Some(request) = Request::read(&mut connection)? {
        one(&mut connection, &request, shared)?;
    }
    Ok(())
}

fn one(connection: &mut Connection, request: &Request, shared: &Shared) -> io::Result<()> {
    let (target, discovery) = {
        let state = shared.state();
        (state.kinds.target(&request.path), state.kinds.discovery(&request.path))
    };
    let Some(user) = user(connection, request, shared) else {
        shared.state().unauthorized += 1;
        let message = "Unauthorized".to_owned();
        return refuse(connection, &Refusal { code: 401, reason: "Unauthorized", message });
    };
    if let Some(discovery) = discovery {
        return answer(connection, 200, &discovery.to_string());
    }
    let Some(target) = target else {
        let message = "the server could not find the requested resource".to_owned();
        return refuse(connection, &Refusal { code: 404, reason: "NotFound", message });
    };
    let Some(access) = target.access(request) else {
        let message = format!("{} is not supported there", request.method);
        return refuse(connection, &Refusal { code: 405, reason: "MethodNotAllowed", message });
    };
    let verb = access.verb;
    let (fault, forbidden) = {
        let mut state = shared.state();
        let forbidden = authorization::refusal(&state, &user, &access);
        let fault = state.take_fault(&access);
        state.requests.push((access, request.clone()));
        (fault, forbidden)
    };
    shared.changed.notify_all();
    if let Some(message) = forbidden {
        return refuse(connection, &Refusal { code: 403, reason: "Forbidden", message });
    }
    match fault {
        Some(Fault::Slow(time)) => thread::sleep(time),
        Some(Fault::Hang) => loop {
            thread::park();
        },
        Some(Fault::Refuse(code)) => {
            let reason = match code {
                401 => "Unauthorized",
                403 => "Forbidden",
                404 => "NotFound",
                409 => "Conflict",
                410 => "Expired",
                429 => "TooManyRequests",
                _ => "InternalError",
            };
            return refuse(connection, &Refusal { code, reason, message: "refused by a test".to_owned() });
        }
        Some(Fault::Lie(text)) => return answer(connection, 200, text),
        Some(Fault::Cut) => {
            connection.write_all(head(200, Some(1_000)).as_bytes())?;
            connection.write_all(b"{\"kind\": \"List\", \"items\": [{\"metad")?;
            connection.flush()?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Some(Fault::Gone) => {
            connection.write_all(head(200, None).as_bytes())?;
            chunk(connection, &format!("{}\n", gone()))?;
            return chunk(connection, "");
        }
        Some(Fault::Meanwhile(done)) => {
            let mut state = shared.state();
            done(&mut state);
            state.collect();
            drop(state);
            shared.changed.notify_all();
        }
        Some(Fault::Lost) | None => {}
    }
    let done = match verb {
        "list" => list(request, &target, shared),
        "watch" => return watch(connection, request, &target, shared),
        "get" => write::get(&target, shared),
        "create" if target.kind.group == "authorization.k8s.io" => {
            authorization::review(&shared.state(), &user, request, &target.kind)
        }
        "create" => write::create(request, &target, shared),
        "update" => write::update(request, &target, shared),
        "patch" => write::patch(request, &target, shared),
        _ => write::delete(request, &target, shared),
    };
    shared.state().collect();
    shared.changed.notify_all();
    if matches!(fault, Some(Fault::Lost)) {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    match done {
        Ok((status, object)) => answer(connection, status, &shaped(request, object).to_string()),
        Err(refusal) => refuse(connection, &refusal),
    }
}

/// The client, identified by token or by the authority's certificate.
fn user(connection: &Connection, request: &Request, shared: &Shared) -> Option<User> {
    match request.header("authorization").and_then(|given| given.strip_prefix("Bearer ")) {
        Some(token) => authorization::of_token(&shared.state(), token),
        None => connection.conn.peer_certificates().map(|_| User::Administrator),
    }
}

fn refuse(connection: &mut Connection, refusal: &Refusal) -> io::Result<()> {
    let Refusal { code, reason, message } = refusal;
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code });
    answer(connection, *code, &status.to_string())
}

fn gone() -> Value {
    json!({ "type": "ERROR", "object": { "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410 } })
}

fn shaped(request: &Request, object: Value) -> Value {
    if !request.header("accept").is_some_and(|accept| accept.contains("as=PartialObjectMetadata")) {
        return object;
    }
    if let Some(items) = object["items"].as_array() {
        let items: Vec<Value> = items.iter().map(|item| shaped(request, item.clone())).collect();
        return json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"], "items": items });
    }
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"] })
}

fn is_selected(request: &Request, target: &Target, object: &Value) -> bool {
    let in_namespace = target.namespace.is_empty() || object["metadata"]["namespace"] == target.namespace;
    let terms = |name: &str| {
        let terms = request.parameter(name).unwrap_or_default().split(',');
        terms.filter(|term| !term.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let by_field = terms("fieldSelector").iter().all(|term| {
        let (path, value) = term.split_once('=').expect("an equation");
        let pointer = format!("/{}", path.trim_end_matches('!').replace('.', "/"));
        let is = object.pointer(&pointer).and_then(Value::as_str).unwrap_or_default()
            == value.trim_start_matches('=');
        is != path.ends_with('!')
    });
    let labels = &object["metadata"]["labels"];
    let by_label = terms("labelSelector").iter().all(|term| match term.split_once('=') {
        Some((key, value)) if key.ends_with('!') => labels[key.trim_end_matches('!')] != value,
        Some((key, value)) => labels[key] == value.trim_start_matches('='),
        None => match term.strip_prefix('!') {
            Some(key) => labels[key].is_null(),
            None => !labels[term.as_str()].is_null(),
        },
    });
    in_namespace && by_field && by_label
}

/// A list or a page: the `continue` token has the last item and version, which must be in the history.
fn list(request: &Request, target: &Target, shared: &Shared) -> Result<(u16, Value), Refusal> {
    let state = shared.state();
    let token = request.parameter("continue").map(|token| {
        let (version, after) = token.split_once(' ').expect("a token of this server");
        let (namespace, name) = after.split_once('/').expect("a token of this server");
        (version.parse::<u64>().expect("a token of this server"), (namespace, name))
    });
    if token.is_some_and(|(version, _)| version < state.oldest) {
        let message = "the provided continue parameter is too old".to_owned();
        return Err(Refusal { code: 410, reason: "Expired", message });
    }
    let is_left = |object: &Value| {
        token.is_none_or(|(_, after)| (text(object, "namespace"), text(object, "name")) > after)
    };
    let mut items: Vec<&Value> = state
        .list(&target.kind, &target.namespace)
        .filter(|object| is_left(object) && is_selected(request, target, object))
        .collect();
    let version = token.map_or(state.version, |(version, _)| version);
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    // Lists from the real server's cache have no pages.
    let limit = request.parameter("limit").filter(|_| request.parameter("resourceVersion") != Some("0"));
    let limit = limit.and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    if items.len() > limit {
        items.truncate(limit);
        let last = items[limit - 1];
        metadata["continue"] = format!("{version} {}/{}", text(last, "namespace"), text(last, "name")).into();
    }
    Ok((
        200,
        json!({ "kind": format!("{}List", target.kind.kind), "apiVersion": target.kind.api_version(),
        "metadata": metadata, "items": items }),
    ))
}

fn watch(connection: &mut Connection, request: &Request, target: &Target, shared: &Shared) -> io::Result<()> {
    let number = |name: &str| request.parameter(name).and_then(|text| text.parse::<u64>().ok());
    let mut seen = number("resourceVersion").unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(number("timeoutSeconds").unwrap_or(300));
    let bookmarks = request.parameter("allowWatchBookmarks") == Some("true");
    connection.write_all(head(200, None).as_bytes())?;
    connection.flush()?;
    let cuts = shared.state().cuts;
    let mut lines = String::new();
    if seen == 0 {
        // Without a version, a watch starts with all existing objects.
        let state = shared.state();
        for object in state.list(&target.kind, &target.namespace) {
            if is_selected(request, target, object) {
                lines += &line(request, "ADDED", object);
            }
        }
        seen = state.version;
    }
    loop {
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
        let from = seen;
        for happening in state.log.iter().filter(|happening| happening.version > from) {
            lines += &event_line(request, target, happening, bookmarks).unwrap_or_default();
            seen = happening.version;
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
            chunk(connection, &std::mem::take(&mut lines))?;
        }
    }
}

fn line(request: &Request, type_: &str, object: &Value) -> String {
    format!("{}\n", json!({ "type": type_, "object": shaped(request, object.clone()) }))
}

/// A watch's line for an event: an object that no longer matches the selector counts as deleted.
fn event_line(request: &Request, target: &Target, happening: &Happening, bookmarks: bool) -> Option<String> {
    let Some((group, plural)) = &happening.plural else {
        let version = happening.version.to_string();
        return bookmarks.then(|| line(request, "BOOKMARK", &mark(&target.kind, &version)));
    };
    (*group == target.kind.group && *plural == target.kind.plural).then_some(())?;
    let selected = |object: &&Value| is_selected(request, target, object);
    let (before, after) =
        (happening.before.as_ref().filter(selected), happening.after.as_ref().filter(selected));
    let (type_, object) = match (before, after) {
        (None, None) => return None,
        (None, Some(now)) => ("ADDED", now.clone()),
        (Some(_), Some(now)) => ("MODIFIED", now.clone()),
        (Some(old), None) => {
            let mut last = old.clone();
            last["metadata"]["resourceVersion"] = happening.version.to_string().into();
            ("DELETED", last)
        }
    };
    Some(line(request, type_, &object))
}

fn mark(kind: &Kind, version: &str) -> Value {
    json!({ "kind": kind.kind, "apiVersion": kind.api_version(),
        "metadata": { "resourceVersion": version, "creationTimestamp": null } })
}
