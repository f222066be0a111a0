//! Calls mutating webhooks when an object is created, like the API server: by each configuration's selectors and rules, in name
//! order, over TLS verified with `caBundle`.

use super::{
    kinds::Target,
    refusal::Refusal,
    state::{Shared, State, text},
};
use crate::http::{Client, trusting};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::{Value, json};
use std::{io, net::SocketAddr, time::Duration};

pub(crate) struct Called {
    webhook: Value,
    host: String,
    path: String,
    address: Option<SocketAddr>,
}

pub(crate) fn matching(state: &State, object: &Value, target: &Target) -> Vec<Called> {
    if target.kind.group == "admissionregistration.k8s.io" {
        return Vec::new();
    }
    let nothing = json!({});
    let namespace = state.find("namespaces", "", &target.namespace).unwrap_or(&nothing);
    let configurations = state.all("mutatingwebhookconfigurations");
    let webhooks = configurations.flat_map(|configuration| configuration["webhooks"].as_array()).flatten();
    let called = webhooks.filter(|webhook| {
        has_matching_rule(webhook, target)
            && selects(&webhook["namespaceSelector"], &namespace["metadata"]["labels"])
            && selects(&webhook["objectSelector"], &object["metadata"]["labels"])
    });
    called
        .map(|webhook| {
            let webhook = webhook.clone();
            if let Some(url) = webhook["clientConfig"]["url"].as_str() {
                let (authority, path) = url["https://".len()..].split_once('/').expect("a path");
                let address: SocketAddr = authority.parse().expect("an address, and a port");
                let (host, path) = (address.ip().to_string(), format!("/{path}"));
                return Called { webhook, host, path, address: Some(address) };
            }
            let service = &webhook["clientConfig"]["service"];
            let field = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
            let address = state.services.get(&(field("namespace"), field("name"))).copied();
            let host = format!("{}.{}.svc", field("name"), field("namespace"));
            Called { path: service["path"].as_str().unwrap_or("/").to_owned(), webhook, host, address }
        })
        .collect()
}

fn has_matching_rule(webhook: &Value, target: &Target) -> bool {
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

pub fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut requested = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.clone().all(|(key, value)| labels[key] == *value)
        && requested.all(|ask| {
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

/// Calls the webhooks in order, then reinvokes `IfNeeded` webhooks if the object has changed since.
pub(crate) fn call(
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

/// Returns a review's response if it matches the request.
fn read(body: &[u8], uid: &str, requested: &Value) -> io::Result<Value> {
    let review: Value = serde_json::from_slice(body)?;
    let response = &review["response"];
    let same = review["apiVersion"] == requested["apiVersion"] && review["kind"] == requested["kind"];
    if !same
        || response["uid"] != uid
        || (response["patch"].is_string() && response["patchType"] != "JSONPatch")
    {
        return Err(io::Error::other(format!("expected a response to {uid}, got {review}")));
    }
    Ok(response.clone())
}

fn post(called: &Called, review: &Value) -> io::Result<Vec<u8>> {
    let Called { webhook, host, path, address } = called;
    let address = address.ok_or_else(|| io::Error::other(format!("{host} has no server")))?;
    let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
    let bundle = webhook["clientConfig"]["caBundle"].as_str().unwrap_or_default();
    let bundle = STANDARD.decode(bundle).map_err(io::Error::other)?;
    let authorities: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bundle).collect();
    let config = trusting(authorities.map_err(io::Error::other)?.into_iter(), rustls::DEFAULT_VERSIONS);
    let limit = Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10));
    let headers = [("Content-Type", "application/json"), ("Connection", "close")];
    let mut client = Client::connect(address, name, config, limit)?;
    let answer =
        client.send("POST", &format!("{path}?timeout=10s"), &headers, review.to_string().as_bytes())?;
    if answer.status != 200 {
        return Err(io::Error::other(format!("an answer of status {}", answer.status)));
    }
    Ok(answer.body)
}
