//! How the API server changes what it is told to change: patches by their content type, and preconditions.

use super::{
    http::{Connection, Request, answer},
    server::{Shared, refuse},
};
use serde_json::Value;
use std::io;

/// The content types of patches that the real server takes for pods.
const MERGES: [&str; 2] = ["application/merge-patch+json", "application/strategic-merge-patch+json"];

pub(super) fn patch(
    connection: &mut Connection,
    request: &Request,
    shared: &Shared,
    namespace: &str,
    name: &str,
) -> io::Result<()> {
    if !request.header("content-type").is_some_and(|given| MERGES.contains(&given)) {
        return refuse(connection, 415);
    }
    let patch: Value = serde_json::from_slice(&request.body).map_err(io::Error::other)?;
    if !request.path.starts_with("/api/v1/") {
        let mut state = shared.state();
        let known = state.events.iter_mut().find(|event| event["metadata"]["name"] == name);
        let Some(event) = known else {
            drop(state);
            return refuse(connection, 404);
        };
        merge(event, &patch);
        let body = event.to_string();
        drop(state);
        return answer(connection, 200, &body);
    }
    let changed = {
        let mut state = shared.state();
        match state.pods.get(&(namespace.to_owned(), name.to_owned())).cloned() {
            None => Err(404),
            // The field can't be changed, so the patch is invalid.
            Some(pod) if is_another(&pod, &patch["metadata"]["uid"]) => Err(422),
            Some(mut pod) => {
                merge(&mut pod, &patch);
                Ok(state.put(pod))
            }
        }
    };
    shared.changed.notify_all();
    let mut pod = match changed {
        Err(status) => return refuse(connection, status),
        Ok(pod) => pod,
    };
    if request.header("accept").is_some_and(|accept| accept.contains("as=PartialObjectMetadata")) {
        pod = serde_json::json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": pod["metadata"] });
    }
    answer(connection, 200, &pod.to_string())
}

pub(super) fn delete(
    connection: &mut Connection,
    request: &Request,
    shared: &Shared,
    namespace: &str,
    name: &str,
) -> io::Result<()> {
    let options: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let removed = {
        let mut state = shared.state();
        match state.pods.get(&(namespace.to_owned(), name.to_owned())) {
            None => Err(404),
            Some(pod) if is_another(pod, &options["preconditions"]["uid"]) => Err(409),
            Some(_) => Ok(state.remove(namespace, name).expect("it is there")),
        }
    };
    shared.changed.notify_all();
    match removed {
        Err(status) => refuse(connection, status),
        Ok(pod) => answer(connection, 200, &pod.to_string()),
    }
}

fn is_another(pod: &Value, uid: &Value) -> bool {
    !uid.is_null() && pod["metadata"]["uid"] != *uid
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (name, change) in changes {
        match change {
            Value::Null => drop(target.as_object_mut().expect("an object").remove(name)),
            _ => merge(&mut target[name], change),
        }
    }
}
