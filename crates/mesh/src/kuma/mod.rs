//! Kuma: the capture of `kumactl install transparent-proxy`.

mod config;
mod ownership;
mod pod;
mod rules;
mod settings;

pub use config::{CaptureConfig, Flow, OwnerPorts, VirtualNetwork, unknown_user};
pub use ownership::OWNERSHIP;
pub use rules::Reason;
pub use settings::Kuma;

pub(crate) use config::configure;
pub(crate) use rules::write;

use crate::facts::{
    ConfigKeys, DnsCapture, ListItem, Listeners, Lists, PASSTHROUGH_V6, Proxy, ProxyProgram, Selector,
};
use crate::limit::{Caution, excluded};
use crate::policy::PolicyFacts;
use crate::registry::{MeshEntry, v4_always};
use ::rules::routing::Object;

pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[(Kuma::CaptureAllDns, "true", &[Kuma::RedirectDns])],
    pods: Some(&pod::FORM),
    annotations: pod::ANNOTATIONS,
    proxy_program: ProxyProgram { name: "Envoy (kuma-dp)", resolver: None, tunnel: None, ports: &[] },
    reasons: rules::REASONS,
    chains: rules::CHAINS,
    limits: &[],
    keys: ConfigKeys::of_all(
        (Kuma::IpFamilyMode, "set {--ip-family-mode} to dualstack"),
        Some(Kuma::ProxyUser),
        Some([Kuma::OutboundPort, Kuma::InboundPort]),
    ),
    without_ipv6: None,
    cautions: &[
        Caution::of_invalid_packets(Kuma::DropInvalid, "give {--drop-invalid-packets}"),
        excluded!(Kuma::InboundPortsExclude, beside Kuma::InboundPortsInclude, "include-inbound-ports"),
        excluded!(Kuma::OutboundPortsExclude, beside Kuma::OutboundPortsInclude, "include-outbound-ports"),
    ],
    remedy_of_gap: v4_always!("Kuma", "--ip-family-mode dualstack"),
    recognition: ownership::RECOGNITION,
};

pub(crate) fn facts(config: &CaptureConfig) -> PolicyFacts {
    let CaptureConfig { ipv6, inbound, outbound, dns, .. } = config;
    let (captures_dns, machines) = (*dns != DnsCapture::Off, !config.networks.is_empty());
    let listeners = Listeners {
        outbound: (outbound.is_captured || machines).then_some(outbound.listener.into()),
        inbound: (inbound.is_captured || outbound.is_captured).then_some(inbound.listener.into()),
        dns: (captures_dns || machines).then_some(config.dns_listener),
        ..Listeners::default()
    };
    PolicyFacts {
        ipv6: *ipv6,
        captures_nothing: !inbound.is_captured && !outbound.is_captured && !captures_dns && !machines,
        routing: ipv6.then_some(Object::Address(PASSTHROUGH_V6)).into_iter().collect(),
        stale_flows: dns.stale_flows(*ipv6),
        proxy: Proxy { listeners, uids: vec![config.proxy_uid], has_passthrough: true, ..Proxy::default() },
    }
}

pub(crate) fn without_dns(config: CaptureConfig) -> CaptureConfig {
    CaptureConfig { dns: DnsCapture::Off, ..config }
}

pub(crate) fn lists(config: &CaptureConfig) -> Vec<ListItem> {
    let CaptureConfig { inbound, outbound, .. } = config;
    let mut lists = Lists::default();
    let of_inbound = [Kuma::InboundPortsInclude, Kuma::InboundPortsExclude];
    lists.select(of_inbound, &inbound.ports, Selector::InboundPort);
    let of_outbound = [Kuma::OutboundPortsInclude, Kuma::OutboundPortsExclude];
    lists.select(of_outbound, &outbound.ports, Selector::outbound_tcp);
    lists.add(Kuma::InboundIpsExclude, false, &inbound.excluded, Selector::Source);
    lists.add(Kuma::OutboundIpsExclude, false, &outbound.excluded, Selector::Destination);
    lists.add(Kuma::OutboundPortsForUids, false, &config.excluded_owners, |owner| Selector::User(owner.uids));
    if let DnsCapture::Servers(servers) = &config.dns {
        lists.add(Kuma::RedirectDns, true, servers, Selector::Server);
    }
    lists.add(Kuma::Vnet, true, &config.networks, |network| Selector::VmInterface(network.interface));
    lists.0
}
