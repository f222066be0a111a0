//! Pods of linkerd: how its injector leaves them, and by which annotations they speak (`config.linkerd.io/`).

use super::defaults::{ADMIN_PORT, CONTROL_PORT, text};
use super::{IMPLICIT_DEFAULTS, Linkerd};
use crate::mesh::AnnotationGroup;
use crate::pod::mesh::Form;
use crate::pod::{GivenSettings, Pod};
use crate::sources::Source;
use rules::Port;

pub(crate) const FORM: Form = Form {
    init_containers: &["linkerd-init"],
    commands: &["proxy-init", "linkerd2-proxy-init", "linkerd-init"],
    init_reads_annotations: false,
    unsaid: IMPLICIT_DEFAULTS,
    idle: &[(Linkerd::Simulate, "it prints the commands and runs none (--simulate)")],
    proxy: Some("linkerd-proxy"),
    signs: &[("linkerd.io/inject", &["enabled", "ingress"])],
    domains: &["linkerd.io"],
    refusals: &[("linkerd.io/inject", &["disabled"])],
    injected: &[("linkerd.io/proxy-version", &[]), ("linkerd.io/created-by", &[])],
    presets: &[
        (Linkerd::IncomingProxyPort, text::INBOUND_LISTENER),
        (Linkerd::OutgoingProxyPort, text::OUTBOUND_LISTENER),
        (Linkerd::ProxyUid, text::PROXY_ID),
        // Its own ports come with it, see below.
        (Linkerd::InboundPortsToIgnore, text::SKIPPED_PORTS),
        (Linkerd::OutboundPortsToIgnore, text::SKIPPED_PORTS),
        (Linkerd::Ipv6, "false"),
    ],
    switches: &[],
    argument: |_, _, _, _| None,
    // As linkerd's plugin does; its injector has no configuration of the node's to add to.
    added_to: &[Linkerd::InboundPortsToIgnore],
    more,
};

/// The proxy's own ports, which are never captured and which other annotations may move; and the API server, which pods
/// of the control plane call past the proxy.
fn more(pod: &Pod, settings: &mut GivenSettings) {
    let port = |name: &str, default: Port| {
        let given = pod.annotations.get(&format!("config.linkerd.io/{name}"));
        // The injector skips what is not a number.
        given.and_then(|text| text.trim().parse().ok()).unwrap_or(default)
    };
    let (control, admin) = (port("control-port", CONTROL_PORT), port("admin-port", ADMIN_PORT));
    let setting = Linkerd::InboundPortsToIgnore;
    if let Some(given) = settings.raw.get(setting).cloned() {
        let items: Vec<&str> = given.value.split(',').map(str::trim).collect();
        // A node's configuration names them too.
        let own = [control, admin].map(|port| port.to_string());
        let missing = own.iter().map(String::as_str).filter(|port| !items.contains(port));
        let all: Vec<&str> = missing.chain([given.value.as_str()]).collect();
        settings.set(setting, all.join(","), given.source);
    }
    let component = "linkerd.io/control-plane-component";
    let is_component = pod.labels.as_ref().is_some_and(|labels| labels.contains_key(component));
    if is_component {
        let setting = Linkerd::OutboundPortsToIgnore;
        let given = settings.raw.get(setting).filter(|given| !matches!(given.source, Source::Preset(_)));
        let before = given.map(|given| format!("{},", given.value)).unwrap_or_default();
        let source = Source::Field(format!("its label {component}"));
        settings.set(setting, format!("{before}{}", text::SKIPPED_BY_CONTROL_PLANE), source);
    }
}

/// What its injector reads or writes (`pkg/k8s/labels.go`), beside the annotations of the settings.
pub(crate) const ANNOTATIONS: &[AnnotationGroup] = &[
    (
        None,
        &[
            "config.linkerd.io/admin-port",
            "config.linkerd.io/control-port",
            "linkerd.io/control-plane-component",
            "linkerd.io/created-by",
            "linkerd.io/inject",
            "linkerd.io/proxy-version",
        ],
    ),
    (Some("it sets a time limit of conntrack"), &["config.linkerd.io/close-wait-timeout"]),
    (
        Some("they describe the control plane, or the workload to it"),
        &[
            "config.linkerd.io/pod-inbound-ports",
            "linkerd.io/cni-resource",
            "linkerd.io/control-plane-ns",
            "linkerd.io/extension",
            "linkerd.io/helm-release-version",
            "linkerd.io/identity-issuer-expiry",
            "linkerd.io/identity-mode",
            "linkerd.io/is-control-plane",
            "linkerd.io/trust-root-sha256",
            "linkerd.io/workload-ns",
            "viz.linkerd.io/external-prometheus",
            "viz.linkerd.io/tap-enabled",
        ],
    ),
    (
        Some("they configure the proxy behind its listeners, or its container"),
        &[
            "config.alpha.linkerd.io/proxy-enable-native-sidecar",
            "config.alpha.linkerd.io/proxy-wait-before-exit-seconds",
            "config.alpha.linkerd.io/trace-collector-service-account",
            "config.beta.linkerd.io/proxy-enable-native-sidecar",
            "config.linkerd.io/access-log",
            "config.linkerd.io/debug-image",
            "config.linkerd.io/debug-image-pull-policy",
            "config.linkerd.io/debug-image-version",
            "config.linkerd.io/default-inbound-policy",
            "config.linkerd.io/disable-identity",
            "config.linkerd.io/disable-tap",
            "config.linkerd.io/enable-debug-sidecar",
            "config.linkerd.io/enable-external-profiles",
            "config.linkerd.io/enable-gateway",
            "config.linkerd.io/image-pull-policy",
            "config.linkerd.io/init-image",
            "config.linkerd.io/init-image-version",
            "config.linkerd.io/opaque-ports",
            "config.linkerd.io/proxy-admin-shutdown",
            "config.linkerd.io/proxy-await",
            "config.linkerd.io/proxy-cpu-limit",
            "config.linkerd.io/proxy-cpu-ratio-limit",
            "config.linkerd.io/proxy-cpu-request",
            "config.linkerd.io/proxy-disable-inbound-protocol-detect-timeout",
            "config.linkerd.io/proxy-disable-outbound-protocol-detect-timeout",
            "config.linkerd.io/proxy-ephemeral-storage-limit",
            "config.linkerd.io/proxy-ephemeral-storage-request",
            "config.linkerd.io/proxy-image",
            "config.linkerd.io/proxy-inbound-connect-timeout",
            "config.linkerd.io/proxy-inbound-discovery-cache-unused-timeout",
            "config.linkerd.io/proxy-log-format",
            "config.linkerd.io/proxy-log-http-headers",
            "config.linkerd.io/proxy-log-level",
            "config.linkerd.io/proxy-memory-limit",
            "config.linkerd.io/proxy-memory-request",
            "config.linkerd.io/proxy-metrics-hostname-labels",
            "config.linkerd.io/proxy-outbound-connect-timeout",
            "config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout",
            "config.linkerd.io/proxy-outbound-transport-mode",
            "config.linkerd.io/proxy-require-identity-inbound-ports",
            "config.linkerd.io/proxy-version",
            "config.linkerd.io/shutdown-grace-period",
            "config.linkerd.io/trace-collector",
            "config.linkerd.io/tracing",
        ],
    ),
];
