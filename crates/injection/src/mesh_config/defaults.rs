//! Istio's defaults: the values of its chart and its MeshConfig, as far as templates ask for them.
//!
//! From `manifests/charts/istio-control/istio-discovery/values.yaml` and `pkg/config/mesh/mesh.go`. In one thing they differ:
//! what only Istio's agent can answer, rewritten probes and merged metrics, is off until a text asks for it.

use serde_json::{Value, json};

/// Mappings that are not merged with their default: they replace it.
const WHOLE: [&str; 1] = ["resources"];

/// The list of MeshConfig whose items are known by their names: one that is given replaces the default of its name alone.
const NAMED: &str = "extensionProviders";

pub(crate) fn values() -> Value {
    json!({
        "global": {
            "caAddress": "",
            "caName": "",
            "hub": "istio",
            "imagePullPolicy": "",
            "imagePullSecrets": [],
            "istioNamespace": "istio-system",
            "logAsJson": false,
            "logging": {"level": "default:info"},
            "meshID": "",
            "mountMtlsCerts": false,
            "multiCluster": {"clusterName": ""},
            "nativeNftables": false,
            "network": "",
            "pilotCertProvider": "istiod",
            "priorityClassName": "",
            "proxy": proxy(),
            "proxy_init": {"forceApplyIptables": false, "image": "proxyv2"},
            "sds": {"token": {"aud": "istio-ca"}},
            "sts": {"servicePort": 0},
            "tag": "latest",
            "variant": "",
        },
        "gateways": {"seccompProfile": {}, "securityContext": {}},
        "istio_cni": {"enabled": false},
        "meshConfig": {},
        "pilot": {"cni": {"enabled": false, "provider": "default"}, "env": {}},
        "revision": "",
        "sidecarInjectorWebhook": {"rewriteAppHTTPProbe": false},
    })
}

fn proxy() -> Value {
    json!({
        "capNetBindService": false,
        "clusterDomain": "cluster.local",
        "componentLogLevel": "misc:error",
        "excludeIPRanges": "",
        "excludeInboundPorts": "",
        "excludeOutboundPorts": "",
        "holdApplicationUntilProxyStarts": false,
        "image": "proxyv2",
        "includeIPRanges": "*",
        "includeInboundPorts": "*",
        "includeOutboundPorts": "",
        "logLevel": "warning",
        "outlierLogPath": "",
        "privileged": false,
        "readinessFailureThreshold": 4,
        "readinessInitialDelaySeconds": 0,
        "readinessPeriodSeconds": 15,
        "resources": {
            "limits": {"cpu": "2000m", "memory": "1024Mi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "startupProbe": {"enabled": true, "failureThreshold": 600},
        "statusPort": 15020,
        "tracer": "none",
    })
}

/// MeshConfig, by the names of its JSON form.
pub(crate) fn mesh() -> Value {
    json!({
        "connectTimeout": "10s",
        "defaultConfig": {
            "binaryPath": "/usr/local/bin/envoy",
            "configPath": "./etc/istio/proxy",
            "controlPlaneAuthPolicy": "MUTUAL_TLS",
            "discoveryAddress": "istiod.istio-system.svc:15012",
            "drainDuration": "45s",
            "interceptionMode": "REDIRECT",
            "proxyAdminPort": 15000,
            "serviceCluster": "istio-proxy",
            "statNameLength": 189,
            "statusPort": 15020,
            "terminationDrainDuration": "5s",
        },
        "defaultDestinationRuleExportTo": ["*"],
        "defaultProviders": {},
        "defaultServiceExportTo": ["*"],
        "defaultVirtualServiceExportTo": ["*"],
        "dnsRefreshRate": "60s",
        "enableAutoMtls": true,
        "enablePrometheusMerge": false,
        "enableTracing": true,
        "extensionProviders": [
            {"name": "prometheus", "prometheus": {}},
            {"name": "stackdriver", "stackdriver": {}},
            {"name": "envoy", "envoyFileAccessLog": {"path": "/dev/stdout"}},
        ],
        "inboundTrafficPolicy": {"mode": "PASSTHROUGH"},
        "ingressClass": "istio",
        "ingressControllerMode": "STRICT",
        "ingressService": "istio-ingressgateway",
        "localityLbSetting": {"enabled": true},
        "outboundTrafficPolicy": {"mode": "ALLOW_ANY"},
        "protocolDetectionTimeout": "0s",
        "proxyInboundListenPort": 15006,
        "proxyListenPort": 15001,
        "rootNamespace": "istio-system",
        "trustDomain": "cluster.local",
    })
}

/// Given values merged over the defaults, and the paths of values that are not a mapping though their defaults are. A null
/// counts as an absent key, so that the default applies. A key of `WHOLE` has no default once it is given, so that its null
/// leaves it unset.
pub(crate) fn over(given: &Value, defaults: Value) -> (Value, Vec<String>) {
    let mut wrong = Vec::new();
    let merged = merged(given, defaults, "", &mut wrong);
    (merged, wrong)
}

fn merged(given: &Value, default: Value, path: &str, wrong: &mut Vec<String>) -> Value {
    let mut under = match (default, given) {
        (Value::Object(under), _) => under,
        (Value::Array(under), Value::Array(given)) if path == NAMED => return by_name(under, given),
        _ => return without_nulls(given),
    };
    let Value::Object(given) = given else {
        wrong.push(path.to_owned());
        return Value::Object(under);
    };
    for (key, value) in given {
        let is_whole = WHOLE.contains(&key.as_str());
        if value.is_null() {
            if is_whole {
                under.remove(key);
            }
            continue;
        }
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let merged = match under.remove(key) {
            Some(default) if !is_whole => merged(value, default, &path, wrong),
            Some(_) | None => without_nulls(value),
        };
        under.insert(key.clone(), merged);
    }
    Value::Object(under)
}

/// A list whose items are replaced by given ones of the same name; other given items are appended.
fn by_name(mut under: Vec<Value>, given: &[Value]) -> Value {
    for item in given.iter().map(without_nulls) {
        match under.iter_mut().find(|known| known["name"] == item["name"]) {
            Some(known) => *known = item,
            None => under.push(item),
        }
    }
    Value::Array(under)
}

/// A tree without its null fields. Templates that print one would make a patch that deletes the field, or no YAML.
pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(set.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}
