//! Envoy alone. Its configuration is the key `envoy.yaml` of a ConfigMap: it has to listen at the outbound and the inbound port,
//! each with the listener filter that restores the original destination.

use super::context::{RenderContext, TemplateParts, is_on, pod_field, set};
use crate::sidecar::OtherProxy;
use mesh::istio::annotations::PROXY_IMAGE;
use serde_json::{Map, Value, json};

/// Istio's ports and user, without its agent.
pub(super) static PROXY: OtherProxy = OtherProxy {
    outbound_port: None,
    inbound_port: None,
    uid: None,
    // For metrics and for probes: the kubelet reaches them, as they are never captured.
    own_ports: &[15090, 15021],
};

const CONFIG: &str = "envoy.sidecar-init/config";
const READY_PORT: &str = "envoy.sidecar-init/ready-port";
const READY_PORT_VALUE: &str = "envoy.readyPort";

pub(super) fn parts(context: &mut RenderContext<'_>) -> TemplateParts {
    let sidecar = context.input.sidecar;
    let image = context.annotation_or_value(PROXY_IMAGE, "envoy.image");
    let image = image.as_deref().and_then(set).or_else(|| set(&sidecar.proxy_image));
    let config = context.annotation_or_value(CONFIG, "envoy.configMap");
    let ready = ready_port(context).map(|port| json!({"path": "/ready", "port": port}));
    let probe = |period: u32, failures: u32| {
        let get = ready.as_ref()?;
        Some(json!({"httpGet": get, "periodSeconds": period, "failureThreshold": failures}))
    };
    let mut arguments = vec!["--config-path", "/etc/envoy/envoy.yaml"];
    if let Some(name) = context.canonical_name().or_else(|| set(&context.input.admission.namespace.name)) {
        arguments.extend(["--service-cluster", name]);
    }
    arguments.extend(["--service-node", "$(POD_NAME).$(POD_NAMESPACE)"]);
    arguments.extend(["--log-level", sidecar.proxy_log_level.as_deref().unwrap_or("warning")]);
    let mut variables = vec![
        pod_field("POD_NAME", "metadata.name"),
        pod_field("POD_NAMESPACE", "metadata.namespace"),
        pod_field("POD_IP", "status.podIP"),
    ];
    variables.extend(context.proxy_metadata());
    let proxy = json!({
        "image": image,
        "imagePullPolicy": sidecar.pull_policy,
        "command": ["envoy"],
        "args": arguments,
        "env": variables,
        "ports": [
            {"name": "envoy-inbound", "containerPort": sidecar.traffic.inbound_port, "protocol": "TCP"},
            {"name": "envoy-outbound", "containerPort": sidecar.traffic.outbound_port, "protocol": "TCP"},
        ],
        "startupProbe": probe(1, 600),
        "readinessProbe": probe(15, 4),
        "securityContext": context.security_context_of_envoy(false, true),
        "resources": context.resources(),
        "volumeMounts": [{"name": "envoy-config", "mountPath": "/etc/envoy", "readOnly": true}],
    });
    let config = config.as_deref().unwrap_or("envoy");
    let volumes = vec![json!({"name": "envoy-config", "configMap": {"name": config}})];
    TemplateParts { labels: Map::new(), annotations: Map::new(), proxy, volumes }
}

/// The port of Envoy's probes, by its number or its name; `None` where there are no probes.
fn ready_port(context: &mut RenderContext<'_>) -> Option<Value> {
    let source = match context.metadata("annotations", READY_PORT) {
        Some(_) => format!("annotation {READY_PORT}"),
        None => format!("values: {READY_PORT_VALUE}"),
    };
    let text = context.annotation_or_value(READY_PORT, READY_PORT_VALUE).filter(|text| is_on(text))?;
    let port = match text.parse::<i64>() {
        Ok(number) => (1..=65_535).contains(&number).then(|| number.into()),
        Err(_) => is_port_name(&text).then(|| text.as_str().into()),
    };
    if port.is_none() {
        context.problem(&source, Some(&text), "is not a port from 1 to 65535, or the name of one");
    }
    port
}

/// RFC 6335, 5.1, as the API checks it.
fn is_port_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && text.chars().any(|c| c.is_ascii_lowercase())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--")
}
