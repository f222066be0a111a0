//! Facts about a mesh's capture configuration, besides its rules: the proxy, its listeners, and list items.

use crate::settings::Setting;
use rules::{
    Cidr, Family, Gid, InterfaceName, Mark, Match, Negatable, Port, PortRange, Protocol, Uid, UidRange, Zone,
    desired::StaleFlows, nft::Condition,
};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const fn port(number: u16) -> Port {
    Port::new(number).expect("not 0")
}

pub const DNS_PORT: Port = port(53);

/// Conntrack zone of the proxy's own DNS queries. In a common zone, the proxy's and application's queries from one port would be
/// one connection, and a reply would reach the wrong socket.
pub const PROXY_ZONE: Zone = Zone::new(1).expect("not 0");
pub(crate) const CLIENT_ZONE: Zone = Zone::new(2).expect("not 0");

/// Source addresses of proxies' calls to their application (Istio's `InboundPassthroughBindIpv4` and `..Ipv6`).
pub const PASSTHROUGH_V4: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);
pub const PASSTHROUGH_V6: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6);

pub(crate) fn passthrough(family: Family) -> IpAddr {
    match family {
        Family::V4 => PASSTHROUGH_V4.into(),
        Family::V6 => PASSTHROUGH_V6.into(),
    }
}

pub fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection<T> {
    AllBut(Vec<T>),
    Only(Vec<T>),
}

impl<T> Selection<T> {
    /// `excluded` applies only if `only` is `None` (all captured).
    pub(crate) fn of(only: Option<Vec<T>>, excluded: Vec<T>) -> Self {
        only.map_or(Self::AllBut(excluded), Self::Only)
    }

    pub(crate) fn takes_all(&self) -> bool {
        matches!(self, Self::AllBut(_))
    }

    pub(crate) fn but(&self) -> &[T] {
        if let Self::AllBut(items) = self { items } else { &[] }
    }

    pub(crate) fn only(&self) -> &[T] {
        if let Self::Only(items) = self { items } else { &[] }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsCapture {
    Off,
    Servers(Vec<IpAddr>),
    All,
}

impl DnsCapture {
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

    /// Conntrack flows of captured queries, except the proxy's own, in a separate zone.
    pub(crate) fn stale_flows(&self, ipv6: bool) -> Option<StaleFlows> {
        let destinations = match self {
            Self::Off => return None,
            Self::All => None,
            Self::Servers(servers) => Some(servers.iter().copied().collect()),
        };
        let families = Family::captured(ipv6).filter(|family| !self.servers(*family).is_empty()).collect();
        Some(StaleFlows { port: DNS_PORT.number(), destinations, except_zone: PROXY_ZONE, families })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listeners {
    pub outbound: Option<PortRange>,
    pub inbound: Option<PortRange>,
    pub dns: Option<Port>,
    /// Listener for the mesh's tunnels, dialled directly, so never captured.
    pub tunnel: Option<Port>,
    /// Mark of packets for a transparent inbound listener (TPROXY).
    pub transparent: Option<Mark>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    pub listeners: Listeners,
    pub uids: Vec<Uid>,
    pub gids: Vec<Gid>,
    /// Mark that identifies the proxy's packets, if any.
    pub mark: Option<Mark>,
    pub has_passthrough: bool,
}

impl Proxy {
    /// True if rules can distinguish the proxy's traffic from the application's.
    pub fn is_known(&self) -> bool {
        !self.uids.is_empty() || !self.gids.is_empty() || self.mark.is_some()
    }

    pub fn passthrough(&self, family: Family) -> Option<IpAddr> {
        self.has_passthrough.then(|| passthrough(family))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyProgram {
    pub name: &'static str,
    /// Component that answers captured DNS queries, if not the program itself.
    pub resolver: Option<&'static str>,
    pub tunnel: Option<&'static str>,
    /// Ports of the pod that the program serves itself, for metrics and probes.
    pub ports: &'static [Port],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Advice {
    pub why: &'static str,
    pub setting: Setting,
    pub remedy: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigKeys {
    /// Setting that switches capture off, if any, and the remedy if that is unintended.
    pub off: Option<(Setting, &'static str)>,
    /// Setting that selects captured traffic, if any, and the remedy if it selects none.
    pub on: (Option<Setting>, &'static str),
    /// IPv6 capture setting, and its remedy, such as `give --dual-stack`.
    pub ipv6: (Setting, &'static str),
    pub proxy: Option<Setting>,
    pub listeners: Option<[Setting; 2]>,
}

impl ConfigKeys {
    pub(crate) const fn of_all(
        ipv6: (Setting, &'static str),
        proxy: Option<Setting>,
        listeners: Option<[Setting; 2]>,
    ) -> Self {
        let on = (None, "remove the exclusion that covers everything");
        Self { off: None, on, ipv6, proxy, listeners }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    Destination(Cidr),
    Source(Cidr),
    OutboundPort(PortRange, &'static [Protocol]),
    InboundPort(PortRange),
    Tunnel(Port),
    Interface(InterfaceName),
    /// Interface of guests behind the pod, such as virtual machines.
    VmInterface(InterfaceName),
    User(UidRange),
    Group(Gid),
    Server(IpAddr),
}

impl Selector {
    pub(crate) fn outbound_tcp(ports: PortRange) -> Self {
        Self::OutboundPort(ports, &[Protocol::Tcp])
    }

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
        matched.condition().expect("each match has a condition")
    }

    pub fn family(&self) -> Option<Family> {
        self.condition().field.family()
    }
}

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

#[derive(Default)]
pub(crate) struct Lists(pub(crate) Vec<ListItem>);

impl Lists {
    pub(crate) fn add<'a, T: Clone + 'a>(
        &mut self,
        setting: Setting,
        captured: bool,
        items: impl IntoIterator<Item = &'a T>,
        selector: impl Fn(T) -> Selector,
    ) {
        let item = |item: &T| ListItem { setting, selector: selector(item.clone()), captured };
        self.0.extend(items.into_iter().map(item));
    }

    /// Adds captured items under the setting `only`, or exclusions under `except`.
    pub(crate) fn select<T: Clone>(
        &mut self,
        [only, except]: [Setting; 2],
        selection: &Selection<T>,
        selector: impl Fn(T) -> Selector,
    ) {
        match selection {
            Selection::Only(items) => self.add(only, true, items, selector),
            Selection::AllBut(items) => self.add(except, false, items, selector),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListItem {
    pub setting: Setting,
    pub selector: Selector,
    pub captured: bool,
}
