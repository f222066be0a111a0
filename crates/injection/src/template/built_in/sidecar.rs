//! Istio's proxy as istiod expects it: the agent, which starts Envoy. Renders the patch of Istio's own template, except Lightstep
//! and Datadog traces, Google's workload certificates, and core dumps by a privileged container.

use super::context::{RenderContext, TemplateParts, is_on, pod_field, resource_limit, set, variable};
use crate::merge::{MOUNT_PATH, identity};
use crate::template::{TemplateContext, opentelemetry};
use crate::{admission::Workload, configuration::selector::is_empty, mesh_config::MeshConfig};
use mesh::istio::annotations::{USER_MOUNTS, USER_VOLUMES};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, collections::HashMap};

const BOOTSTRAP: &str = "sidecar.istio.io/bootstrapOverride";
const CORE_DUMP: &str = "sidecar.istio.io/enableCoreDump";
const BOOTSTRAP_VOLUME: &str = "custom-bootstrap-volume";

pub(super) fn parts(context: &mut RenderContext<'_>) -> TemplateParts {
    let TemplateContext { sidecar, values, .. } = *context.input;
    let bootstrap = context.metadata("annotations", BOOTSTRAP);
    let dumps_core = context.annotation_or_value(CORE_DUMP, "global.proxy.enableCoreDump");
    let dumps_core = dumps_core.as_deref() == Some("true");
    let proxy = json!({
        "image": set(&sidecar.proxy_image),
        "args": arguments(context),
        "ports": [{"name": "http-envoy-prom", "containerPort": 15090, "protocol": "TCP"}],
        "lifecycle": lifecycle(context),
        "env": variables(context, bootstrap.is_some()),
        "startupProbe": sidecar.startup_failures.map(|failures| probe(0, 1, failures)),
        "readinessProbe": sidecar.status_port.map(|_| {
            let readiness = &sidecar.readiness;
            probe(readiness.initial_delay, readiness.period, readiness.failures)
        }),
        "securityContext": context.security_context_of_envoy(values.proxy.privileged, !dumps_core),
        "volumeMounts": mounts(context, bootstrap.is_some()),
    });
    TemplateParts {
        labels: labels(context),
        annotations: annotations(context),
        proxy,
        volumes: volumes(context, bootstrap),
    }
}

fn labels(context: &RenderContext<'_>) -> Map<String, Value> {
    const LABELS_OF_VERSION: [&str; 3] =
        ["service.istio.io/canonical-revision", "app.kubernetes.io/version", "version"];
    let version = LABELS_OF_VERSION.into_iter().find_map(|key| context.label(key)).unwrap_or("latest");
    let metadata = &context.input.sidecar.proxy_metadata;
    let takes_tunnels = metadata.get("ISTIO_META_ENABLE_HBONE").is_some_and(|text| text == "true");
    let mut labels = Map::new();
    context.put_default(&mut labels, "labels", "security.istio.io/tlsMode", Some("istio"));
    context.put_default(&mut labels, "labels", "networking.istio.io/tunnel", takes_tunnels.then_some("http"));
    if let Some(name) = context.canonical_name() {
        labels.insert("service.istio.io/canonical-name".to_owned(), name.into());
    }
    labels.insert("service.istio.io/canonical-revision".to_owned(), version.into());
    labels
}

fn annotations(context: &RenderContext<'_>) -> Map<String, Value> {
    const LOGS: &str = "kubectl.kubernetes.io/default-logs-container";
    let revision = set(&context.input.values.revision).unwrap_or("default");
    let mut annotations = Map::new();
    annotations.insert("istio.io/rev".to_owned(), revision.into());
    context.put_default(&mut annotations, "annotations", LOGS, context.first_container());
    annotations
}

fn arguments(context: &mut RenderContext<'_>) -> Vec<String> {
    let TemplateContext { sidecar, values, .. } = *context.input;
    let sts = context.value("global.sts.servicePort").filter(|port| is_on(port));
    let optional = [
        sidecar.proxy_log_level.as_ref().map(|level| format!("--proxyLogLevel={level}")),
        sidecar.proxy_component_log_level.as_ref().map(|levels| format!("--proxyComponentLogLevel={levels}")),
        set(&sidecar.log_level).map(|level| format!("--log_output_level={level}")),
        sts.map(|port| format!("--stsPort={port}")),
        values.log_as_json.then(|| "--log_as_json".to_owned()),
        set(&values.proxy.outlier_log).map(|path| format!("--outlierLogPath={path}")),
    ];
    let domain = format!("$(POD_NAMESPACE).svc.{}", values.proxy.domain);
    let first = ["proxy", "sidecar", "--domain", &domain].map(str::to_owned);
    first.into_iter().chain(optional.into_iter().flatten()).collect()
}

/// The values' hooks, else a hook that waits for the proxy to start, or drains it before it stops.
fn lifecycle(context: &RenderContext<'_>) -> Option<Value> {
    let sidecar = context.input.sidecar;
    let configured = &context.input.values.proxy.lifecycle;
    if !is_empty(configured) {
        return Some(configured.clone());
    }
    match (sidecar.native, sidecar.status_port) {
        (false, _) if sidecar.hold => {
            Some(json!({"postStart": {"exec": {"command": ["pilot-agent", "wait"]}}}))
        }
        (true, Some(port)) => {
            let port = format!("--debug-port={port}");
            Some(json!({"preStop": {"exec": {"command": ["pilot-agent", "request", port, "POST", "drain"]}}}))
        }
        (false, _) | (true, None) => None,
    }
}

fn variables(context: &mut RenderContext<'_>, has_bootstrap: bool) -> Vec<Value> {
    let certificates = context.value("global.pilotCertProvider");
    let TemplateContext { sidecar, values, mesh, .. } = *context.input;
    let optional = |name: &str, value: Option<&str>| value.map(|value| variable(name, value));
    let workload = context.input.admission.workload.as_ref().filter(|workload| !workload.name.is_empty());
    let owner = workload.map(|Workload { api_version, kind, name, namespace }| {
        format!("kubernetes://apis/{api_version}/namespaces/{namespace}/{}s/{name}", kind.to_lowercase())
    });
    let ports = Value::Array(context.ports().cloned().collect()).to_string();
    let containers = context.app_containers().collect::<Vec<_>>().join(",");
    let pod = context.input.pod;
    let texts = ["annotations", "labels"].map(|field| &pod["metadata"][field]);
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let attributes = opentelemetry::attributes(&mesh.raw, texts, namespace, &pod["spec"]["containers"]);
    let variables = [
        mesh.is_inbound_local.then(|| variable("REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION", "true")),
        Some(variable("PILOT_CERT_PROVIDER", certificates.as_deref().unwrap_or("istiod"))),
        optional("CA_ADDR", set(&values.ca_address)),
        Some(pod_field("POD_NAME", "metadata.name")),
        Some(pod_field("POD_NAMESPACE", "metadata.namespace")),
        Some(pod_field("INSTANCE_IP", "status.podIP")),
        Some(pod_field("SERVICE_ACCOUNT", "spec.serviceAccountName")),
        Some(pod_field("HOST_IP", "status.hostIP")),
        Some(resource_limit("ISTIO_CPU_LIMIT", "limits.cpu")),
        Some(variable("PROXY_CONFIG", MeshConfig::beyond_defaults(&sidecar.proxy_config).to_string())),
        Some(variable("ISTIO_META_POD_PORTS", ports)),
        optional("ISTIO_META_APP_CONTAINERS", set(&containers)),
        Some(resource_limit("GOMEMLIMIT", "limits.memory")),
        Some(resource_limit("GOMAXPROCS", "limits.cpu")),
        Some(variable("ISTIO_META_CLUSTER_ID", set(&sidecar.cluster).unwrap_or("Kubernetes"))),
        Some(pod_field("ISTIO_META_NODE_NAME", "spec.nodeName")),
        Some(variable("ISTIO_META_INTERCEPTION_MODE", sidecar.mode.name())),
        optional("ISTIO_META_NETWORK", sidecar.network.as_deref().and_then(set)),
        optional("ISTIO_META_WORKLOAD_NAME", workload.map(|workload| workload.name.as_str())),
        optional("ISTIO_META_OWNER", owner.as_deref()),
        has_bootstrap.then(|| {
            variable("ISTIO_BOOTSTRAP_OVERRIDE", "/etc/istio/custom-bootstrap/custom_bootstrap.json")
        }),
        optional("ISTIO_META_MESH_ID", set(&sidecar.mesh_id)),
        optional("TRUST_DOMAIN", set(&mesh.trust_domain)),
        optional("OTEL_RESOURCE_ATTRIBUTES", attributes.as_deref()),
    ];
    variables.into_iter().flatten().chain(context.proxy_metadata()).collect()
}

fn probe(delay: u32, period: u32, failures: u32) -> Value {
    json!({
        "httpGet": {"path": "/healthz/ready", "port": 15021},
        "initialDelaySeconds": delay,
        "periodSeconds": period,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    })
}

fn mounts(context: &mut RenderContext<'_>, has_bootstrap: bool) -> Vec<Value> {
    let mounts = [
        ("workload-socket", "/var/run/secrets/workload-spiffe-uds"),
        ("credential-socket", "/var/run/secrets/credential-uds"),
        ("workload-certs", "/var/run/secrets/workload-spiffe-credentials"),
        ("istiod-ca-cert", "/var/run/secrets/istio"),
        ("istio-ca-crl", "/var/run/secrets/istio/crl"),
        ("istio-data", "/var/lib/istio/data"),
        (BOOTSTRAP_VOLUME, "/etc/istio/custom-bootstrap"),
        // Shared by the agent and Envoy.
        ("istio-envoy", "/etc/istio/proxy"),
        ("istio-token", "/var/run/secrets/tokens"),
        ("istio-podinfo", "/etc/istio/pod"),
    ];
    let mounts = mounts.into_iter().filter(|(name, _)| has_bootstrap || *name != BOOTSTRAP_VOLUME);
    let mounts = mounts.map(|(name, path)| json!({"name": name, "mountPath": path})).collect();
    with_users(context, mounts, &context.input.sidecar.user_mounts, USER_MOUNTS, MOUNT_PATH)
}

fn volumes(context: &mut RenderContext<'_>, bootstrap: Option<&str>) -> Vec<Value> {
    let audience = context.value("global.sds.token.aud").unwrap_or_else(|| "istio-ca".to_owned());
    let bundle = context.value("global.trustBundleName").unwrap_or_else(|| "istio-ca-root-cert".to_owned());
    let token = json!({"path": "istio-token", "audience": audience, "expirationSeconds": 43200});
    let podinfo = ["labels", "annotations"]
        .map(|name| json!({"path": name, "fieldRef": {"fieldPath": format!("metadata.{name}")}}));
    let volumes = [
        Some(json!({"name": "workload-socket", "emptyDir": {}})),
        Some(json!({"name": "credential-socket", "emptyDir": {}})),
        Some(json!({"name": "workload-certs", "emptyDir": {}})),
        bootstrap.map(|name| json!({"name": BOOTSTRAP_VOLUME, "configMap": {"name": name}})),
        Some(json!({"name": "istio-envoy", "emptyDir": {"medium": "Memory"}})),
        Some(json!({"name": "istio-data", "emptyDir": {}})),
        Some(json!({"name": "istio-podinfo", "downwardAPI": {"items": podinfo}})),
        Some(json!({"name": "istio-token", "projected": {"sources": [{"serviceAccountToken": token}]}})),
        Some(json!({"name": "istiod-ca-cert", "configMap": {"name": bundle}})),
        // Exists only if the mesh's own authority revokes certificates.
        Some(json!({"name": "istio-ca-crl", "configMap": {"name": "istio-ca-crl", "optional": true}})),
    ];
    let volumes = volumes.into_iter().flatten().collect();
    with_users(context, volumes, &context.input.sidecar.user_volumes, USER_VOLUMES, "name")
}

/// Adds the user's items. Merging identifies items by `key`, so duplicates are problems.
fn with_users(
    context: &mut RenderContext<'_>,
    mut items: Vec<Value>,
    users: &[Value],
    annotation: &str,
    key: &str,
) -> Vec<Value> {
    items.extend_from_slice(users);
    let mut counts: HashMap<Option<Cow<'_, Value>>, usize> = HashMap::new();
    items.iter().for_each(|item| *counts.entry(identity(item, key)).or_default() += 1);
    for item in users {
        if counts.get(&identity(item, key)).is_some_and(|count| *count > 1) {
            let text = format!("is repeated, or is the proxy's own; give it another {key}");
            context.problem(&format!("annotation {annotation}"), item[key].as_str(), &text);
        }
    }
    items
}
