//! Facts about a mesh's capture configuration, beside its rules: who the proxy is, where it listens, and what the settings name
//! that include or exclude traffic.

use crate::settings::Setting;
use rules::nft::Condition;
use rules::{
    Cidr, Family, Gid, InterfaceName, Mark, Match, Negatable, Port, PortRange, Protocol, Uid, UidRange, Zone,
    desired::StaleFlows,
};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A port by its number, for the defaults of meshes.
pub(crate) const fn port(number: u16) -> Port {
    Port::new(number).expect("not 0")
}

/// The port of DNS (RFC 1035, 4.2).
pub const DNS_PORT: Port = port(53);

/// The address by which a host calls itself.
pub fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Which DNS queries are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsCapture {
    Off,
    Servers(Vec<IpAddr>),
    /// Those to every server.
    All,
}

impl DnsCapture {
    /// The servers of a family to which queries are captured; `None` in place of one is any server.
    pub(crate) fn servers(&self, family: Family) -> Vec<Option<Cidr>> {
        match self {
            Self::Off => Vec::new(),
            Self::All => vec![None],
            Self::Servers(servers) => {
                let own = servers.iter().copied().filter(|server| Family::of(*server) == family);
                own.map(|server| Some(Cidr::host(server))).collect()
            }
        }
    }

    /// Queries that the rules capture and that conntrack may know from before. The proxy's own, which have their zone, are
    /// excluded.
    pub(crate) fn stale_flows(
        &self,
        except_zone: Zone,
        families: impl Iterator<Item = Family>,
    ) -> Option<StaleFlows> {
        let destinations = match self {
            Self::Off => return None,
            Self::All => None,
            Self::Servers(servers) => Some(servers.iter().copied().collect()),
        };
        Some(StaleFlows { port: DNS_PORT.number(), destinations, except_zone, families: families.collect() })
    }
}

/// Where the proxy listens; `None` where nothing is sent to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listeners {
    /// For connections that leave the pod.
    pub outbound: Option<PortRange>,
    /// For connections that arrive.
    pub inbound: Option<PortRange>,
    /// For DNS queries, by UDP and TCP.
    pub dns: Option<Port>,
    /// For tunnels of the mesh: called by its number, and so never captured.
    pub tunnel: Option<Port>,
    /// The mark of what is handed to the inbound listener unchanged, where that is a transparent one (TPROXY).
    pub transparent: Option<Mark>,
}

/// Who the proxy is, and where it listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    pub listeners: Listeners,
    /// Users whose traffic is its own.
    pub uids: Vec<Uid>,
    /// Groups whose traffic is its own.
    pub gids: Vec<Gid>,
    /// The mark of its own packets, where it is known by that.
    pub mark: Option<Mark>,
    /// The source addresses of its connections to the application, where it has its own for that: 127.0.0.6 and ::6 of
    /// Istio's.
    pub passthrough: Option<(Ipv4Addr, Ipv6Addr)>,
}

impl Proxy {
    /// The source address of its connections to the application in a family.
    pub fn passthrough(&self, family: Family) -> Option<IpAddr> {
        self.passthrough.map(|(v4, v6)| match family {
            Family::V4 => v4.into(),
            Family::V6 => v6.into(),
        })
    }
}

/// The program that every pod's proxy of a mesh is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyProgram {
    pub name: &'static str,
    /// The component that answers captured DNS queries, where the program does not.
    pub resolver: Option<&'static str>,
    /// What the protocol of the mesh's tunnels is called, where it has them.
    pub tunnel: Option<&'static str>,
    /// Ports of the pod that the program serves itself, for metrics and probes.
    pub ports: &'static [Port],
}

/// The facts for advice where IPv6 is not captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Advice {
    /// Why, in a sentence without its stop.
    pub why: &'static str,
    pub setting: Setting,
    /// What helps where the pod has IPv6.
    pub remedy: &'static str,
}

/// What helps where settings leave nothing to capture, and no single one decides what to capture.
pub(crate) const NOTHING_LEFT: (Option<Setting>, &str) =
    (None, "take out of them what leaves everything alone");

/// The settings that change what every mesh has, for advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigKeys {
    /// The setting that switches capture off, where there is one, and what helps if that is unintended.
    pub off: Option<(Setting, &'static str)>,
    /// The setting of what to capture, where there is one, and what helps where it captures nothing.
    pub on: (Option<Setting>, &'static str),
    /// The setting of whether IPv6 is captured, and how to capture it, such as `give --dual-stack`.
    pub ipv6: (Setting, &'static str),
    /// The setting of whose traffic is the proxy's own; `None` if there is none.
    pub proxy: Option<Setting>,
    /// The settings of where the proxy listens, outbound and inbound, where they can be chosen.
    pub listeners: Option<[Setting; 2]>,
}

/// What is named by a list of a setting, or by the policy itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    /// Where connections go that leave.
    Destination(Cidr),
    /// Where connections come from that arrive.
    Source(Cidr),
    /// The port of connections that leave, of these protocols.
    OutboundPort(PortRange, &'static [Protocol]),
    /// The port of connections that arrive.
    InboundPort(PortRange),
    /// The port of the mesh's tunnels, which is never captured.
    Tunnel(Port),
    /// An interface by which traffic comes and goes.
    Interface(InterfaceName),
    /// An interface of guests behind the pod, such as virtual machines.
    VmInterface(InterfaceName),
    /// A user of the application, or a range of them.
    User(UidRange),
    Group(Gid),
    Server(IpAddr),
}

impl Selector {
    /// The condition by which rules select such packets.
    pub fn condition(&self) -> Condition {
        let matched = match self {
            Self::Destination(network) => Match::Destination(Negatable::Is(*network)),
            Self::Source(network) => Match::Source(Negatable::Is(*network)),
            Self::OutboundPort(ports, _) | Self::InboundPort(ports) => {
                Match::DestinationPort(Negatable::Is(*ports))
            }
            Self::Tunnel(port) => Match::DestinationPort(Negatable::Is((*port).into())),
            Self::Interface(name) | Self::VmInterface(name) => {
                Match::InInterface(Negatable::Is(name.clone()))
            }
            Self::User(users) => Match::UidOwner(Negatable::Is(*users)),
            Self::Group(group) => Match::GidOwner(Negatable::Is(*group)),
            Self::Server(address) => Match::Destination(Negatable::Is(Cidr::host(*address))),
        };
        matched.condition().expect("each of these matches asks something")
    }

    /// The family of the addresses that it names; `None` where it names none.
    pub fn family(&self) -> Option<Family> {
        self.condition().field.family()
    }
}

/// The item as lists have it.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destination(network) | Self::Source(network) => network.fmt(f),
            Self::OutboundPort(ports, _) | Self::InboundPort(ports) => ports.fmt(f),
            Self::Tunnel(port) => port.fmt(f),
            Self::Interface(name) | Self::VmInterface(name) => name.fmt(f),
            Self::User(users) => users.dashed().fmt(f),
            Self::Group(group) => group.fmt(f),
            Self::Server(address) => address.fmt(f),
        }
    }
}

/// The items of lists, setting by setting.
#[derive(Default)]
pub(crate) struct Lists(pub(crate) Vec<ListItem>);

impl Lists {
    /// Adds the items of a setting's list, which names what is captured, or else what is excluded.
    pub(crate) fn add<T>(
        &mut self,
        setting: Setting,
        captured: bool,
        items: impl IntoIterator<Item = T>,
        selector: impl Fn(T) -> Selector,
    ) {
        let item = |item| ListItem { setting, selector: selector(item), captured };
        self.0.extend(items.into_iter().map(item));
    }
}

/// An item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListItem {
    pub setting: Setting,
    pub selector: Selector,
    /// Whether it names what is captured, and not what is excluded.
    pub captured: bool,
}
