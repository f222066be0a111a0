//! The policy of linkerd's sidecar: the rules that its `proxy-init` sets.
//!
//! All of it is in the table `nat` and is about TCP: what arrives goes to the proxy's inbound port, what leaves to
//! its outbound port, but for the proxy's own calls, calls over `lo`, and what lists exclude. Rules, their order and
//! their comments are upstream's, letter for letter, because people compare listings.

mod chains;
mod commands;
mod config;
pub mod defaults;
mod ownership;
mod pod;
mod reason;
mod resolve;
mod settings;

pub use commands::commands;
pub use config::{CaptureConfig, LinkerdInboundPorts, Subnet};
pub use ownership::OWNERSHIP;
pub use reason::Reason;
pub use resolve::{IMPLICIT_DEFAULTS, configure, missing};
pub use settings::Linkerd;

use crate::facts::{ConfigKeys, ListItem, Listeners, Lists, NOTHING_LEFT, Proxy, ProxyProgram, Selector};
use crate::limit::Caution;
use crate::mesh::Mesh;
use crate::policy::CapturePolicy;
use crate::recognition::Role;
use crate::registry::{Capture, MeshEntry, Recognition};
use defaults::text;
use rules::field::Field;
use rules::{ByFamily, Family, PortRange, Protocol, RuleSet};

/// The injector's values are those of the charts.
pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[
        (Linkerd::IncomingProxyPort, text::INBOUND_LISTENER, &[]),
        (Linkerd::OutgoingProxyPort, text::OUTBOUND_LISTENER, &[]),
        (Linkerd::ProxyUid, text::PROXY_ID, &[]),
        (Linkerd::InboundPortsToIgnore, text::SKIPPED_INBOUND, &[]),
        (Linkerd::OutboundPortsToIgnore, text::SKIPPED_PORTS, &[]),
    ],
    pods: Some(&pod::FORM),
    annotations: pod::ANNOTATIONS,
    proxy_program: ProxyProgram {
        name: "linkerd-proxy",
        resolver: None,
        tunnel: None,
        ports: &[defaults::CONTROL_PORT, defaults::ADMIN_PORT],
    },
    ownership: OWNERSHIP,
    reasons: reason::ROWS,
    chains: &[("PROXY_INIT_REDIRECT", Role::Inbound), ("PROXY_INIT_OUTPUT", Role::Outbound)],
    limits: &[],
    keys: ConfigKeys {
        off: None,
        on: NOTHING_LEFT,
        ipv6: (Linkerd::Ipv6, "give {--ipv6}"),
        proxy: Some(Linkerd::ProxyUid),
        listeners: Some([Linkerd::OutgoingProxyPort, Linkerd::IncomingProxyPort]),
    },
    cautions: &[Caution::unused(
        Linkerd::InboundPortsToIgnore,
        |facts| facts.has(Linkerd::PortsToRedirect),
        "it excludes ports from all ports, but only those of {--ports-to-redirect} are captured",
        "drop the option",
    )],
    remedy_of_gap: ByFamily {
        v4: "set the rules again: those of linkerd always capture IPv4",
        v6: "set the rules with --ipv6",
    },
    recognition: Recognition::of(|context| match context.role {
        Role::Inbound if context.rule.action.captures() && context.summary.ports().is_none() => {
            Some(Reason::ToInboundListener.into())
        }
        Role::Outbound if context.summary.values(Field::Uid).is_some() => Some(Reason::ProxyUser.into()),
        _ => None,
    }),
};

impl CapturePolicy for CaptureConfig {
    fn mesh(&self) -> Mesh {
        Mesh::Linkerd
    }

    fn ipv6(&self) -> bool {
        self.ipv6
    }

    fn write(&self, family: Family) -> RuleSet {
        chains::write(self, family)
    }

    /// DNS queries by UDP are never captured, and those by TCP are captured as all TCP is.
    fn without_dns(&self) -> Capture {
        self.clone().into()
    }

    fn ipv4_alone(&self) -> Capture {
        Self { ipv6: false, ..self.clone() }.into()
    }

    fn proxy(&self) -> Proxy {
        Proxy {
            listeners: Listeners {
                outbound: Some(self.outbound_listener.into()),
                inbound: Some(self.inbound_listener.into()),
                ..Listeners::default()
            },
            uids: self.proxy_uid.into_iter().collect(),
            gids: self.proxy_gid.into_iter().collect(),
            ..Proxy::default()
        }
    }

    fn lists(&self) -> Vec<ListItem> {
        const TCP: &[Protocol] = &[Protocol::Tcp];
        let mut lists = Lists::default();
        let inbound = Selector::InboundPort;
        if let LinkerdInboundPorts::Only(ports) = &self.inbound_ports {
            lists.add(Linkerd::PortsToRedirect, true, ports, |port| inbound(PortRange::from(*port)));
        }
        lists.add(Linkerd::InboundPortsToIgnore, false, self.ignored_inbound.clone(), inbound);
        lists.add(Linkerd::OutboundPortsToIgnore, false, &self.ignored_outbound, |ports| {
            Selector::OutboundPort(*ports, TCP)
        });
        lists.add(Linkerd::SubnetsToIgnore, false, &self.ignored_subnets, |subnet| {
            Selector::Source(subnet.network())
        });
        lists.0
    }
}
