//! Reviews of pods, in the API server's format.

use serde_json::{Value, json};
use std::io;
use testkit::http::{Client, Response};

pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Sends a review of a pod, with a timeout that suffices on a busy machine.
pub(crate) fn reviewed(client: &mut Client, path: &str, uid: &str, pod: &Value) -> io::Result<Response> {
    let body = review("admission.k8s.io/v1", uid, pod).to_string();
    client.send("POST", &format!("{path}?timeout=100s"), &[JSON], body.as_bytes())
}

pub(crate) fn review(version: &str, uid: &str, pod: &Value) -> Value {
    json!({ "apiVersion": version, "kind": "AdmissionReview", "request": {
        "uid": uid, "kind": { "group": "", "version": "v1", "kind": "Pod" },
        "resource": { "group": "", "version": "v1", "resource": "pods" },
        "namespace": "shop", "operation": "CREATE", "object": pod, "dryRun": false } })
}

pub(crate) fn pod() -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "generateName": "web-5d4f8c7b9-", "labels": { "app": "web", "pod-template-hash": "5d4f8c7b9" } },
        "spec": { "containers": [{ "name": "web", "image": "web:1", "ports": [{ "containerPort": 8080 }] }] } })
}
