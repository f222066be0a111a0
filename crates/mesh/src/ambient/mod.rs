//! Istio's ambient mode, inside of a pod: what its node agent sets there, so that traffic goes through ztunnel. ztunnel runs elsewhere and
//! opens its sockets in the pod's namespace, marked. So no user is matched, and no port, network or process can be excluded.

mod config;
pub mod defaults;
mod limits;
mod rules;
mod settings;

pub use config::{CaptureConfig, OWNERSHIP, probe_addresses};
pub use rules::Reason;
pub use settings::Ambient;

pub(crate) use config::configure;
pub(crate) use rules::write;

use crate::facts::{
    ConfigKeys, DnsCapture, ListItem, Listeners, Lists, NOTHING_LEFT, Proxy, ProxyProgram, Selector,
};
use crate::pod::mesh::Form;
use crate::policy::PolicyFacts;
use crate::recognition::{Role, is_loopback};
use crate::registry::{MeshEntry, Recognition};
use ::rules::field::Field;
use ::rules::{ByFamily, Cidr, Family, Table};

/// The agent's values are those of its chart.
pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[(Ambient::DnsCapture, "true", &[]), (Ambient::Ipv6, "true", &[])],
    pods: Some(&FORM),
    annotations: &[
        (None, &["ambient.istio.io/redirection", "istio.io/dataplane-mode"]),
        (
            Some("it is for waypoints, which nothing is captured of"),
            &["ambient.istio.io/waypoint-inbound-binding"],
        ),
    ],
    proxy_program: ProxyProgram { name: "ztunnel", resolver: None, tunnel: Some("HBONE"), ports: &[] },
    ownership: OWNERSHIP,
    reasons: rules::REASONS,
    chains: &[
        ("ISTIO_PRERT", Role::Inbound),
        ("ISTIO_PREROUTING", Role::Inbound),
        ("ISTIO_OUTPUT", Role::Outbound),
    ],
    // Ports and mark of ztunnel can't be chosen.
    keys: ConfigKeys {
        off: None,
        on: NOTHING_LEFT,
        ipv6: (Ambient::Ipv6, "give {--ipv6}"),
        proxy: None,
        listeners: None,
    },
    without_ipv6: None,
    limits: limits::LIMITS,
    cautions: &[],
    remedy_of_gap: ByFamily {
        v4: "set the rules again: those of ambient mode always capture IPv4",
        v6: "set the rules with --ipv6",
    },
    recognition: Recognition::of(|context| {
        let is_marked = context.role == Role::Outbound && context.summary.values(Field::Mark(0)).is_some();
        let is_answer = context.table() == Some(Table::Mangle) || is_marked && context.rule.action.passes();
        let is_own_pod = is_loopback(context.summary.values(Field::OutInterface));
        (is_answer && !is_own_pod).then_some(Reason::ProxyToApplication)
    }),
};

const FORM: Form = Form {
    init_containers: &[],
    commands: &[],
    init_reads_annotations: false,
    implied: &[],
    idle: &[],
    // ztunnel runs in a separate pod.
    proxy: None,
    signs: &[
        ("istio.io/dataplane-mode", &["ambient"]),
        ("ambient.istio.io/redirection", &["enabled", "pending"]),
    ],
    // Its labels are of the domain that a sidecar's are of.
    domains: &[],
    refusals: &[("istio.io/dataplane-mode", &["none"]), ("sidecar.istio.io/status", &[])],
    injected: &[],
    presets: &[],
    switches: &[],
    argument: |_, _, _, _| None,
    added_to: &[],
    more: |_, _| {},
};

pub(crate) fn facts(config: &CaptureConfig) -> PolicyFacts {
    let dns = if config.dns { DnsCapture::All } else { DnsCapture::Off };
    PolicyFacts {
        captures_nothing: false,
        routing: rules::routing(config),
        stale_flows: dns.stale_flows(defaults::PROXY_ZONE, Family::captured(config.ipv6)),
        proxy: Proxy {
            listeners: Listeners {
                outbound: Some(defaults::OUTBOUND_LISTENER.into()),
                inbound: (!config.ingress).then_some(defaults::INBOUND_LISTENER.into()),
                dns: config.dns.then_some(defaults::DNS_LISTENER),
                tunnel: Some(defaults::TUNNEL_PORT),
                transparent: None,
            },
            mark: Some(defaults::PROXY_MARK),
            ..Proxy::default()
        },
    }
}

pub(crate) fn without_dns(config: CaptureConfig) -> CaptureConfig {
    CaptureConfig { dns: false, ..config }
}

pub(crate) fn lists(config: &CaptureConfig) -> Vec<ListItem> {
    let mut lists = Lists::default();
    lists.add(Ambient::RerouteInterfaces, true, config.interfaces.clone(), Selector::VmInterface);
    let probes = Family::captured(config.ipv6).flat_map(|family| {
        let address = Cidr::host(config.probe_address(family));
        let calls_in = (!config.ingress).then_some(Selector::Source(address));
        calls_in.into_iter().chain([Selector::Destination(address)])
    });
    lists.add(Ambient::ProbeAddress, false, probes, |selector| selector);
    lists.0
}
