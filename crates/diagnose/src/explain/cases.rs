//! The packets of a matrix: callers and destinations, by all that the configuration distinguishes.

use super::pod::{OUTSIDE, PodContext, Sender};
use super::question;
use super::routes::{IncomingPacket, Routes};
use crate::pod_packets::PLAIN_PORTS;
use mesh::settings::Setting;
use mesh::{CapturePolicy, DNS_PORT, ListItem, Selector};
use rules::nft::Interval;
use rules::simulate::{Direction, Packet};
use rules::{Cidr, Family, InterfaceName, PortRange, Protocol};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One cell of the matrix.
#[derive(Clone, Debug)]
pub struct Case {
    pub family: Family,
    /// Packets from the pod, or to it, as a heading.
    pub direction: &'static str,
    /// The row: what the packet is about. Several items of one list may share a row.
    pub row: CaseRow,
    /// The column: who sends it, and over what.
    pub column: &'static str,
    /// The packet; `None` where there is none to be had.
    pub packet: Option<Packet>,
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseRow {
    /// A word before the item, such as `port`.
    pub noun: &'static str,
    /// The item of an option's list, or what it is where no option names it.
    pub item: String,
    /// The list that names it.
    pub list: Option<List>,
}

/// A list of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    pub setting: Setting,
    /// What its items are.
    pub meaning: &'static str,
}

impl List {
    /// The setting as people type it, by its letter where it has one.
    pub fn option(self) -> String {
        self.setting.row().short_option()
    }
}

/// The headings of both tables.
pub(super) const FROM_POD: &str = "From the pod to";
pub(super) const TO_POD: &str = "From outside to";

/// Items of a list that become cases; longer lists would make a table too long to read.
const MAX_ITEMS: usize = 200;

/// All cases of the families of which the pod has an address.
pub fn usual_cases(pod: &PodContext, routes: &dyn Routes, config: Option<&dyn CapturePolicy>) -> Vec<Case> {
    let of = |family| pod.addresses.iter().copied().find(|address| Family::of(*address) == family);
    let lists = config.map(|config| config.lists()).unwrap_or_default();
    let own = Family::BOTH.into_iter().filter_map(|family| Some((family, of(family)?)));
    own.flat_map(|(family, own)| {
        let arriving = IncomingPacket { to: own, from: None, at: None, mark: 0 };
        let outside = routes.arriving(&arriving).map_or(OUTSIDE.to_owned(), |arrival| arrival.interface);
        let mut list = Cases { family, own, outside, pod, routes, lists: &lists, cases: Vec::new() };
        list.calls();
        list.arrivals();
        list.cases
    })
    .collect()
}

struct Cases<'a> {
    family: Family,
    own: IpAddr,
    /// The interface at which packets from outside arrive.
    outside: String,
    pod: &'a PodContext,
    routes: &'a dyn Routes,
    lists: &'a [ListItem],
    cases: Vec<Case>,
}

impl<'a> Cases<'a> {
    fn calls(&mut self) {
        let port = self.plain_port();
        let elsewhere = self.elsewhere();
        let loopback = mesh::loopback(self.family);
        self.call(&CaseRow::of("loopback", &loopback), SocketAddr::new(loopback, port));
        let itself =
            if self.pod.is_known { CaseRow::of("itself", &self.own) } else { CaseRow::plain("itself") };
        self.call(&itself, SocketAddr::new(self.own, port));
        let included: Vec<Cidr> = self.networks(true).map(|(_, network)| network).collect();
        let captured = included.first().map_or(elsewhere, |network| self.within(*network, true));
        for listed in self.shown_items() {
            match &listed.selector {
                Selector::Destination(network) => {
                    let to = self.within(*network, listed.captured);
                    self.call(&CaseRow::listed("", network, listed), SocketAddr::new(to, port));
                }
                Selector::OutboundPort(ports, _) => {
                    let to = if listed.captured { elsewhere } else { captured };
                    self.call(&CaseRow::ports(*ports, listed), SocketAddr::new(to, ports.first().number()));
                }
                Selector::Server(server) => {
                    self.call(&CaseRow::of("DNS at", server), SocketAddr::new(*server, DNS_PORT.number()));
                }
                Selector::Interface(interface) => {
                    let row = CaseRow::listed("by", interface, listed);
                    self.call_by(&row, SocketAddr::new(captured, port), Some(&member(interface)));
                }
                Selector::Source(_)
                | Selector::InboundPort(_)
                | Selector::Tunnel(_)
                | Selector::VmInterface(_)
                | Selector::User(..)
                | Selector::Group(_) => {}
            }
        }
        self.call(&CaseRow::plain("DNS elsewhere"), SocketAddr::new(elsewhere, DNS_PORT.number()));
        self.call(&CaseRow::plain("anywhere else"), SocketAddr::new(elsewhere, port));
    }

    fn arrivals(&mut self) {
        let port = self.plain_port();
        let (pod, outside) = (self.own, self.outside.clone());
        let own = |port| SocketAddr::new(pod, port);
        for listed in self.shown_items() {
            match &listed.selector {
                Selector::InboundPort(ports) => {
                    self.arrive(&CaseRow::ports(*ports, listed), own(ports.first().number()), &outside, true);
                }
                Selector::Tunnel(port) => {
                    self.arrive(&CaseRow::ports((*port).into(), listed), own(port.number()), &outside, true);
                }
                Selector::Source(network) => {
                    let row = CaseRow::listed("", network, listed);
                    self.arrive_from(&row, self.within(*network, false), own(port));
                }
                Selector::Interface(name) => {
                    self.arrive(&CaseRow::listed("at", name, listed), own(port), &member(name), true);
                }
                Selector::VmInterface(name) => {
                    let to = SocketAddr::new(self.elsewhere(), port);
                    self.arrive(&CaseRow::listed("out of", name, listed), to, &member(name), false);
                }
                Selector::Destination(_)
                | Selector::OutboundPort(..)
                | Selector::User(..)
                | Selector::Group(_)
                | Selector::Server(_) => {}
            }
        }
        self.arrive(&CaseRow::plain("any other port"), own(port), &outside, true);
    }

    /// The first items of each list, of those that packets of the family can match.
    fn shown_items(&self) -> Vec<&'a ListItem> {
        let mut counts: BTreeMap<Setting, usize> = BTreeMap::new();
        let is_of_family =
            |listed: &&ListItem| listed.selector.family().is_none_or(|family| family == self.family);
        let is_shown = |listed: &&ListItem| {
            let count = counts.entry(listed.setting).or_default();
            *count += 1;
            *count <= MAX_ITEMS
        };
        self.lists.iter().filter(is_of_family).filter(is_shown).collect()
    }

    fn call(&mut self, row: &CaseRow, to: SocketAddr) {
        self.call_by(row, to, None);
    }

    /// The pod's processes call.
    fn call_by(&mut self, row: &CaseRow, to: SocketAddr, by: Option<&str>) {
        for (column, sender, protocol) in [
            ("app tcp", Sender::App, Protocol::Tcp),
            ("app udp", Sender::App, Protocol::Udp),
            ("proxy tcp", Sender::Proxy, Protocol::Tcp),
            ("proxy udp", Sender::Proxy, Protocol::Udp),
        ] {
            let mut packet = question::usual_packet(sender, self.pod, self.routes, protocol, to);
            if let (Some(Packet { direction: Direction::Outbound { interface, .. }, .. }), Some(by)) =
                (&mut packet, by)
            {
                by.clone_into(interface);
            }
            self.cases.push(Case {
                family: self.family,
                direction: FROM_POD,
                row: row.clone(),
                column,
                packet,
            });
        }
    }

    /// A call from outside the pod, or from a virtual machine within it.
    fn arrive(&mut self, row: &CaseRow, to: SocketAddr, at: &str, is_local: bool) {
        for (column, protocol) in [("tcp", Protocol::Tcp), ("udp", Protocol::Udp)] {
            let usual = question::usual_packet(
                Sender::External,
                self.pod,
                self.routes,
                protocol,
                SocketAddr::new(self.own, to.port()),
            );
            let direction = Direction::Inbound { interface: at.to_owned(), local: is_local };
            let packet = usual.map(|packet| Packet { direction, destination: to, ..packet });
            self.cases.push(Case {
                family: self.family,
                direction: TO_POD,
                row: row.clone(),
                column,
                packet,
            });
        }
    }

    /// A call from this address outside the pod.
    fn arrive_from(&mut self, row: &CaseRow, from: IpAddr, to: SocketAddr) {
        let (first, outside) = (self.cases.len(), self.outside.clone());
        self.arrive(row, to, &outside, true);
        for packet in self.cases[first..].iter_mut().filter_map(|case| case.packet.as_mut()) {
            packet.source.set_ip(from);
        }
    }

    /// Networks of the family that lists name as destinations, captured or excluded.
    fn networks(&self, captured: bool) -> impl Iterator<Item = (Setting, Cidr)> {
        let of_family = |listed: &ListItem| match listed.selector {
            Selector::Destination(network) if network.family() == self.family => {
                Some((listed.setting, network))
            }
            _ => None,
        };
        self.lists.iter().filter(move |listed| listed.captured == captured).filter_map(of_family)
    }

    /// A port that no list names.
    fn plain_port(&self) -> u16 {
        let is_listed = |port: u16| {
            self.lists.iter().any(|listed| match &listed.selector {
                Selector::InboundPort(ports) | Selector::OutboundPort(ports, _) => ports.contains(port),
                _ => false,
            })
        };
        PLAIN_PORTS.into_iter().find(|port| !is_listed(*port)).unwrap_or(PLAIN_PORTS[0])
    }

    /// An address that no list names; if each is named, one that is not excluded, if possible.
    fn elsewhere(&self) -> IpAddr {
        let candidates: [IpAddr; 3] = match self.family {
            Family::V4 => [[192, 0, 2, 10], [198, 51, 100, 10], [203, 0, 113, 10]].map(IpAddr::from),
            Family::V6 => [0x2001_0db8, 0x2600_0000, 0x2a00_0000]
                .map(|head: u128| Ipv6Addr::from_bits((head << 96) + 10).into()),
        };
        let is_in = |captured, address: &IpAddr| {
            self.networks(captured).any(|(_, network)| network.contains(*address))
        };
        let not_excluded: Vec<IpAddr> =
            candidates.into_iter().filter(|address| !is_in(false, address)).collect();
        let unnamed = not_excluded.iter().find(|address| !is_in(true, address));
        unnamed.or(not_excluded.first()).copied().unwrap_or(candidates[0])
    }

    /// An address of a network: if possible none that an excluded network holds too, where it is to be captured, and none
    /// of the pod's own.
    fn within(&self, network: Cidr, not_excluded: bool) -> IpAddr {
        let excluded: Vec<Cidr> = self.networks(false).map(|(_, network)| network).collect();
        let ends = excluded.iter().filter(|other| network.contains(other.address()));
        let ends = ends.map(|other| other.interval());
        let ends = ends.flat_map(|ends| [ends.first.wrapping_sub(1), ends.last.wrapping_add(1)]);
        let Interval { first, last } = network.interval();
        let candidates = [
            first + u128::from(first < last),
            first,
            last - u128::from(first < last),
            first + (last - first) / 2,
        ];
        let is_good = |address: &IpAddr| {
            let is_out = not_excluded && excluded.iter().any(|other| other.contains(*address));
            network.contains(*address) && !is_out && !self.pod.addresses.contains(address)
        };
        let addresses = candidates.into_iter().chain(ends).filter_map(|bits| self.address(bits));
        addresses.into_iter().find(is_good).unwrap_or(network.address())
    }

    fn address(&self, bits: u128) -> Option<IpAddr> {
        match self.family {
            Family::V4 => u32::try_from(bits).ok().map(|bits| Ipv4Addr::from_bits(bits).into()),
            Family::V6 => Some(Ipv6Addr::from_bits(bits).into()),
        }
    }
}

impl CaseRow {
    fn plain(item: &str) -> Self {
        Self { noun: "", item: item.to_owned(), list: None }
    }

    fn of(noun: &'static str, item: &dyn ToString) -> Self {
        Self { noun, item: item.to_string(), list: None }
    }

    fn listed(noun: &'static str, item: &dyn ToString, of: &ListItem) -> Self {
        let list = List { setting: of.setting, meaning: of.meaning() };
        Self { noun, item: item.to_string(), list: Some(list) }
    }

    fn ports(ports: PortRange, of: &ListItem) -> Self {
        Self::listed("port", &ports.dashed().to_string(), of)
    }
}

/// An interface that a name covers, which may be the prefix of several.
fn member(name: &InterfaceName) -> String {
    name.prefix().map_or_else(|| name.to_string(), |prefix| format!("{prefix}0"))
}

pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}
