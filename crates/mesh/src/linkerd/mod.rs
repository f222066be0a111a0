//! Linkerd's sidecar: `proxy-init` rules, all for TCP in the table `nat`, reproduced exactly, so that listings are
//! comparable.

mod config;
mod rules;
mod settings;

pub use config::{CaptureConfig, IMPLICIT_DEFAULTS, OWNERSHIP, missing};
pub use rules::{Reason, commands};
pub use settings::Linkerd;

pub(crate) use config::configure;
pub(crate) use rules::write;

use crate::facts::{ConfigKeys, ListItem, Listeners, Lists, Proxy, ProxyProgram, Selector};
use crate::pod::{GivenSettings, Pod, mesh::Form};
use crate::registry::{MeshEntry, Recognition, v4_always};
use crate::{
    limit::excluded, mesh::KnownAnnotations, policy::PolicyFacts, recognition::Role, sources::Source,
};
use ::rules::{Port, field::Field};
use config::{ADMIN_PORT, CONTROL_PORT, text};

pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[
        (Linkerd::IncomingProxyPort, text::INBOUND_LISTENER, &[]),
        (Linkerd::OutgoingProxyPort, text::OUTBOUND_LISTENER, &[]),
        (Linkerd::ProxyUid, text::PROXY_ID, &[]),
        (Linkerd::InboundPortsToIgnore, text::SKIPPED_INBOUND, &[]),
        (Linkerd::OutboundPortsToIgnore, text::SKIPPED_PORTS, &[]),
    ],
    pods: Some(&FORM),
    annotations: ANNOTATIONS,
    proxy_program: ProxyProgram {
        name: "linkerd-proxy",
        resolver: None,
        tunnel: None,
        ports: &[CONTROL_PORT, ADMIN_PORT],
    },
    reasons: rules::REASONS,
    chains: rules::CHAINS,
    limits: &[],
    keys: ConfigKeys::of_all(
        (Linkerd::Ipv6, "give {--ipv6}"),
        Some(Linkerd::ProxyUid),
        Some([Linkerd::OutgoingProxyPort, Linkerd::IncomingProxyPort]),
    ),
    without_ipv6: None,
    cautions: &[
        excluded!(Linkerd::InboundPortsToIgnore, beside Linkerd::PortsToRedirect, "ports-to-redirect"),
    ],
    remedy_of_gap: v4_always!("linkerd", "--ipv6"),
    recognition: Recognition::of(|context| match context.role {
        Role::Inbound if context.rule.action.captures() && context.summary.ports().is_none() => {
            Some(Reason::ToInboundListener)
        }
        Role::Outbound if context.summary.values(Field::Uid).is_some() => Some(Reason::ProxyUser),
        _ => None,
    }),
};

pub(crate) fn facts(config: &CaptureConfig) -> PolicyFacts {
    let listeners = Listeners {
        outbound: Some(config.outbound_listener.into()),
        inbound: Some(config.inbound_listener.into()),
        ..Listeners::default()
    };
    let (uids, gids) = (Vec::from_iter(config.proxy_uid), Vec::from_iter(config.proxy_gid));
    let proxy = Proxy { listeners, uids, gids, ..Proxy::default() };
    PolicyFacts { ipv6: config.ipv6, proxy, ..PolicyFacts::default() }
}

/// DNS queries over UDP are never captured; over TCP, they are captured like all TCP.
pub(crate) fn without_dns(config: CaptureConfig) -> CaptureConfig {
    config
}

pub(crate) fn lists(config: &CaptureConfig) -> Vec<ListItem> {
    let mut lists = Lists::default();
    let captured = config.inbound_ports.iter().flatten();
    lists.add(Linkerd::PortsToRedirect, true, captured, |port| Selector::InboundPort(port.into()));
    lists.add(Linkerd::InboundPortsToIgnore, false, &config.ignored_inbound, Selector::InboundPort);
    lists.add(Linkerd::OutboundPortsToIgnore, false, &config.ignored_outbound, Selector::outbound_tcp);
    lists.add(Linkerd::SubnetsToIgnore, false, &config.ignored_subnets, |subnet| {
        Selector::Source(subnet.network)
    });
    lists.0
}

const FORM: Form = Form {
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
    // As linkerd's plugin does; the injector lacks a node configuration.
    added_to: &[Linkerd::InboundPortsToIgnore],
    more,
};

/// Excludes the proxy's ports, which annotations may change, and the API server's ports, which the control plane calls directly.
fn more(pod: &Pod, settings: &mut GivenSettings) {
    let own = [("control-port", CONTROL_PORT), ("admin-port", ADMIN_PORT)].map(|(name, default)| {
        let given = pod.annotations.get(&format!("config.linkerd.io/{name}"));
        // The injector ignores values that are not numbers.
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

/// Annotations that linkerd's injector reads or writes (`pkg/k8s/labels.go`), except settings.
const ANNOTATIONS: KnownAnnotations = KnownAnnotations {
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
