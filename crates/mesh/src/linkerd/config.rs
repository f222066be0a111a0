//! Numbers from linkerd's charts, the validated capture configuration, and its construction from settings.

use super::settings::Linkerd;
use crate::sources::{Raw, SettingReader};
use crate::{facts::port, policy::configuration, settings::Setting};
use rules::{Chains, Cidr, Gid, Ownership, PolicyRules, Port, PortRange, Predecessor, Uid};
use std::str::FromStr;

/// Port where the control plane taps the proxy's traffic, never captured (`proxy.ports.control`).
pub(super) const CONTROL_PORT: Port = port(4190);
/// Port of the proxy's probes and metrics, never captured (`proxy.ports.admin`).
pub(super) const ADMIN_PORT: Port = port(4191);

/// Chart values, as written in flags and annotations.
pub(super) mod text {
    pub(crate) const INBOUND_LISTENER: &str = "4143";
    pub(crate) const OUTBOUND_LISTENER: &str = "4140";
    pub(crate) const PROXY_ID: &str = "2102";
    /// Galera replication ports, excluded by default (`proxyInit.ignoreInboundPorts`, `..OutboundPorts`).
    pub(crate) const SKIPPED_PORTS: &str = "4567,4568";
    pub(crate) const SKIPPED_INBOUND: &str = "4190,4191,4567,4568";
}

pub(super) const COMMENTS: &str = "proxy-init/";

/// Chains and comments are upstream's. Protocol 140 is unassigned (`/etc/iproute2/rt_protos`).
pub const OWNERSHIP: Ownership = Ownership {
    name: "linkerd",
    mesh: "linkerd",
    chains: Chains::Prefix("PROXY_INIT_"),
    conflicting_chains: &[],
    comment: "sidecar-init-linkerd",
    comment_prefix: Some(COMMENTS),
    table: "sidecar_init_linkerd",
    protocol: 140,
    policy_rules: PolicyRules::PLAIN,
    address: None,
    predecessor: Some(&PROXY_INIT),
    opt_out: "annotate the pod linkerd.io/inject=disabled",
    joined: &[],
};

/// Our rules equal proxy-init's, comments included: nothing distinguishes them.
const PROXY_INIT: Predecessor =
    Predecessor { name: "proxy-init", patterns: &[], log_group: None, policy_rule: None, tables: &[] };

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    pub(super) network: Cidr,
    /// The network as given: digits, letters, dots, colons and a slash, for the rule's comment.
    pub(super) written: String,
}

const UNSET: &str = "-1";

/// `proxy-init` defaults that differ from the chart defaults.
pub const IMPLICIT_DEFAULTS: &[(Setting, &str)] = &[(Linkerd::ProxyUid, UNSET)];

// No host look-ups: users and groups are numbers here, and no rule depends on the pod's addresses. Lists keep their order.
configuration! {
    |reader, _host, _numbers_only|
    ipv6: bool = reader.switch_or(Linkerd::Ipv6, true);
    inbound_listener: Port = reader.port(Linkerd::IncomingProxyPort, port(4143));
    outbound_listener: Port = reader.port(Linkerd::OutgoingProxyPort, port(4140));
    proxy_uid: Option<Uid> = owner(reader, Linkerd::ProxyUid, "user", Uid::new(2102));
    proxy_gid: Option<Gid> = owner(reader, Linkerd::ProxyGid, "group", None);
    /// Captured ports, at least one; `None` for all.
    inbound_ports: Option<Vec<Port>> = inbound_ports(reader);
    ignored_inbound: Vec<PortRange> = reader.list(Linkerd::InboundPortsToIgnore, SettingReader::port_item_or_zero);
    ignored_outbound: Vec<PortRange> = reader.list(Linkerd::OutboundPortsToIgnore, SettingReader::port_item_or_zero);
    ignored_subnets: Vec<Subnet> = reader.list(Linkerd::SubnetsToIgnore, |reader, source, item| {
        let network = reader.cidr_item(source, item)?;
        Some(Subnet { network, written: item.to_owned() })
    });
    => {
        if inbound_listener == outbound_listener {
            // The other port may be a default, which can't be reported.
            let (setting, place) = match reader.raw.get(Linkerd::OutgoingProxyPort) {
                Some(_) => (Linkerd::OutgoingProxyPort, "{--incoming-proxy-port} sends inbound"),
                None => (Linkerd::IncomingProxyPort, "{--outgoing-proxy-port} sends outbound"),
            };
            reader.blame(setting, &format!("is the port to which {place} connections; inbound and outbound \
                                            need separate ports"));
        }
    }
}

fn owner<T: FromStr + Copy>(
    reader: &mut SettingReader<'_>,
    setting: Setting,
    noun: &str,
    default: Option<T>,
) -> Option<T> {
    let complaint = format!("is not a {noun}; expected a number from 0 to 4294967294, or {UNSET} for none");
    let read = |text: &str| if text == UNSET { Some(None) } else { text.parse().ok().map(Some) };
    reader.scalar(setting, &complaint, read).unwrap_or(default)
}

fn inbound_ports(reader: &mut SettingReader<'_>) -> Option<Vec<Port>> {
    let ports = reader.list(Linkerd::PortsToRedirect, |reader, source, item| {
        let text =
            "is not a port to capture; expected a number from 1 to 65535, as each port gets a separate rule";
        reader.taken(source, item, item.parse().map_err(|_| text))
    });
    (!ports.is_empty()).then_some(ports)
}

/// Flags that are not given and have no default in `proxy-init`.
pub fn missing(raw: &Raw) -> impl Iterator<Item = Setting> + '_ {
    let listeners = [Linkerd::IncomingProxyPort, Linkerd::OutgoingProxyPort];
    listeners.into_iter().filter(|setting| raw.get(*setting).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::NullHost;

    #[test]
    fn default_strings_equal_the_numbers() {
        let config = configure(&mut SettingReader::new(&Raw::default(), Vec::new()), &NullHost, true);
        assert_eq!(text::INBOUND_LISTENER, config.inbound_listener.to_string());
        assert_eq!(text::OUTBOUND_LISTENER, config.outbound_listener.to_string());
        assert_eq!(Some(text::PROXY_ID.to_owned()), config.proxy_uid.map(|uid| uid.to_string()));
        let inbound = format!("{CONTROL_PORT},{ADMIN_PORT},{}", text::SKIPPED_PORTS);
        assert_eq!(text::SKIPPED_INBOUND, inbound);
    }
}
