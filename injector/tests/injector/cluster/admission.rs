//! The calls of mutating webhooks, as the API server makes them when an object is created: by the selectors and rules of
//! each configuration, in the order of their names, over TLS that `caBundle` has to vouch for.

use super::{
    kinds::Target,
    state::{Shared, State, text},
    write::Refusal,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

/// A webhook that is to be called.
pub(super) struct Called {
    webhook: Value,
    /// Where its Service leads; none if nobody serves it.
    address: Option<SocketAddr>,
}

/// The webhooks that are called for an object that is created.
pub(super) fn matching(state: &State, object: &Value, target: &Target) -> Vec<Called> {
    if target.kind.group == "admissionregistration.k8s.io" {
        return Vec::new();
    }
    let nothing = json!({});
    let namespace = state.find("namespaces", "", &target.namespace).unwrap_or(&nothing);
    let configurations = state.all("mutatingwebhookconfigurations");
    let webhooks = configurations.flat_map(|configuration| configuration["webhooks"].as_array()).flatten();
    let called = webhooks.filter(|webhook| {
        is_asked(webhook, target)
            && selects(&webhook["namespaceSelector"], &namespace["metadata"]["labels"])
            && selects(&webhook["objectSelector"], &object["metadata"]["labels"])
    });
    called
        .map(|webhook| {
            let service = &webhook["clientConfig"]["service"];
            let name = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
            let address = state.services.get(&(name("namespace"), name("name"))).copied();
            Called { webhook: webhook.clone(), address }
        })
        .collect()
}

/// Whether a rule of a webhook is about creating such an object.
fn is_asked(webhook: &Value, target: &Target) -> bool {
    let kind = &target.kind;
    webhook["rules"].as_array().into_iter().flatten().any(|rule| {
        let has = |field: &str, value: &str| {
            rule[field].as_array().into_iter().flatten().any(|item| item == value || item == "*")
        };
        has("operations", "CREATE")
            && has("apiGroups", &kind.group)
            && has("apiVersions", &kind.version)
            && has("resources", &kind.plural)
    })
}

/// Whether a label selector takes these labels.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut asked = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.clone().all(|(key, value)| labels[key] == *value)
        && asked.all(|ask| {
            let label = &labels[ask["key"].as_str().expect("a key")];
            let listed = ask["values"].as_array().is_some_and(|values| values.contains(label));
            match ask["operator"].as_str() {
                Some("In") => listed,
                Some("NotIn") => !listed,
                Some("Exists") => !label.is_null(),
                Some("DoesNotExist") => label.is_null(),
                other => panic!("no operator: {other:?}"),
            }
        })
}

/// Calls them one after the other, and those that want it once more if the object has changed since.
pub(super) fn call(
    mut object: Value,
    webhooks: &[Called],
    target: &Target,
    dry: bool,
    shared: &Shared,
) -> Result<Value, Refusal> {
    let mut seen = Vec::new();
    for called in webhooks {
        object = one(object, called, target, dry, shared)?;
        seen.push(object.clone());
    }
    for (called, seen) in webhooks.iter().zip(seen) {
        if called.webhook["reinvocationPolicy"] == "IfNeeded" && seen != object {
            object = one(object, called, target, dry, shared)?;
        }
    }
    Ok(object)
}

fn one(
    object: Value,
    called: &Called,
    target: &Target,
    dry: bool,
    shared: &Shared,
) -> Result<Value, Refusal> {
    let webhook = &called.webhook;
    let name = webhook["name"].as_str().expect("a name").to_owned();
    let version = webhook["admissionReviewVersions"][0].as_str().expect("a version");
    let kind = &target.kind;
    let uid = {
        let mut state = shared.state();
        state.version += 1;
        format!("00000000-0000-4000-9000-{:012}", state.version)
    };
    let review = json!({ "apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview",
        "request": { "uid": uid, "operation": "CREATE", "dryRun": dry, "namespace": target.namespace,
            "name": text(&object, "name"), "object": object, "oldObject": null, "options": null,
            "kind": { "group": kind.group, "version": kind.version, "kind": kind.kind },
            "resource": { "group": kind.group, "version": kind.version, "resource": kind.plural },
            "userInfo": { "username": "tester", "groups": ["system:authenticated"] } } });
    shared.state().reviews.push((name.clone(), review.clone()));
    let failed = |why: String| Refusal {
        code: 500,
        reason: "InternalError",
        message: format!("Internal error occurred: failed calling webhook {name:?}: {why}"),
    };
    let answered = post(called, &review).and_then(|body| read(&body, &uid, &review));
    let response = match answered {
        Ok(response) => response,
        Err(_) if webhook["failurePolicy"] == "Ignore" => return Ok(object),
        Err(error) => return Err(failed(error.to_string())),
    };
    if response["allowed"] != true {
        let message = response["status"]["message"].as_str().unwrap_or("without explanation");
        let message = format!("admission webhook {name:?} denied the request: {message}");
        return Err(Refusal { code: 400, reason: "BadRequest", message });
    }
    let Some(patch) = response["patch"].as_str() else { return Ok(object) };
    let patched = || {
        let bytes = STANDARD.decode(patch).map_err(|error| error.to_string())?;
        let patch: json_patch::Patch = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let mut object = object;
        json_patch::patch(&mut object, &patch).map_err(|error| error.to_string())?;
        Ok(object)
    };
    patched().map_err(failed)
}

/// The response within a review that answers ours.
fn read(body: &[u8], uid: &str, asked: &Value) -> io::Result<Value> {
    let review: Value = serde_json::from_slice(body)?;
    let response = &review["response"];
    let same = review["apiVersion"] == asked["apiVersion"] && review["kind"] == asked["kind"];
    if !same
        || response["uid"] != uid
        || (response["patch"].is_string() && response["patchType"] != "JSONPatch")
    {
        return Err(io::Error::other(format!("expected a response to {uid}, got {review}")));
    }
    Ok(response.clone())
}

fn post(called: &Called, review: &Value) -> io::Result<Vec<u8>> {
    let client = &called.webhook["clientConfig"];
    let service = &client["service"];
    let (name, namespace) = (service["name"].as_str(), service["namespace"].as_str());
    let host = format!("{}.{}.svc", name.unwrap_or_default(), namespace.unwrap_or_default());
    let address = called.address.ok_or_else(|| io::Error::other(format!("nobody serves {host}")))?;
    let limit = Duration::from_secs(called.webhook["timeoutSeconds"].as_u64().unwrap_or(10));

    let bundle =
        STANDARD.decode(client["caBundle"].as_str().unwrap_or_default()).map_err(io::Error::other)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bundle) {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
    let tls = ClientConnection::new(Arc::new(config), server).map_err(io::Error::other)?;
    let stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    let mut connection = StreamOwned::new(tls, stream);

    let (path, body) = (service["path"].as_str().unwrap_or("/"), review.to_string());
    let length = body.len();
    write!(
        connection,
        "POST {path}?timeout={}s HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}",
        limit.as_secs()
    )?;
    connection.flush()?;
    let mut answer = Vec::new();
    // A server that closes without a word of TLS has still said all that its length promises.
    if let Err(error) = connection.read_to_end(&mut answer)
        && error.kind() != io::ErrorKind::UnexpectedEof
    {
        return Err(error);
    }
    body_of(&answer)
}

fn body_of(answer: &[u8]) -> io::Result<Vec<u8>> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or_else(|| io::Error::other("an answer without an end of its head"))?;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let body = answer[end + 4..].to_vec();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    if !head.starts_with("http/1.1 200") || length != Some(body.len()) {
        return Err(io::Error::other(format!("an answer that is none: {head}")));
    }
    Ok(body)
}
