//! A pod with the API server's defaults (`pkg/apis/core/v1/defaults.go` of Kubernetes), as far as injectors write such fields,
//! and without its additions to every container.

use crate::merge::{MOUNT_PATH, clean};
use crate::pipeline::pod::PROBES;
use serde_json::{Map, Value, json};

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MODE: u32 = 0o644;

pub(super) fn pod(pod: &Value) -> Value {
    let mut spec = pod["spec"].as_object().cloned().unwrap_or_default();
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

fn each(of: &mut Map<String, Value>, list: &str, fill: fn(&mut Map<String, Value>)) {
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
    let (tagged, has_digest) = image.split_once('@').map_or((image, false), |(tagged, _)| (tagged, true));
    let last = tagged.rsplit('/').next().unwrap_or_default();
    let is_latest = last.ends_with(":latest") || !(has_digest || last.contains(':'));
    fill(fields, "imagePullPolicy", if is_latest { "Always" } else { "IfNotPresent" });
    fill(fields, "terminationMessagePath", "/dev/termination-log");
    fill(fields, "terminationMessagePolicy", "File");
    fill(fields, "resources", json!({}));
    within(fields, "resources", resources);
    each(fields, "ports", |port| fill(port, "protocol", "TCP"));
    each(fields, "env", |variable| {
        if !variable.contains_key("valueFrom") {
            fill(variable, "value", "");
        }
        within(variable, "valueFrom", field_ref);
    });
    if let Some(Value::Array(mounts)) = fields.get_mut("volumeMounts") {
        mounts.retain(|mount| mount[MOUNT_PATH].as_str().is_none_or(|path| clean(path) != TOKEN));
    }
    for probe in PROBES {
        within(fields, probe, |probe| {
            fill(probe, "initialDelaySeconds", 0);
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
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        within(fields, kind, |source| fill(source, "defaultMode", MODE));
    }
    within(fields, "hostPath", |path| fill(path, "type", ""));
    within(fields, "downwardAPI", |downward| each(downward, "items", field_ref));
    within(fields, "projected", |projected| {
        each(projected, "sources", |source| {
            within(source, "serviceAccountToken", |token| fill(token, "expirationSeconds", 3600));
            within(source, "downwardAPI", |downward| each(downward, "items", field_ref));
        });
    });
}

fn field_ref(item: &mut Map<String, Value>) {
    within(item, "fieldRef", |field| fill(field, "apiVersion", "v1"));
    // As a quantity, it is written even where it is zero.
    within(item, "resourceFieldRef", |resource| fill(resource, "divisor", "0"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(container: &Value) -> Value {
        pod(&json!({"spec": {"containers": [container]}}))["spec"]["containers"][0].clone()
    }

    #[test]
    fn images_without_a_tag_are_pulled_always() {
        for (image, policy) in [
            ("web", "Always"),
            ("hub:5000/web", "Always"),
            ("hub/web:latest", "Always"),
            ("hub/web:1", "IfNotPresent"),
            ("web@sha256:0", "IfNotPresent"),
            ("hub/web:1@sha256:0", "IfNotPresent"),
            ("hub/web:latest@sha256:0", "Always"),
        ] {
            assert_eq!(filled(&json!({"image": image}))["imagePullPolicy"], policy, "{image}");
        }
        assert_eq!(filled(&json!({"imagePullPolicy": "Never"}))["imagePullPolicy"], "Never");
    }

    #[test]
    fn containers_and_volumes_get_their_defaults() {
        let field = |version: &Value| json!({"fieldRef": {"apiVersion": version, "fieldPath": "a"}});
        let (absent, v1) = (field(&Value::Null), field(&json!("v1")));
        let cpu =
            |divisor: &Value| json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": divisor}});
        let (undivided, zero) = (cpu(&Value::Null), cpu(&json!("0")));
        let found = filled(&json!({
            "image": "a:1",
            "args": [],
            "ports": [{"containerPort": 1}],
            "env": [{"name": "A"}, {"name": "B", "valueFrom": absent}, {"name": "C", "valueFrom": undivided}],
            "volumeMounts": [{"mountPath": TOKEN}, {"mountPath": "/a"}],
            "resources": {"limits": {"cpu": 2, "memory": 1}, "requests": {"cpu": 1}},
            "startupProbe": {"httpGet": {"port": 1}, "periodSeconds": 2},
            "livenessProbe": {"grpc": {"port": 1}},
            "lifecycle": {"preStop": {"httpGet": {"port": 1, "scheme": "HTTPS"}}},
        }));
        let expected = json!({
            "image": "a:1",
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 1, "protocol": "TCP"}],
            "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": v1}, {"name": "C", "valueFrom": zero}],
            "volumeMounts": [{"mountPath": "/a"}],
            "resources": {"limits": {"cpu": 2, "memory": 1}, "requests": {"cpu": 1, "memory": 1}},
            "startupProbe": {"httpGet": {"port": 1, "path": "/", "scheme": "HTTP"}, "initialDelaySeconds": 0, "timeoutSeconds": 1,
                "periodSeconds": 2, "successThreshold": 1, "failureThreshold": 3},
            "livenessProbe": {"grpc": {"port": 1, "service": ""}, "initialDelaySeconds": 0, "timeoutSeconds": 1, "periodSeconds": 10,
                "successThreshold": 1, "failureThreshold": 3},
            "lifecycle": {"preStop": {"httpGet": {"port": 1, "path": "/", "scheme": "HTTPS"}}},
        });
        assert_eq!(found, expected);
        assert_eq!(filled(&json!({"image": "a:1"})).get("resources"), None);

        let volumes = json!([
            {"secret": {}},
            {"configMap": {"defaultMode": 1}},
            {"downwardAPI": {"items": [absent]}},
            {"projected": {"sources": [{"serviceAccountToken": {}}, {"downwardAPI": {"items": [absent]}}]}},
            {"hostPath": {"path": "/a"}},
        ]);
        let expected = json!([
            {"secret": {"defaultMode": MODE}},
            {"configMap": {"defaultMode": 1}},
            {"downwardAPI": {"items": [v1], "defaultMode": MODE}},
            {"projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3600}}, {"downwardAPI": {"items": [v1]}}],
                "defaultMode": MODE}},
            {"hostPath": {"path": "/a", "type": ""}},
        ]);
        assert_eq!(pod(&json!({"spec": {"volumes": volumes}}))["spec"]["volumes"], expected);
    }
}
