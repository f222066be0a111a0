//! Turns words into a configuration, or into everything that is wrong with them.

use super::config::{CaptureConfig, LinkerdInboundPorts, Subnet};
use super::defaults::{INBOUND_LISTENER, OUTBOUND_LISTENER, PROXY_ID};
use super::settings::Linkerd;
use crate::settings::Setting;
use crate::sources::{Host, Raw, SettingReader};
use rules::{Gid, Port, Uid};
use std::str::FromStr;

/// The value for no user or group.
pub(super) const UNSET: &str = "-1";

/// The defaults of `proxy-init` for flags that are not given, where they differ from those of the charts.
pub const IMPLICIT_DEFAULTS: &[(Setting, &str)] = &[(Linkerd::ProxyUid, UNSET)];

/// Where the reader has a problem, the result must not be used. Nothing is asked of the host: users and groups are
/// numbers here, and no rule depends on an address of the pod.
pub fn configure(reader: &mut SettingReader<'_>, _host: &dyn Host, _numbers_only: bool) -> CaptureConfig {
    let config = CaptureConfig {
        ipv6: reader.switch_or(Linkerd::Ipv6, true),
        inbound_listener: reader.port(Linkerd::IncomingProxyPort, INBOUND_LISTENER),
        outbound_listener: reader.port(Linkerd::OutgoingProxyPort, OUTBOUND_LISTENER),
        proxy_uid: owner(reader, Linkerd::ProxyUid, "user", Uid::new(PROXY_ID)),
        proxy_gid: owner::<Gid>(reader, Linkerd::ProxyGid, "group", None),
        inbound_ports: inbound_ports(reader),
        ignored_inbound: reader.list(Linkerd::InboundPortsToIgnore, SettingReader::port_item_or_zero),
        ignored_outbound: reader.list(Linkerd::OutboundPortsToIgnore, SettingReader::port_item_or_zero),
        ignored_subnets: subnets(reader),
    };
    if config.inbound_listener == config.outbound_listener {
        // The other one may be the default, which is no value to complain about.
        let (setting, text) = match reader.raw.get(Linkerd::OutgoingProxyPort) {
            Some(_) => (
                Linkerd::OutgoingProxyPort,
                "is where {--incoming-proxy-port} sends inbound connections; the proxy needs a port for each",
            ),
            None => (
                Linkerd::IncomingProxyPort,
                "is where {--outgoing-proxy-port} sends outbound connections; the proxy needs a port for each",
            ),
        };
        reader.blame(setting, text);
    }
    config
}

fn owner<T: FromStr + Copy>(
    reader: &mut SettingReader<'_>,
    setting: Setting,
    noun: &str,
    default: Option<T>,
) -> Option<T> {
    let complaint = format!("is not a {noun}; expected a number from 0 to 4294967294, or {UNSET} for none");
    let read = |text: &str| match text {
        UNSET => Some(None),
        number => number.parse().ok().map(Some),
    };
    reader.scalar(setting, &complaint, read).unwrap_or(default)
}

/// A range is not allowed: each port has a separate rule.
fn inbound_ports(reader: &mut SettingReader<'_>) -> LinkerdInboundPorts {
    let ports = reader.list(Linkerd::PortsToRedirect, |reader, source, item| {
        let port: Option<Port> = item.parse().ok();
        if port.is_none() {
            let text = "is not a port to capture; expected a number from 1 to 65535, as each port gets a separate rule";
            reader.problem(source, item, text);
        }
        port
    });
    if ports.is_empty() { LinkerdInboundPorts::All } else { LinkerdInboundPorts::Only(ports) }
}

fn subnets(reader: &mut SettingReader<'_>) -> Vec<Subnet> {
    reader.list(Linkerd::SubnetsToIgnore, |reader, source, item| {
        let network = reader.cidr_item(source, item)?;
        Some(Subnet { network, written: item.to_owned() })
    })
}

/// The flags of which `proxy-init` has no default, where they are not given.
pub fn missing(raw: &Raw) -> impl Iterator<Item = Setting> + '_ {
    [Linkerd::IncomingProxyPort, Linkerd::OutgoingProxyPort]
        .into_iter()
        .filter(|setting| raw.get(*setting).is_none())
}
