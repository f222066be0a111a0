//! Pods of linkerd: the form of injected ones, and the annotations with settings (`config.linkerd.io/`).

use super::config::{ADMIN_PORT, CONTROL_PORT, IMPLICIT_DEFAULTS, text};
use super::settings::Linkerd;
use crate::mesh::KnownAnnotations;
use crate::pod::mesh::Form;
use crate::pod::{GivenSettings, Pod};
use crate::sources::Source;
use rules::Port;

pub(crate) const FORM: Form = Form {
    init_containers: &["linkerd-init"],
    commands: &["proxy-init", "linkerd2-proxy-init", "linkerd-init"],
    init_reads_annotations: false,
    implied: IMPLICIT_DEFAULTS,
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
        (Linkerd::InboundPortsToIgnore, text::SKIPPED_PORTS),
        (Linkerd::OutboundPortsToIgnore, text::SKIPPED_PORTS),
        (Linkerd::Ipv6, "false"),
    ],
    switches: &[],
    argument: |_, _, _, _| None,
    // As linkerd's plugin does; its injector has no node configuration to add to.
    added_to: &[Linkerd::InboundPortsToIgnore],
    more,
};

/// Adds the proxy's own ports, which annotations may move, and the API server, which the control plane calls past the proxy.
fn more(pod: &Pod, settings: &mut GivenSettings) {
    let own = [("control-port", CONTROL_PORT), ("admin-port", ADMIN_PORT)].map(|(name, default)| {
        let given = pod.annotations.get(&format!("config.linkerd.io/{name}"));
        // The injector skips values that are not a number.
        given.and_then(|text| text.trim().parse::<Port>().ok()).unwrap_or(default).to_string()
    });
    let setting = Linkerd::InboundPortsToIgnore;
    if let Some(given) = settings.raw.get(setting).cloned() {
        let is_missing = |port: &&String| given.value.split(',').all(|item| item.trim() != **port);
        let all: Vec<&str> =
            own.iter().filter(is_missing).chain([&given.value]).map(String::as_str).collect();
        settings.set(setting, all.join(","), given.source);
    }
    let component = "linkerd.io/control-plane-component";
    if pod.labels.as_ref().is_some_and(|labels| labels.contains_key(component)) {
        let setting = Linkerd::OutboundPortsToIgnore;
        let given = settings.raw.get(setting).filter(|given| !matches!(given.source, Source::Preset(_)));
        let before = given.map(|given| format!("{},", given.value)).unwrap_or_default();
        let source = Source::Field(format!("its label {component}"));
        settings.set(setting, format!("{before}443,6443"), source);
    }
}

/// Annotations that its injector reads or writes (`pkg/k8s/labels.go`), beside those of the settings.
pub(crate) const ANNOTATIONS: KnownAnnotations = KnownAnnotations {
    deciding: &[
        "config.linkerd.io/admin-port control-port",
        "linkerd.io/control-plane-component created-by inject proxy-version",
    ],
    others: &[&[
        "config.alpha.linkerd.io/proxy-enable-native-sidecar proxy-wait-before-exit-seconds \
            trace-collector-service-account",
        "config.beta.linkerd.io/proxy-enable-native-sidecar",
        "config.linkerd.io/close-wait-timeout pod-inbound-ports access-log debug-image debug-image-pull-policy \
            debug-image-version default-inbound-policy disable-identity disable-tap enable-debug-sidecar \
            enable-external-profiles enable-gateway image-pull-policy init-image init-image-version opaque-ports \
            proxy-admin-shutdown proxy-await proxy-cpu-limit proxy-cpu-ratio-limit proxy-cpu-request \
            proxy-disable-inbound-protocol-detect-timeout proxy-disable-outbound-protocol-detect-timeout \
            proxy-ephemeral-storage-limit proxy-ephemeral-storage-request proxy-image proxy-inbound-connect-timeout \
            proxy-inbound-discovery-cache-unused-timeout proxy-log-format proxy-log-http-headers proxy-log-level \
            proxy-memory-limit proxy-memory-request proxy-metrics-hostname-labels proxy-outbound-connect-timeout \
            proxy-outbound-discovery-cache-unused-timeout proxy-outbound-transport-mode \
            proxy-require-identity-inbound-ports proxy-version shutdown-grace-period trace-collector tracing",
        "linkerd.io/cni-resource control-plane-ns extension helm-release-version identity-issuer-expiry \
            identity-mode is-control-plane trust-root-sha256 workload-ns",
        "viz.linkerd.io/external-prometheus tap-enabled",
    ]],
};
