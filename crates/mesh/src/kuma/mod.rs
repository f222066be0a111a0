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
mod writer;

pub use config::{CaptureConfig, Dns, Flow, OwnerPorts, Ports, VirtualNetwork};
pub use ownership::OWNERSHIP;
pub use reason::Reason;
pub use resolve::{configure, unknown_user};
pub use settings::Kuma;

use crate::facts::{
    ConfigKeys, DnsCapture, ListItem, Listeners, Lists, NOTHING_LEFT, Proxy, ProxyProgram, Selector,
};
use crate::limit::Caution;
use crate::mesh::Mesh;
use crate::policy::CapturePolicy;
use crate::recognition::Role;
use crate::registry::{Capture, MeshEntry};
use ::rules::desired::StaleFlows;
use ::rules::finding::Code;
use ::rules::routing::Object;
use ::rules::{ByFamily, Family, Protocol, RuleSet};
use std::collections::BTreeSet;

impl CapturePolicy for CaptureConfig {
    fn mesh(&self) -> Mesh {
        Mesh::Kuma
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

    fn lists(&self) -> Vec<ListItem> {
        const TCP: &[Protocol] = &[Protocol::Tcp];
        let mut lists = Lists::default();
        let (inbound, outbound) = (Selector::InboundPort, |ports| Selector::OutboundPort(ports, TCP));
        match &self.inbound.ports {
            Ports::Only(ports) => lists.add(Kuma::InboundPortsInclude, true, ports.clone(), inbound),
            Ports::AllBut(ports) => lists.add(Kuma::InboundPortsExclude, false, ports.clone(), inbound),
        }
        match &self.outbound.ports {
            Ports::Only(ports) => lists.add(Kuma::OutboundPortsInclude, true, ports.clone(), outbound),
            Ports::AllBut(ports) => lists.add(Kuma::OutboundPortsExclude, false, ports.clone(), outbound),
        }
        lists.add(Kuma::InboundIpsExclude, false, self.inbound.excluded.clone(), Selector::Source);
        lists.add(Kuma::OutboundIpsExclude, false, self.outbound.excluded.clone(), Selector::Destination);
        lists.add(Kuma::OutboundPortsForUids, false, &self.excluded_owners, |owner| {
            Selector::User(owner.uids)
        });
        if let DnsCapture::Servers(servers) = &self.dns.capture {
            lists.add(Kuma::RedirectDns, true, servers.clone(), Selector::Server);
        }
        lists.add(Kuma::Vnet, true, &self.networks, |network| {
            Selector::VmInterface(network.interface.clone())
        });
        lists.0
    }
}

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
    keys: ConfigKeys {
        off: None,
        on: NOTHING_LEFT,
        ipv6: (Kuma::IpFamilyMode, "let {--ip-family-mode} be dualstack"),
        proxy: Some(Kuma::ProxyUser),
        listeners: Some([Kuma::OutboundPort, Kuma::InboundPort]),
    },
    cautions: &[
        Caution {
            code: Code::InvalidPackets,
            is_warning: false,
            setting: Kuma::DropInvalid,
            applies: |facts| facts.lets_invalid_in(),
            text: "is off: one packet outside its connection's window resets a captured connection",
            remedy: "give {--drop-invalid-packets}",
        },
        Caution::unused(
            Kuma::InboundPortsExclude,
            |facts| facts.has(Kuma::InboundPortsInclude),
            "it excludes ports from all ports, but only those of {--include-inbound-ports} are captured",
            "drop the option",
        ),
        Caution::unused(
            Kuma::OutboundPortsExclude,
            |facts| facts.has(Kuma::OutboundPortsInclude),
            "it excludes ports from all ports, but only those of {--include-outbound-ports} are captured",
            "drop the option",
        ),
    ],
    remedy_of_gap: ByFamily {
        v4: "set the rules again: those of Kuma always capture IPv4",
        v6: "set the rules with --ip-family-mode dualstack",
    },
    recognition: reading::RECOGNITION,
};
