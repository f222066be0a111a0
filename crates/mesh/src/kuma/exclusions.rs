//! The settings whose values have a special form: ports of users, networks behind interfaces; and which settings belong
//! to which direction.

use super::config::{OwnerPorts, VirtualNetwork};
use super::defaults;
use super::settings::Kuma;
use crate::settings::Setting;
use crate::sources::{Given, SettingReader, Source};
use rules::{Cidr, Port, PortRange, Protocol, UidRange};
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) struct DirectionSettings {
    pub(super) is_captured: Setting,
    pub(super) listener: Setting,
    pub(super) default: Port,
    pub(super) included: Setting,
    pub(super) excluded: Setting,
    pub(super) networks: Setting,
    pub(super) is_inserted: Setting,
}

impl DirectionSettings {
    pub(super) const INBOUND: Self = Self {
        is_captured: Kuma::RedirectInbound,
        listener: Kuma::InboundPort,
        default: defaults::INBOUND_LISTENER,
        included: Kuma::InboundPortsInclude,
        excluded: Kuma::InboundPortsExclude,
        networks: Kuma::InboundIpsExclude,
        is_inserted: Kuma::InboundInsert,
    };
    pub(super) const OUTBOUND: Self = Self {
        is_captured: Kuma::RedirectOutbound,
        listener: Kuma::OutboundPort,
        default: defaults::OUTBOUND_LISTENER,
        included: Kuma::OutboundPortsInclude,
        excluded: Kuma::OutboundPortsExclude,
        networks: Kuma::OutboundIpsExclude,
        is_inserted: Kuma::OutboundInsert,
    };
}

const EVERY_PORT: &str = "1-65535";
const USERS_FORM: &str = "expected [[PROTO:]PORTS:]UID such as 106, 80,443:106-108 or tcp:1000-2000:106; several are \
                          separated by ;";
const NETWORK_FORM: &str =
    "expected an interface and its network, such as docker0:172.17.0.0/16 or br+:fd00::/64";

pub(super) fn network(reader: &mut SettingReader<'_>, source: &Source, item: &str) -> Option<Cidr> {
    match item.parse::<IpAddr>() {
        Ok(address) => Some(Cidr::host(address)),
        Err(_) => reader.cidr_item(source, item),
    }
}

pub(super) fn is_given(reader: &SettingReader<'_>, setting: Setting) -> bool {
    reader.raw.get(setting).is_some_and(|given| items(given).next().is_some())
}

fn items(given: &Given) -> impl Iterator<Item = &str> {
    given.value.split(';').map(|item| item.trim_matches([' ', '\t'])).filter(|item| !item.is_empty())
}

/// One item for each protocol.
pub(super) fn of_users(reader: &mut SettingReader<'_>) -> Vec<OwnerPorts> {
    let Some(given) = reader.raw.get(Kuma::OutboundPortsForUids) else { return Vec::new() };
    let items: Vec<&str> = items(given).collect();
    let owners =
        reader.read_items(Kuma::OutboundPortsForUids, &items, &given.source, |reader, source, item| {
            of_user(item).map_err(|text| reader.problem(source, item, text)).ok()
        });
    owners.into_iter().flatten().collect()
}

fn of_user(item: &str) -> Result<Vec<OwnerPorts>, String> {
    let parts: Vec<&str> = item.split(':').map(str::trim).collect();
    let (protocols, ports, uids) = match parts[..] {
        [uids] => ("", "", uids),
        [ports, uids] => ("", ports, uids),
        [protocols, ports, uids] => (protocols, ports, uids),
        _ => return Err(format!("has too many parts; {USERS_FORM}")),
    };
    if uids.is_empty() {
        return Err(format!("names no user, which would mean all users; {USERS_FORM}"));
    }
    let uids: UidRange = uids
        .parse()
        .map_err(|_| format!("ends in {uids:?}, which is not a user or a range of users; {USERS_FORM}"))?;
    let ports = match ports {
        "" | "*" => EVERY_PORT,
        ports => ports,
    };
    let port = |port: &str| {
        let fault =
            |_| format!("has {port:?}, which is not a port from 1 to 65535 or range of ports; {USERS_FORM}");
        port.trim().parse().map_err(fault)
    };
    let ports: Vec<PortRange> = ports.split(',').map(port).collect::<Result<_, _>>()?;
    let protocol = |protocol: &str| match protocol.trim().to_ascii_lowercase().as_str() {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        _ => Err(format!("has {protocol:?}, which is neither tcp nor udp; {USERS_FORM}")),
    };
    let protocols: Vec<Protocol> = match protocols {
        "" | "*" => vec![Protocol::Tcp, Protocol::Udp],
        protocols => protocols.split(',').map(protocol).collect::<Result<_, _>>()?,
    };
    Ok(protocols.into_iter().map(|protocol| OwnerPorts { protocol, ports: ports.clone(), uids }).collect())
}

/// Sorted by interface. Of two of one family behind one interface, the later counts.
pub(super) fn networks(reader: &mut SettingReader<'_>) -> Vec<VirtualNetwork> {
    let read = reader.list(Kuma::Vnet, |reader, source, item| {
        let Some((interface, network)) = item.split_once(':') else {
            reader.problem(source, item, format!("has no colon; {NETWORK_FORM}"));
            return None;
        };
        let interface = interface.parse().map_err(|error| format!("{error}; {NETWORK_FORM}"));
        let network = Cidr::parse_noting_host_bits(network);
        let network = network.map_err(|error| format!("{error}; {NETWORK_FORM}"));
        match (interface, network) {
            (Ok(interface), Ok((network, host_bits))) => {
                if host_bits {
                    reader.warn_of_host_bits(source, item, network);
                }
                Some(VirtualNetwork { interface, network })
            }
            (Err(text), _) | (_, Err(text)) => {
                reader.problem(source, item, text);
                None
            }
        }
    });
    let mut networks = BTreeMap::new();
    for network in read {
        let family = network.network.family();
        networks.insert((network.interface.clone(), family), network);
    }
    networks.into_values().collect()
}
