//! Linkerd's sidecar: the rules of its `proxy-init`, all for TCP in the table `nat`, letter for letter, so that listings are
//! comparable.

mod config;
mod pod;
mod rules;
mod settings;

pub use config::{CaptureConfig, IMPLICIT_DEFAULTS, OWNERSHIP, missing};
pub use rules::{Reason, commands};
pub use settings::Linkerd;

pub(crate) use config::configure;
pub(crate) use rules::write;

use crate::facts::{ConfigKeys, ListItem, Listeners, Lists, Proxy, ProxyProgram, Selector};
use crate::limit::excluded;
use crate::policy::PolicyFacts;
use crate::recognition::Role;
use crate::registry::{MeshEntry, Recognition, v4_always};
use ::rules::field::Field;
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
    pods: Some(&pod::FORM),
    annotations: pod::ANNOTATIONS,
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

/// DNS queries over UDP are never captured; those over TCP are captured like all TCP.
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
