//! Kuma: what `kumactl install transparent-proxy` captures.
//!
//! Pure: a [`CaptureConfig`] goes in, rules for one family come out. The order of the rules is upstream's, because people
//! compare previews; the comment of each rule names its reason, and `reason.rs`
//! has the sentence that explains it.

mod config;
pub mod defaults;
mod exclusions;
pub mod keys;
mod ownership;
mod pod;
pub mod preview;
mod provenance;
mod reading;
mod reason;
mod resolve;
mod rules;
mod settings;
#[cfg(test)]
mod tests;
mod writer;

pub use config::{CaptureConfig, Dns, Flow, OwnerPorts, Ports, VirtualNetwork};
pub use ownership::OWNERSHIP;
pub use reason::Reason;
pub use resolve::{configure, unknown_user};
pub use settings::Kuma;

use crate::facts::{
    ConfigKeys, DnsCapture, ListItem, Listeners, NOTHING_LEFT, Proxy, ProxyProgram, Selector, Unused,
};
use crate::limit::Caution;
use crate::policy::CapturePolicy;
use crate::recognition::Role;
use crate::registry::{Capture, MeshEntry};
use crate::settings::Setting;
use ::rules::desired::StaleFlows;
use ::rules::finding::Code;
use ::rules::routing::Object;
use ::rules::{ByFamily, Family, Ownership, PortRange, Protocol, RuleSet};
use std::collections::BTreeSet;

impl CapturePolicy for CaptureConfig {
    fn owner(&self) -> Ownership {
        OWNERSHIP
    }

    fn ipv6(&self) -> bool {
        self.ipv6
    }

    fn captures_nothing(&self) -> bool {
        let flows = [&self.inbound, &self.outbound];
        flows.iter().all(|flow| !flow.is_captured)
            && self.dns.capture == DnsCapture::Off
            && self.networks.is_empty()
    }

    fn write(&self, family: Family) -> RuleSet {
        rules::write(self, family)
    }

    fn routing(&self) -> BTreeSet<Object> {
        self.ipv6.then_some(Object::Address(defaults::PASSTHROUGH_V6)).into_iter().collect()
    }

    fn stale_flows(&self) -> Option<StaleFlows> {
        let families = Family::captured(self.ipv6).filter(|family| self.captures_dns(*family));
        self.dns.capture.stale_flows(defaults::PROXY_ZONE, families)
    }

    fn without_dns(&self) -> Capture {
        Self { dns: Dns { capture: DnsCapture::Off, ..self.dns.clone() }, ..self.clone() }.into()
    }

    fn ipv4_alone(&self) -> Capture {
        Self { ipv6: false, ..self.clone() }.into()
    }

    fn proxy(&self) -> Proxy {
        let dns = self.dns.capture != DnsCapture::Off || !self.networks.is_empty();
        let machines = !self.networks.is_empty();
        Proxy {
            listeners: Listeners {
                outbound: (self.outbound.is_captured || machines).then_some(self.outbound.listener.into()),
                inbound: (self.inbound.is_captured || self.outbound.is_captured)
                    .then_some(self.inbound.listener.into()),
                dns: dns.then_some(self.dns.port),
                tunnel: None,
                transparent: None,
            },
            uids: vec![self.proxy_uid],
            gids: Vec::new(),
            mark: None,
            passthrough: Some((defaults::PASSTHROUGH_V4, defaults::PASSTHROUGH_V6)),
        }
    }

    fn unused(&self) -> Vec<Unused> {
        let cases = [
            (
                &self.inbound,
                Kuma::InboundPortsExclude,
                "it excludes ports from all ports, but only those of {--include-inbound-ports} are captured",
            ),
            (
                &self.outbound,
                Kuma::OutboundPortsExclude,
                "it excludes ports from all ports, but only those of {--include-outbound-ports} are captured",
            ),
        ];
        let unused = cases.into_iter().filter(|(flow, ..)| matches!(flow.ports, Ports::Only(_)));
        unused.map(|(_, setting, because)| Unused { setting, because, remedy: "drop the option" }).collect()
    }

    fn keys(&self) -> ConfigKeys {
        ConfigKeys {
            off: None,
            on: NOTHING_LEFT,
            ipv6: (Kuma::IpFamilyMode, "let {--ip-family-mode} be dualstack"),
            proxy: Some(Kuma::ProxyUser),
            listeners: vec![
                (Kuma::OutboundPort, self.outbound.listener.into()),
                (Kuma::InboundPort, self.inbound.listener.into()),
            ],
        }
    }

    fn lists(&self) -> Vec<ListItem> {
        lists(self)
    }
}

/// The mesh as data.
pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[(Kuma::CaptureAllDns, "true", &[Kuma::RedirectDns])],
    pods: Some(&pod::FORM),
    annotations: pod::ANNOTATIONS,
    proxy_program: ProxyProgram { name: "Envoy (kuma-dp)", resolver: None, tunnel: None, ports: &[] },
    ownership: OWNERSHIP,
    reasons: reason::ROWS,
    chains: &[
        ("KUMA_MESH_INBOUND", Role::Inbound),
        ("KUMA_MESH_OUTBOUND", Role::Outbound),
        ("KUMA_MESH_INBOUND_REDIRECT", Role::ToInboundListener),
        ("KUMA_MESH_OUTBOUND_REDIRECT", Role::ToOutboundListener),
    ],
    limits: &[],
    cautions: &[Caution {
        code: Code::InvalidPackets,
        is_warning: false,
        setting: Kuma::DropInvalid,
        applies: |facts| facts.lets_invalid_in(),
        text: "is off: one packet outside its connection's window resets a captured connection",
        remedy: "give {--drop-invalid-packets}",
    }],
    remedy_of_gap: ByFamily {
        v4: "set the rules again: those of Kuma always capture IPv4",
        v6: "set the rules with --ip-family-mode dualstack",
    },
    recognition: reading::RECOGNITION,
};

fn lists(config: &CaptureConfig) -> Vec<ListItem> {
    const TCP: &[Protocol] = &[Protocol::Tcp];
    let mut lists = Vec::new();
    let mut add = |setting: Setting, captured, selectors: Vec<Selector>| {
        lists.extend(selectors.into_iter().map(|selector| ListItem { setting, selector, captured }));
    };
    let inbound = |ports: &[PortRange]| ports.iter().copied().map(Selector::InboundPort).collect();
    match &config.inbound.ports {
        Ports::Only(ports) => add(Kuma::InboundPortsInclude, true, inbound(ports)),
        Ports::AllBut(ports) => add(Kuma::InboundPortsExclude, false, inbound(ports)),
    }
    let outbound =
        |ports: &[PortRange]| ports.iter().map(|ports| Selector::OutboundPort(*ports, TCP)).collect();
    match &config.outbound.ports {
        Ports::Only(ports) => add(Kuma::OutboundPortsInclude, true, outbound(ports)),
        Ports::AllBut(ports) => add(Kuma::OutboundPortsExclude, false, outbound(ports)),
    }
    let sources = config.inbound.excluded.iter().copied().map(Selector::Source);
    add(Kuma::InboundIpsExclude, false, sources.collect());
    let destinations = config.outbound.excluded.iter().copied().map(Selector::Destination);
    add(Kuma::OutboundIpsExclude, false, destinations.collect());
    let users = config.excluded_owners.iter().map(|owner| Selector::User(owner.uids));
    add(Kuma::OutboundPortsForUids, false, users.collect());
    if let DnsCapture::Servers(servers) = &config.dns.capture {
        add(Kuma::RedirectDns, true, servers.iter().copied().map(Selector::Server).collect());
    }
    let machines = config.networks.iter().map(|network| Selector::VmInterface(network.interface.clone()));
    add(Kuma::Vnet, true, machines.collect());
    lists
}
