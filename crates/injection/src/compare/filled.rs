//! A pod with the API server's defaults (`pkg/apis/core/v1/defaults.go` of Kubernetes) for fields that injectors write, and
//! without the API server's additions to every container.

use crate::configuration::selector::is_empty;
use crate::merge::{MOUNT_PATH, clean};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

static DEFAULTS: LazyLock<Value> = LazyLock::new(|| {
    let defaults = mesh::pod::values("defaults.yaml", include_str!("defaults.yaml"));
    defaults.unwrap_or_else(|problems| panic!("{problems}")).remove(0)
});

pub(super) fn pod(pod: &Value) -> Value {
    let mut spec = Value::Object(pod["spec"].as_object().cloned().unwrap_or_default());
    fill(&mut spec, &DEFAULTS);
    for list in ["containers", "initContainers"] {
        let items = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        items.filter_map(Value::as_object_mut).for_each(container);
    }
    let meta = |field: &str| match &pod["metadata"][field] {
        Value::Null => json!({}),
        texts => texts.clone(),
    };
    json!({"metadata": {"labels": meta("labels"), "annotations": meta("annotations")}, "spec": spec})
}

fn fill(value: &mut Value, defaults: &Value) {
    match (value, defaults) {
        (Value::Array(items), Value::Array(defaults)) => {
            items.iter_mut().for_each(|item| fill(item, &defaults[0]));
        }
        (Value::Object(fields), Value::Object(defaults)) => {
            for (name, default) in defaults {
                match fields.get_mut(name).filter(|value| !value.is_null()) {
                    Some(inner) => fill(inner, default),
                    None if default.is_object() || default.is_array() => {}
                    None => drop(fields.insert(name.clone(), default.clone())),
                }
            }
        }
        _ => {}
    }
}

fn container(fields: &mut Map<String, Value>) {
    if fields.get("imagePullPolicy").is_none_or(Value::is_null) {
        let image = fields.get("image").and_then(Value::as_str).unwrap_or_default();
        let (tagged, has_digest) = image.split_once('@').map_or((image, false), |(tagged, _)| (tagged, true));
        let last = tagged.rsplit('/').next().unwrap_or_default();
        let is_latest = last.ends_with(":latest") || !(has_digest || last.contains(':'));
        fields.insert("imagePullPolicy".to_owned(), if is_latest { "Always" } else { "IfNotPresent" }.into());
    }
    for variable in fields.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if variable.get("valueFrom").is_none() {
            fill(variable, &json!({"value": ""}));
        }
    }
    if let Some(Value::Object(resources)) = fields.get_mut("resources") {
        if let Some(limits @ Value::Object(_)) = resources.get("limits").cloned() {
            fill(resources.entry("requests").or_insert_with(|| json!({})), &limits);
        }
        resources.retain(|_, value| !is_empty(value));
    }
    if let Some(Value::Array(mounts)) = fields.get_mut("volumeMounts") {
        mounts.retain(|mount| mount[MOUNT_PATH].as_str().is_none_or(|path| clean(path) != TOKEN));
    }
    // Empty lists and objects equal absent ones.
    fields.retain(|_, value| !is_empty(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODE: u32 = 0o644;

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
