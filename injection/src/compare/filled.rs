//! A pod with what the API server fills in where its author says nothing (`pkg/apis/core/v1/defaults.go` of Kubernetes), as
//! far as injectors write such fields, and without what it adds to every container.

use serde_json::{Map, Value, json};

/// Where the token of the service account is mounted.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Of files in volumes.
const MODE: u32 = 0o644;
const PROBES: [&str; 3] = ["readinessProbe", "livenessProbe", "startupProbe"];

/// The metadata that injection touches, and the spec with its defaults.
pub(super) fn pod(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    for list in ["containers", "initContainers"] {
        each(&mut spec, list, container);
    }
    each(&mut spec, "volumes", volume);
    let meta = |field: &str| match &pod["metadata"][field] {
        Value::Null => json!({}),
        texts => texts.clone(),
    };
    json!({"metadata": {"labels": meta("labels"), "annotations": meta("annotations")}, "spec": spec})
}

fn each(of: &mut Value, list: &str, fill: fn(&mut Map<String, Value>)) {
    let items = of.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut).for_each(fill);
}

fn fill(fields: &mut Map<String, Value>, name: &str, default: impl Into<Value>) {
    let value = fields.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = default.into();
    }
}

fn within(fields: &mut Map<String, Value>, name: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    if let Some(Value::Object(inner)) = fields.get_mut(name) {
        change(inner);
    }
}

fn container(fields: &mut Map<String, Value>) {
    let image = fields.get("image").and_then(Value::as_str).unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let is_latest = !image.contains('@') && (last.ends_with(":latest") || !last.contains(':'));
    fill(fields, "imagePullPolicy", if is_latest { "Always" } else { "IfNotPresent" });
    fill(fields, "terminationMessagePath", "/dev/termination-log");
    fill(fields, "terminationMessagePolicy", "File");
    fill(fields, "resources", json!({}));
    within(fields, "resources", resources);
    let mut whole = Value::Object(std::mem::take(fields));
    each(&mut whole, "ports", |port| fill(port, "protocol", "TCP"));
    each(&mut whole, "env", |variable| {
        if !variable.contains_key("valueFrom") {
            fill(variable, "value", "");
        }
        within(variable, "valueFrom", field_ref);
    });
    if let Some(Value::Array(mounts)) = whole.get_mut("volumeMounts") {
        mounts.retain(|mount| mount["mountPath"] != TOKEN);
    }
    if let Value::Object(filled) = whole {
        *fields = filled;
    }
    for probe in PROBES {
        within(fields, probe, |probe| {
            fill(probe, "timeoutSeconds", 1);
            fill(probe, "periodSeconds", 10);
            fill(probe, "successThreshold", 1);
            fill(probe, "failureThreshold", 3);
            handler(probe);
        });
    }
    within(fields, "lifecycle", |hooks| {
        ["preStop", "postStart"].into_iter().for_each(|hook| within(hooks, hook, handler));
    });
    // Empty lists and objects say as much as none.
    fields.retain(|_, value| !matches!(value, Value::Null) && *value != json!([]) && *value != json!({}));
}

/// Limits are the default of requests.
fn resources(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(limits)) = fields.get("limits").cloned() {
        fill(fields, "requests", json!({}));
        within(fields, "requests", |requests| {
            limits.into_iter().for_each(|(name, amount)| fill(requests, &name, amount));
        });
    }
    fields.retain(|_, value| !value.is_null() && *value != json!({}));
}

fn handler(fields: &mut Map<String, Value>) {
    within(fields, "httpGet", |get| {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    });
    within(fields, "grpc", |grpc| fill(grpc, "service", ""));
}

fn volume(fields: &mut Map<String, Value>) {
    for (kind, field) in [
        ("secret", "defaultMode"),
        ("configMap", "defaultMode"),
        ("downwardAPI", "defaultMode"),
        ("projected", "defaultMode"),
    ] {
        within(fields, kind, |source| fill(source, field, MODE));
    }
    within(fields, "hostPath", |path| fill(path, "type", ""));
    if let Some(downward) = fields.get_mut("downwardAPI") {
        each(downward, "items", field_ref);
    }
    if let Some(projected) = fields.get_mut("projected") {
        each(projected, "sources", |source| {
            within(source, "serviceAccountToken", |token| fill(token, "expirationSeconds", 3600));
            if let Some(downward) = source.get_mut("downwardAPI") {
                each(downward, "items", field_ref);
            }
        });
    }
}

fn field_ref(item: &mut Map<String, Value>) {
    within(item, "fieldRef", |field| fill(field, "apiVersion", "v1"));
}
