//! The packets that a matrix shows: who calls, to where, by all that the configuration tells apart.

use super::pod::{OUTSIDE, Pod, Sender};
use super::question;
use crate::istio::{CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs};
use rules::simulate::{Direction, Packet};
use rules::{Cidr, Family, InterfaceName, PortRange, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One cell of the matrix.
#[derive(Clone, Debug)]
pub struct Case {
    /// The family of its addresses.
    pub family: Family,
    /// Which table: packets from the pod, or to it.
    pub table: &'static str,
    /// The row: a list of which several items may share one, and what the row is about.
    pub row: Row,
    /// The column: who sends it, and over what.
    pub column: &'static str,
    /// The packet; `None` where there is none to be had.
    pub packet: Option<Packet>,
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// A word before the item, such as `port`.
    pub noun: &'static str,
    /// The item of an option's list, or what it is where no option names it.
    pub item: String,
    /// The option's letter.
    pub option: Option<&'static str>,
}

/// The headings of both tables.
pub(super) const FROM_POD: &str = "From the pod to";
pub(super) const TO_POD: &str = "From outside to";

/// Ports of which one is nothing special to most configurations.
const PLAIN_PORTS: [u16; 6] = [8080, 80, 9000, 12_345, 23_456, 34_567];
const DNS_PORT: u16 = 53;

/// More items of a list than that make no cases: their rows would be read by nobody.
const MOST_ITEMS: usize = 200;

/// All cases of the families of which the pod has an address.
pub fn usual_cases(pod: &Pod, config: Option<&CaptureConfig>) -> Vec<Case> {
    let of = |family| pod.addresses.iter().copied().find(|address| Family::of(*address) == family);
    let own = Family::BOTH.into_iter().filter_map(|family| Some((family, of(family)?)));
    own.flat_map(|(family, own)| {
        let mut list = List { family, own, pod, config, cases: Vec::new() };
        list.calls();
        list.arrivals();
        list.cases
    })
    .collect()
}

struct List<'a> {
    family: Family,
    own: IpAddr,
    pod: &'a Pod,
    config: Option<&'a CaptureConfig>,
    cases: Vec<Case>,
}

impl List<'_> {
    fn calls(&mut self) {
        let (config, port) = (self.config, self.plain_port());
        let elsewhere = self.elsewhere();
        let loopback: IpAddr = match self.family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        };
        self.call(&Row::of("loopback", &loopback), SocketAddr::new(loopback, port));
        self.call(&Row::of("itself", &self.own), SocketAddr::new(self.own, port));
        let included = self.included();
        for network in included.iter().take(MOST_ITEMS) {
            let to = self.within(*network, true);
            self.call(&Row::listed("", network, "-i"), SocketAddr::new(to, port));
        }
        let captured = included.first().map_or(elsewhere, |network| self.within(*network, true));
        if let Some(config) = config {
            let family = self.family;
            for network in config.excluded_cidrs.iter().filter(|n| n.family() == family).take(MOST_ITEMS) {
                let to = self.within(*network, false);
                self.call(&Row::listed("", network, "-x"), SocketAddr::new(to, port));
            }
            for ports in config.outbound_ports.iter().take(MOST_ITEMS) {
                self.call(&Row::ports(*ports, "-q"), SocketAddr::new(elsewhere, ports.first().number()));
            }
            for ports in config.excluded_outbound_ports.iter().take(MOST_ITEMS) {
                self.call(&Row::ports(*ports, "-o"), SocketAddr::new(captured, ports.first().number()));
            }
            if let DnsCapture::Servers(servers) = &config.dns {
                for server in servers.iter().filter(|server| Family::of(**server) == family).take(MOST_ITEMS)
                {
                    self.call(&Row::of("DNS at", server), SocketAddr::new(*server, DNS_PORT));
                }
            }
            for interface in &config.excluded_interfaces {
                let row = Row::listed("by", interface, "-c");
                self.call_by(&row, SocketAddr::new(captured, port), Some(&member(interface)));
            }
        }
        self.call(&Row::plain("DNS elsewhere"), SocketAddr::new(elsewhere, DNS_PORT));
        self.call(&Row::plain("anywhere else"), SocketAddr::new(elsewhere, port));
    }

    fn arrivals(&mut self) {
        let port = self.plain_port();
        let own = |port| SocketAddr::new(self.own, port);
        let mut rows: Vec<(Row, SocketAddr, &str, bool)> = Vec::new();
        let mut interfaces: Vec<(Row, String, bool)> = Vec::new();
        if let Some(config) = self.config {
            let (option, ports) = match &config.inbound_ports {
                InboundPorts::AllBut(ports) => ("-d", ports),
                InboundPorts::Only(ports) => ("-b", ports),
            };
            for ports in ports.iter().take(MOST_ITEMS) {
                rows.push((Row::ports(*ports, option), own(ports.first().number()), OUTSIDE, true));
            }
            if config.interception != Interception::None {
                rows.push((
                    Row::ports(config.tunnel_port.into(), "-e"),
                    own(config.tunnel_port.number()),
                    OUTSIDE,
                    true,
                ));
            }
            let of = |list: &[InterfaceName], noun, option, local| {
                let row = |name: &InterfaceName| (Row::listed(noun, name, option), member(name), local);
                list.iter().map(row).collect::<Vec<_>>()
            };
            interfaces.extend(of(&config.excluded_interfaces, "at", "-c", true));
            interfaces.extend(of(&config.vm_interfaces, "out of", "-k", false));
        }
        for (row, to, interface, local) in rows {
            self.arrive(&row, to, interface, local);
        }
        for (row, interface, local) in interfaces {
            let to = if local { self.own } else { self.elsewhere() };
            self.arrive(&row, SocketAddr::new(to, port), &interface, local);
        }
        self.arrive(&Row::plain("any other port"), SocketAddr::new(self.own, port), OUTSIDE, true);
    }

    fn call(&mut self, row: &Row, to: SocketAddr) {
        self.call_by(row, to, None);
    }

    /// The pod's processes call.
    fn call_by(&mut self, row: &Row, to: SocketAddr, by: Option<&str>) {
        for (column, sender, protocol) in [
            ("app tcp", Sender::App, Protocol::Tcp),
            ("app udp", Sender::App, Protocol::Udp),
            ("proxy tcp", Sender::Proxy, Protocol::Tcp),
            ("proxy udp", Sender::Proxy, Protocol::Udp),
        ] {
            let mut packet = question::usual(sender, self.pod, protocol, to);
            if let (Some(Packet { direction: Direction::Outbound { interface, .. }, .. }), Some(by)) =
                (&mut packet, by)
            {
                by.clone_into(interface);
            }
            self.cases.push(Case { family: self.family, table: FROM_POD, row: row.clone(), column, packet });
        }
    }

    /// Somebody calls from outside, or a virtual machine from within.
    fn arrive(&mut self, row: &Row, to: SocketAddr, at: &str, is_local: bool) {
        for (column, protocol) in [("tcp", Protocol::Tcp), ("udp", Protocol::Udp)] {
            let usual =
                question::usual(Sender::External, self.pod, protocol, SocketAddr::new(self.own, to.port()));
            let direction = Direction::Inbound { interface: at.to_owned(), local: is_local };
            let packet = usual.map(|packet| Packet { direction, destination: to, ..packet });
            self.cases.push(Case { family: self.family, table: TO_POD, row: row.clone(), column, packet });
        }
    }

    fn included(&self) -> Vec<Cidr> {
        match self.config.map(|config| &config.outbound_cidrs) {
            Some(OutboundCidrs::Only(networks)) => {
                networks.iter().copied().filter(|network| network.family() == self.family).collect()
            }
            Some(OutboundCidrs::All) | None => Vec::new(),
        }
    }

    /// A port that no list names.
    fn plain_port(&self) -> u16 {
        let is_listed = |port: u16| {
            let Some(config) = self.config else { return false };
            let inbound = match &config.inbound_ports {
                InboundPorts::AllBut(ports) | InboundPorts::Only(ports) => ports,
            };
            let lists = [inbound, &config.outbound_ports, &config.excluded_outbound_ports];
            lists.iter().any(|list| list.iter().any(|ports| ports.contains(port)))
        };
        PLAIN_PORTS.into_iter().find(|port| !is_listed(*port)).unwrap_or(PLAIN_PORTS[0])
    }

    /// An address that no list names.
    fn elsewhere(&self) -> IpAddr {
        let candidates: [IpAddr; 3] = match self.family {
            Family::V4 => [[192, 0, 2, 10], [198, 51, 100, 10], [203, 0, 113, 10]].map(IpAddr::from),
            Family::V6 => [0x2001_0db8, 0x2600_0000, 0x2a00_0000]
                .map(|head: u128| Ipv6Addr::from_bits((head << 96) + 10).into()),
        };
        let is_named = |address: &IpAddr| {
            let excluded = self.config.iter().flat_map(|config| &config.excluded_cidrs).copied();
            self.included().into_iter().chain(excluded).any(|network| network.contains(*address))
        };
        candidates.into_iter().find(|address| !is_named(address)).unwrap_or(candidates[0])
    }

    /// An address of a network: if possible none that an excluded network holds too, where it is to be captured, and none
    /// of the pod's own.
    fn within(&self, network: Cidr, not_excluded: bool) -> IpAddr {
        let excluded = self.config.map(|config| config.excluded_cidrs.as_slice()).unwrap_or_default();
        let ends = excluded.iter().filter(|other| network.contains(other.address()));
        let ends =
            ends.flat_map(|other| [number(other.address()).wrapping_sub(1), last(*other).wrapping_add(1)]);
        let (first, last) = (number(network.address()), last(network));
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

impl Row {
    fn plain(item: &str) -> Self {
        Self { noun: "", item: item.to_owned(), option: None }
    }

    fn of(noun: &'static str, item: &dyn ToString) -> Self {
        Self { noun, item: item.to_string(), option: None }
    }

    fn listed(noun: &'static str, item: &dyn ToString, option: &'static str) -> Self {
        Self { noun, item: item.to_string(), option: Some(option) }
    }

    fn ports(ports: PortRange, option: &'static str) -> Self {
        Self::listed("port", &ports.dashed().to_string(), option)
    }
}

/// An interface that a name stands for, which may be the beginning of several.
fn member(name: &InterfaceName) -> String {
    name.prefix().map_or_else(|| name.to_string(), |prefix| format!("{prefix}0"))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The last address of a network.
fn last(network: Cidr) -> u128 {
    let bits = u32::from(network.family().bits());
    let hosts = bits - u32::from(network.length());
    let ones = if hosts == 128 { u128::MAX } else { (1 << hosts) - 1 };
    number(network.address()) | ones
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_address_of_a_network() {
        for (network, expected) in [
            ("10.0.0.0/8", "10.255.255.255"),
            ("10.1.2.3/32", "10.1.2.3"),
            ("0.0.0.0/0", "255.255.255.255"),
            ("fd00::/64", "fd00::ffff:ffff:ffff:ffff"),
            ("::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            let expected: IpAddr = expected.parse().expect("an address");
            assert_eq!(last(network.parse().expect("a network")), number(expected), "{network}");
        }
    }
}
