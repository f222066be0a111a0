//! Istio's ambient mode inside a pod: the node agent's rules, which redirect traffic to ztunnel. ztunnel runs outside the pod
//! and opens marked sockets in the pod's namespace, so no rule matches a user, and no port, network or process can be excluded.

mod config;
pub mod defaults;
mod rules;
mod settings;

pub use config::{CaptureConfig, OWNERSHIP, probe_addresses};
pub use rules::Reason;
pub use settings::Ambient;

pub(crate) use config::configure;
pub(crate) use rules::write;

use crate::facts::{ConfigKeys, DnsCapture, ListItem, Listeners, Lists, Proxy, ProxyProgram, Selector};
use crate::recognition::{Role, is_loopback};
use crate::registry::{MeshEntry, Recognition, v4_always};
use crate::{limit::Limit, mesh::KnownAnnotations, pod::mesh::Form, policy::PolicyFacts};
use ::rules::simulate::{Direction, Packet};
use ::rules::{Cidr, Family, Protocol, Table, field::Field, finding::Code};
use defaults::{DNS_PORT, PROXY_MARK};
use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[(Ambient::DnsCapture, "true", &[]), (Ambient::Ipv6, "true", &[])],
    pods: Some(&FORM),
    annotations: KnownAnnotations {
        deciding: &["ambient.istio.io/redirection", "istio.io/dataplane-mode"],
        others: &[&["ambient.istio.io/waypoint-inbound-binding"]],
    },
    proxy_program: ProxyProgram { name: "ztunnel", resolver: None, tunnel: Some("HBONE"), ports: &[] },
    reasons: rules::REASONS,
    chains: &[
        ("ISTIO_PRERT", Role::Inbound),
        ("ISTIO_PREROUTING", Role::Inbound),
        ("ISTIO_OUTPUT", Role::Outbound),
    ],
    keys: ConfigKeys::of_all((Ambient::Ipv6, "give {--ipv6}"), None, None),
    without_ipv6: None,
    // Our rules equal Istio's agent's, limitations included.
    limits: LIMITS,
    cautions: &[],
    remedy_of_gap: v4_always!("ambient mode", "--ipv6"),
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
    proxy: None,
    signs: &[
        ("istio.io/dataplane-mode", &["ambient"]),
        ("ambient.istio.io/redirection", &["enabled", "pending"]),
    ],
    // Ambient labels share the sidecar's domain.
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
        ipv6: config.ipv6,
        captures_nothing: false,
        routing: rules::routing(config),
        stale_flows: dns.stale_flows(config.ipv6),
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
    lists.add(Ambient::RerouteInterfaces, true, &config.interfaces, Selector::VmInterface);
    let probes = Family::captured(config.ipv6).flat_map(|family| {
        let address = Cidr::host(*config.probes.get(family));
        let calls_in = (!config.ingress).then_some(Selector::Source(address));
        calls_in.into_iter().chain([Selector::Destination(address)])
    });
    lists.add(Ambient::ProbeAddress, false, &probes.collect::<Vec<_>>(), |selector| selector);
    lists.0
}

const LIMITS: &[Limit] = &[
    Limit {
        code: Code::HostCallsPass,
        reason: Reason::Probe,
        concerns: arrives,
        text: "calls from every process on the host, not only the kubelet, come from {} and bypass ztunnel",
        remedy: "on the host and in pods with hostNetwork, run only processes that may call this pod",
    },
    Limit {
        code: Code::ProbesComeFromElsewhere,
        reason: Reason::Probe,
        concerns: arrives,
        text: "filters such as a NetworkPolicy see probes come from {}, not from the node's address",
        remedy: "admit calls from {} wherever calls to this pod are filtered",
    },
    Limit {
        code: Code::MarkPasses,
        reason: Reason::Outbound,
        concerns: |packet, fulfils| {
            !fulfils && leaves(packet) && packet.protocol == Protocol::Tcp && PROXY_MARK.covers(packet.mark)
        },
        text: "a process that may mark sockets can bypass ztunnel with 0x539, ztunnel's own mark",
        remedy: "drop CAP_NET_ADMIN and, from Linux 5.17 on, CAP_NET_RAW in the pod's containers",
    },
    Limit {
        code: Code::OwnDnsByTcp,
        reason: Reason::Dns,
        concerns: |packet, _| is_query_to_own_pod(packet),
        text: "TCP queries to the pod itself, such as to 127.0.0.53, go to ztunnel; UDP queries stay in the pod",
        remedy: "let the pod's resolver listen on 127.0.0.1 or ::1, where no query is captured",
    },
    Limit {
        code: Code::VirtualMachineUdpPasses,
        reason: Reason::Machine,
        concerns: |_, fulfils| fulfils,
        text: "only TCP traffic from {} goes to ztunnel: DNS queries over UDP bypass it",
        remedy: "let the machine resolve over TCP, for example with `options use-vc` in its resolv.conf",
    },
    Limit {
        code: Code::DeadRule,
        reason: Reason::Machine,
        concerns: |_, fulfils| fulfils,
        text: "the RETURN rule for {} is never reached: the rule before it captures the same packets",
        remedy: "keep it: Istio's agent sets it too, and checks for it",
    },
];

fn arrives(packet: &Packet, fulfils: bool) -> bool {
    fulfils && !leaves(packet)
}

fn leaves(packet: &Packet) -> bool {
    matches!(packet.direction, Direction::Outbound { .. })
}

/// The TCP rule excludes one loopback address; the UDP rule, every packet on `lo`.
fn is_query_to_own_pod(packet: &Packet) -> bool {
    let to = packet.destination;
    let over_loopback =
        matches!(&packet.direction, Direction::Outbound { interface, .. } if interface == "lo");
    let is_the_one = to.ip() == Ipv4Addr::LOCALHOST || to.ip() == Ipv6Addr::LOCALHOST;
    over_loopback && !is_the_one && to.port() == DNS_PORT.number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mesh;

    #[test]
    fn limits_are_of_different_kinds() {
        for (at, limit) in LIMITS.iter().enumerate() {
            assert!(LIMITS[..at].iter().all(|other| other.code != limit.code), "{}", limit.code);
            assert_eq!(limit.reason.mesh(), Mesh::Ambient);
            assert!(!limit.text.ends_with('.') && !limit.remedy.ends_with('.'), "{}", limit.code);
        }
    }
}
