//! linkerd's proxy, as linkerd's control plane expects it. The init container is ours, with linkerd's ports and user.

use super::context::{RenderContext, TemplateParts, pod_field, set, variable};
use crate::sidecar::{Mode, OtherProxy};
use serde_json::{Map, Value, json};

pub(super) static PROXY: OtherProxy = OtherProxy {
    outbound_port: Some(4140),
    inbound_port: Some(4143),
    uid: Some(2102),
    // The proxy's policies and its administration.
    own_ports: &[4190, 4191],
};

/// The networks of a cluster, where the values name none.
const NETWORKS: &str = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8";

pub(super) fn parts(context: &mut RenderContext<'_>) -> TemplateParts {
    let (sidecar, admission) = (context.input.sidecar, context.input.admission);
    let image = context.annotation_or_value("config.linkerd.io/proxy-image", "linkerd.image");
    let image = image.as_deref().and_then(set).or_else(|| set(&sidecar.proxy_image));
    let control_plane = context.value("linkerd.namespace").unwrap_or_else(|| "linkerd".to_owned());
    let variables = variables(context, &control_plane);
    if sidecar.mode == Mode::Tproxy {
        let text = "is not supported by linkerd's proxy, which takes redirected connections only; set the pod's annotation \
                    sidecar.istio.io/interceptionMode to REDIRECT";
        context.problem("interception mode", Some(sidecar.mode.name()), text);
    }
    let wait = json!(["/usr/lib/linkerd/linkerd-await", "--timeout=2m", "--port=4191"]);
    let get = |path: &str| json!({"path": path, "port": 4191});
    let proxy = json!({
        "image": image,
        "imagePullPolicy": sidecar.pull_policy,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": variables,
        "ports": [
            {"name": "linkerd-proxy", "containerPort": 4143},
            {"name": "linkerd-admin", "containerPort": 4191},
        ],
        "startupProbe": sidecar.native.then(|| json!({
            "httpGet": get("/ready"), "periodSeconds": 1, "failureThreshold": 120,
        })),
        "readinessProbe": {"httpGet": get("/ready"), "initialDelaySeconds": 2},
        "livenessProbe": {"httpGet": get("/live"), "initialDelaySeconds": 10},
        "lifecycle": (sidecar.hold && !sidecar.native).then(|| json!({"postStart": {"exec": {"command": wait}}})),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "runAsUser": sidecar.proxy_identity.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": context.resources(),
        "volumeMounts": [
            {"name": "linkerd-identity-end-entity", "mountPath": "/var/run/linkerd/identity/end-entity"},
            {"name": "linkerd-identity-token", "mountPath": "/var/run/secrets/tokens"},
        ],
    });
    let token =
        json!({"path": "linkerd-identity-token", "audience": "identity.l5d.io", "expirationSeconds": 86400});
    let volumes = vec![
        json!({"name": "linkerd-identity-end-entity", "emptyDir": {"medium": "Memory"}}),
        json!({"name": "linkerd-identity-token", "projected": {"sources": [{"serviceAccountToken": token}]}}),
    ];
    let mut labels = Map::new();
    labels.insert("linkerd.io/control-plane-ns".to_owned(), control_plane.into());
    if let Some(namespace) = set(&admission.namespace.name) {
        labels.insert("linkerd.io/workload-ns".to_owned(), namespace.into());
    }
    TemplateParts { labels, annotations: Map::new(), proxy, volumes }
}

fn variables(context: &mut RenderContext<'_>, control_plane: &str) -> Vec<Value> {
    const TRUST_ANCHORS: &str = "linkerd.identityTrustAnchorsPEM";
    const IDENTITY: &str = "serviceaccount.identity.$(_l5d_ns).$(_l5d_trustdomain)";
    let values = context.input.values;
    let domain = &values.proxy.domain;
    let or = |found: Option<String>, default: &str| found.unwrap_or_else(|| default.to_owned());
    let trust_domain = or(context.value("linkerd.identityTrustDomain"), domain);
    let networks = or(context.value("linkerd.clusterNetworks"), NETWORKS);
    let mut setting = |annotation: &str, value: &str, default: &str| {
        let annotation = format!("config.linkerd.io/{annotation}");
        or(context.annotation_or_value(&annotation, &format!("linkerd.{value}")), default)
    };
    let policy = setting("default-inbound-policy", "defaultInboundPolicy", "all-unauthenticated");
    let log = setting("proxy-log-level", "logLevel", "warn,linkerd=info,hickory=error");
    let opaque = setting("opaque-ports", "opaquePorts", "25,587,3306,4444,5432,6379,9300,11211");
    let trust_anchors = context.value(TRUST_ANCHORS).unwrap_or_else(|| {
        let text =
            format!("is not set; set {TRUST_ANCHORS} of the values to linkerd's trust anchors, as PEM");
        context.problem("trust anchors", None, &text);
        String::new()
    });
    let ports = context.ports().filter_map(|port| port.get("containerPort"));
    let ports = ports.map(Value::to_string).collect::<Vec<_>>().join(",");
    let format = if values.log_as_json { "json" } else { "plain" };
    let service = |name: &str, port: u16| format!("{name}.{control_plane}.svc.{domain}.:{port}");
    let account = |name: &str| format!("{name}.$(_l5d_ns).{IDENTITY}");
    vec![
        pod_field("_pod_name", "metadata.name"),
        pod_field("_pod_ns", "metadata.namespace"),
        pod_field("_pod_uid", "metadata.uid"),
        pod_field("_pod_nodeName", "spec.nodeName"),
        variable("_pod_containerName", "linkerd-proxy"),
        pod_field("_pod_sa", "spec.serviceAccountName"),
        variable("_l5d_ns", control_plane),
        variable("_l5d_trustdomain", trust_domain),
        variable("LINKERD2_PROXY_LOG", log),
        variable("LINKERD2_PROXY_LOG_FORMAT", format),
        variable("LINKERD2_PROXY_DESTINATION_SVC_ADDR", service("linkerd-dst-headless", 8086)),
        variable("LINKERD2_PROXY_DESTINATION_PROFILE_NETWORKS", networks.as_str()),
        variable("LINKERD2_PROXY_POLICY_SVC_ADDR", service("linkerd-policy", 8090)),
        variable("LINKERD2_PROXY_POLICY_WORKLOAD", r#"{"ns":"$(_pod_ns)", "pod":"$(_pod_name)"}"#),
        variable("LINKERD2_PROXY_INBOUND_DEFAULT_POLICY", policy),
        variable("LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS", networks),
        variable("LINKERD2_PROXY_CONTROL_STREAM_INITIAL_TIMEOUT", "3s"),
        variable("LINKERD2_PROXY_CONTROL_STREAM_IDLE_TIMEOUT", "5m"),
        variable("LINKERD2_PROXY_CONTROL_STREAM_LIFETIME", "1h"),
        variable("LINKERD2_PROXY_INBOUND_CONNECT_TIMEOUT", "100ms"),
        variable("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "1000ms"),
        variable("LINKERD2_PROXY_OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "5s"),
        variable("LINKERD2_PROXY_INBOUND_DISCOVERY_IDLE_TIMEOUT", "90s"),
        variable("LINKERD2_PROXY_CONTROL_LISTEN_ADDR", "0.0.0.0:4190"),
        variable("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "0.0.0.0:4191"),
        variable("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "127.0.0.1:4140"),
        variable("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "0.0.0.0:4143"),
        pod_field("LINKERD2_PROXY_INBOUND_IPS", "status.podIPs"),
        variable("LINKERD2_PROXY_INBOUND_PORTS", ports),
        variable("LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION", opaque),
        variable("LINKERD2_PROXY_DESTINATION_PROFILE_SUFFIXES", format!("svc.{domain}.")),
        variable("LINKERD2_PROXY_INBOUND_ACCEPT_KEEPALIVE", "10000ms"),
        variable("LINKERD2_PROXY_OUTBOUND_CONNECT_KEEPALIVE", "10000ms"),
        variable("LINKERD2_PROXY_INBOUND_ACCEPT_USER_TIMEOUT", "30s"),
        variable("LINKERD2_PROXY_OUTBOUND_CONNECT_USER_TIMEOUT", "30s"),
        variable(
            "LINKERD2_PROXY_DESTINATION_CONTEXT",
            r#"{"ns":"$(_pod_ns)", "nodeName":"$(_pod_nodeName)", "pod":"$(_pod_name)"}"#,
        ),
        variable("LINKERD2_PROXY_IDENTITY_DIR", "/var/run/linkerd/identity/end-entity"),
        variable("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS", trust_anchors),
        variable("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", "/var/run/secrets/tokens/linkerd-identity-token"),
        variable("LINKERD2_PROXY_IDENTITY_SVC_ADDR", service("linkerd-identity-headless", 8080)),
        variable("LINKERD2_PROXY_IDENTITY_LOCAL_NAME", format!("$(_pod_sa).$(_pod_ns).{IDENTITY}")),
        variable("LINKERD2_PROXY_IDENTITY_SVC_NAME", account("linkerd-identity")),
        variable("LINKERD2_PROXY_DESTINATION_SVC_NAME", account("linkerd-destination")),
        variable("LINKERD2_PROXY_POLICY_SVC_NAME", account("linkerd-destination")),
    ]
}
