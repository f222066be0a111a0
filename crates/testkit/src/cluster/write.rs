//! Reads and writes of one object, with the preconditions and refusals of the real server.

use super::refusal::Refusal;
use super::{
    admission, collector,
    fields::Conflicts,
    kinds::Target,
    merge, security,
    state::{self, Entry, Shared, State, text},
};
use crate::http::Request;
use serde_json::{Value, json};

type Done = Result<(u16, Value), Refusal>;

fn refusal(code: u16, reason: &'static str, message: String) -> Refusal {
    Refusal { code, reason, message }
}

fn missing(target: &Target, name: &str) -> Refusal {
    let kind = &target.kind;
    let of =
        if kind.group.is_empty() { kind.plural.clone() } else { format!("{}.{}", kind.plural, kind.group) };
    refusal(404, "NotFound", format!("{of} {name:?} not found"))
}

fn body(request: &Request) -> Result<Value, Refusal> {
    let parsed = serde_json::from_slice(&request.body).ok();
    // Server-side apply accepts YAML.
    let parsed = parsed.or_else(|| serde_saphyr::from_slice(&request.body).ok());
    parsed
        .filter(Value::is_object)
        .ok_or_else(|| refusal(400, "BadRequest", "the body is not an object".to_owned()))
}

fn manager(request: &Request) -> String {
    let agent = || request.header("user-agent").unwrap_or("unknown").split('/').next().unwrap_or_default();
    request.parameter("fieldManager").unwrap_or_else(agent).to_owned()
}

fn is_dry(request: &Request) -> bool {
    request.parameter("dryRun") == Some("All")
}

/// Stores an entry, unless the request is a dry run.
fn keep(state: &mut State, request: &Request, target: &Target, entry: Entry) -> Value {
    if is_dry(request) {
        return entry.object;
    }
    state.keep(&target.kind, entry)
}

pub(crate) fn get(target: &Target, shared: &Shared) -> Done {
    let state = shared.state();
    let entry = state.entry(&target.kind, &target.namespace, &target.name);
    entry.map(|entry| (200, entry.object.clone())).ok_or_else(|| missing(target, &target.name))
}

/// Checks an object against its path and sets the fields that it omits.
fn placed(mut object: Value, target: &Target) -> Result<Value, Refusal> {
    let wrong = |what: &str| refusal(400, "BadRequest", format!("the object's {what} is not the request's"));
    let is = |value: &Value, desired: &str| value.is_null() || value == desired;
    if !is(&object["apiVersion"], &target.kind.api_version()) || !is(&object["kind"], &target.kind.kind) {
        return Err(wrong("kind"));
    }
    if !is(&object["metadata"]["namespace"], &target.namespace) {
        return Err(wrong("namespace"));
    }
    if !target.name.is_empty() && !is(&object["metadata"]["name"], &target.name) {
        return Err(wrong("name"));
    }
    if target.kind.namespaced {
        object["metadata"]["namespace"] = target.namespace.clone().into();
    }
    if !target.name.is_empty() {
        object["metadata"]["name"] = target.name.clone().into();
    }
    Ok(object)
}

pub(crate) fn create(request: &Request, target: &Target, shared: &Shared) -> Done {
    let object = placed(body(request)?, target)?;
    create_object(object, request, target, shared)
}

fn create_object(mut object: Value, request: &Request, target: &Target, shared: &Shared) -> Done {
    let webhooks = {
        let state = shared.state();
        if text(&object, "name").is_empty() {
            let start = text(&object, "generateName");
            if start.is_empty() {
                let message = "metadata.name or metadata.generateName is required".to_owned();
                return Err(refusal(422, "Invalid", message));
            }
            object["metadata"]["name"] = format!("{start}{:05}", state.version).into();
        }
        if target.kind.namespaced && state.find("namespaces", "", &target.namespace).is_none() {
            let message = format!("namespaces {:?} not found", target.namespace);
            return Err(refusal(404, "NotFound", message));
        }
        admission::matching(&state, &object, target)
    };
    // Without the lock: a webhook may call the server meanwhile.
    let object = admission::call(object, &webhooks, target, is_dry(request), shared)?;
    let mut state = shared.state();
    let name = text(&object, "name").to_owned();
    is_owned_soundly(&object)?;
    if target.kind.plural == "pods"
        && let Some(namespace) = state.find("namespaces", "", &target.namespace)
        && let Some(message) = security::refusal(namespace, &object)
    {
        return Err(refusal(403, "Forbidden", message));
    }
    if state.entry(&target.kind, &target.namespace, &name).is_some() {
        let message = format!("{} {name:?} already exists", target.kind.plural);
        return Err(refusal(409, "AlreadyExists", message));
    }
    let mut entry = Entry { object, ..Entry::default() };
    if is_apply(request) {
        let applied = entry.owners.apply(&manager(request), &json!({}), &entry.object, true, &target.kind);
        drop(applied);
    } else {
        entry.owners.written(&manager(request), &json!({}), &entry.object, &target.kind);
    }
    Ok((201, keep(&mut state, request, target, entry)))
}

fn is_owned_soundly(object: &Value) -> Result<(), Refusal> {
    collector::faults(object).map_or(Ok(()), |fault| Err(refusal(422, "Invalid", fault)))
}

/// Checks that a version or UID in the request is the current one.
fn is_current(desired: &Value, old: &Value) -> Result<(), Refusal> {
    is_still("resourceVersion", desired, old, (409, "Conflict"))?;
    is_still("uid", desired, old, (409, "Conflict"))
}

/// Same check for a patch, which may not change the UID.
fn is_patched(desired: &Value, old: &Value) -> Result<(), Refusal> {
    is_still("resourceVersion", desired, old, (409, "Conflict"))?;
    is_still("uid", desired, old, (422, "Invalid"))
}

fn is_still(field: &str, desired: &Value, old: &Value, refused: (u16, &'static str)) -> Result<(), Refusal> {
    let named = &desired["metadata"][field];
    if !named.is_null() && named != "" && *named != old["metadata"][field] {
        let message = format!("the object has been modified: its {field} is not {named}");
        return Err(refusal(refused.0, refused.1, message));
    }
    Ok(())
}

/// Separates status writes: only the subresource's path changes the status, and only the status.
fn divided(mut new: Value, old: &Value, target: &Target) -> Value {
    if target.part == "status" {
        let mut object = old.clone();
        object["status"] = new["status"].take();
        return object;
    }
    if target.kind.status && target.kind.plural != "customresourcedefinitions" {
        match old.get("status") {
            Some(status) => new["status"] = status.clone(),
            None => drop(new.as_object_mut().map(|fields| fields.remove("status"))),
        }
    }
    new
}

fn replace(state: &mut State, request: &Request, target: &Target, old: Entry, new: Value) -> Done {
    let object = divided(new, &old.object, target);
    is_owned_soundly(&object)?;
    let mut owners = old.owners;
    owners.written(&manager(request), &old.object, &object, &target.kind);
    let finished = object["metadata"]["deletionTimestamp"].is_string()
        && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    let kept = keep(state, request, target, Entry { object, owners });
    if finished && !is_dry(request) {
        state.remove(&target.kind, &target.namespace, &target.name);
    }
    Ok((200, kept))
}

pub(crate) fn update(request: &Request, target: &Target, shared: &Shared) -> Done {
    let object = placed(body(request)?, target)?;
    let mut state = shared.state();
    let old = state.entry(&target.kind, &target.namespace, &target.name).cloned();
    let old = old.ok_or_else(|| missing(target, &target.name))?;
    is_current(&object, &old.object)?;
    replace(&mut state, request, target, old, object)
}

fn is_apply(request: &Request) -> bool {
    request.header("content-type").is_some_and(|given| given.starts_with("application/apply-patch"))
}

pub(crate) fn patch(request: &Request, target: &Target, shared: &Shared) -> Done {
    if is_apply(request) {
        return apply(request, target, shared);
    }
    let mut state = shared.state();
    let old = state.entry(&target.kind, &target.namespace, &target.name).cloned();
    let old = old.ok_or_else(|| missing(target, &target.name))?;
    let mut object = old.object.clone();
    match request.header("content-type") {
        Some("application/merge-patch+json") => json_patch::merge(&mut object, &body(request)?),
        Some("application/strategic-merge-patch+json") if merge::is_built_in(&target.kind) => {
            merge::strategic(&mut object, &body(request)?, &target.kind);
        }
        Some("application/json-patch+json") => {
            let bad = |error: String| refusal(422, "Invalid", error);
            let patch: json_patch::Patch =
                serde_json::from_slice(&request.body).map_err(|error| bad(error.to_string()))?;
            json_patch::patch(&mut object, &patch).map_err(|error| bad(error.to_string()))?;
        }
        given => {
            let message = format!("{given:?} is not supported for {}", target.kind.plural);
            return Err(refusal(415, "UnsupportedMediaType", message));
        }
    }
    if object["apiVersion"] == old.object["apiVersion"] {
        object["apiVersion"] = target.kind.api_version().into();
    }
    let object = placed(object, target)?;
    is_patched(&object, &old.object)?;
    replace(&mut state, request, target, old, object)
}

fn apply(request: &Request, target: &Target, shared: &Shared) -> Done {
    let desired = placed(body(request)?, target)?;
    if request.parameter("fieldManager").is_none() {
        return Err(refusal(400, "BadRequest", "fieldManager is required for apply patch".to_owned()));
    }
    if !desired["metadata"]["managedFields"].is_null() {
        return Err(refusal(400, "BadRequest", "metadata.managedFields must be nil".to_owned()));
    }
    let mut state = shared.state();
    let Some(old) = state.entry(&target.kind, &target.namespace, &target.name).cloned() else {
        drop(state);
        if !target.part.is_empty() {
            return Err(missing(target, &target.name));
        }
        if !text(&desired, "uid").is_empty() {
            let message = "uid mismatch: no existing object was found".to_owned();
            return Err(refusal(409, "Conflict", message));
        }
        return create_object(desired, request, target, shared);
    };
    is_patched(&desired, &old.object)?;
    let force = request.parameter("force") == Some("true");
    let mut owners = old.owners;
    let applied = owners.apply(&manager(request), &old.object, &desired, force, &target.kind);
    let applied = applied.map_err(|Conflicts(fields)| {
        refusal(
            409,
            "Conflict",
            format!("Apply failed with {} conflicts: {}", fields.len(), fields.join(", ")),
        )
    })?;
    let object = divided(applied, &old.object, target);
    is_owned_soundly(&object)?;
    Ok((200, keep(&mut state, request, target, Entry { object, owners })))
}

pub(crate) fn delete(request: &Request, target: &Target, shared: &Shared) -> Done {
    let options: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let mut state = shared.state();
    let old = state.entry(&target.kind, &target.namespace, &target.name).cloned();
    let old = old.ok_or_else(|| missing(target, &target.name))?;
    is_current(&json!({ "metadata": options["preconditions"] }), &old.object)?;
    if is_dry(request) {
        return Ok((200, old.object));
    }
    let mut entry = old;
    state.hold(&mut entry, &options);
    state.objects.insert(state::key(&target.kind, &target.namespace, &target.name), entry);
    let removed = state.remove(&target.kind, &target.namespace, &target.name);
    Ok((200, removed.expect("the object exists")))
}
