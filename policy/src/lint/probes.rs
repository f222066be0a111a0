//! Packets that find out whether two configurations do the same: from the borders of what lists name, in both directions,
//! over loopback and to the pod's own address, of the application, the proxy and whoever else a list names.

use super::change::Item;
use crate::istio::defaults::{AGENT_PORT, DNS_PORT, PASSTHROUGH_V4, PASSTHROUGH_V6};
use crate::istio::{CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs, OwnerGroups};
use rules::simulate::{Direction, Packet};
use rules::{Cidr, ConnState, Family, Gid, InterfaceName, PortRange, Protocol, Uid};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Of long lists that are not what the question is about, so many items stand for all.
const SAMPLES: usize = 6;

/// Interfaces that no list names by chance.
const OUTSIDE: [&str; 2] = ["eth0", "net-9"];

/// The packets of a family that show what leaving the item out changes. `own` are the pod's addresses.
pub(super) fn probes(
    config: &CaptureConfig,
    own: &[IpAddr],
    family: Family,
    item: Option<&Item>,
) -> Vec<Packet> {
    let addresses = addresses(config, own, family, item);
    let ports = ports(config, item);
    let few: BTreeSet<u16> = ports.iter().copied().take(2).chain([DNS_PORT.number()]).collect();
    let senders = senders(config, item);
    let mut packets = Packets { config, own, family, made: Vec::new() };
    for &address in &addresses {
        for &port in &ports {
            let to = SocketAddr::new(address, port);
            packets.outbound(to, &senders, &config.excluded_interfaces);
            OUTSIDE.iter().for_each(|name| packets.inbound(to, name));
            sample(&config.excluded_interfaces).for_each(|name| packets.inbound(to, &covered(&name)));
        }
        for &port in &few {
            let to = SocketAddr::new(address, port);
            sample(&config.vm_interfaces).for_each(|name| packets.inbound(to, &covered(&name)));
        }
    }
    packets.made
}

struct Packets<'a> {
    config: &'a CaptureConfig,
    own: &'a [IpAddr],
    family: Family,
    made: Vec<Packet>,
}

impl Packets<'_> {
    fn outbound(&mut self, to: SocketAddr, senders: &BTreeSet<(Uid, Gid)>, excluded: &[InterfaceName]) {
        let own = self.own.iter().copied().find(|own| Family::of(*own) == self.family);
        let (loopback, passthrough): (IpAddr, IpAddr) = match self.family {
            Family::V4 => (Ipv4Addr::LOCALHOST.into(), PASSTHROUGH_V4.into()),
            Family::V6 => (Ipv6Addr::LOCALHOST.into(), PASSTHROUGH_V6.into()),
        };
        let own = own.unwrap_or(loopback);
        // Any address may be the pod's own, and then the way to it is over loopback.
        let mut ways = vec![("lo".to_owned(), own), ("lo".to_owned(), passthrough)];
        if !to.ip().is_loopback() {
            ways.extend(OUTSIDE.map(|name| (name.to_owned(), own)));
            ways.extend(sample(excluded).map(|name| (covered(&name), own)));
        }
        for (interface, source) in ways {
            for &(uid, gid) in senders {
                self.put(&Direction::Outbound { interface: interface.clone(), uid, gid }, source, to);
            }
        }
    }

    fn inbound(&mut self, to: SocketAddr, interface: &str) {
        let source = match self.family {
            Family::V4 => Ipv4Addr::new(192, 0, 2, 9).into(),
            Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9).into(),
        };
        let local = self.own.contains(&to.ip());
        self.put(&Direction::Inbound { interface: interface.to_owned(), local }, source, to);
    }

    fn put(&mut self, direction: &Direction, source: IpAddr, destination: SocketAddr) {
        let CaptureConfig { interception, drop_invalid, .. } = self.config;
        let mut kinds = vec![(0, 0, ConnState::New)];
        if let Interception::Tproxy { mark, .. } = interception {
            kinds.extend([(mark.value, 0, ConnState::New), (0, mark.value, ConnState::Established)]);
        }
        kinds.extend(drop_invalid.then_some((0, 0, ConnState::Invalid)));
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            for &(mark, connmark, state) in &kinds {
                self.made.push(Packet {
                    direction: direction.clone(),
                    protocol,
                    source: SocketAddr::new(source, 40000),
                    destination,
                    mark,
                    connmark,
                    state,
                });
            }
        }
    }
}

fn addresses(
    config: &CaptureConfig,
    own: &[IpAddr],
    family: Family,
    item: Option<&Item>,
) -> BTreeSet<IpAddr> {
    let mut found: BTreeSet<IpAddr> = own.iter().copied().collect();
    found.extend([PASSTHROUGH_V4, Ipv4Addr::LOCALHOST, Ipv4Addr::new(192, 0, 2, 77)].map(IpAddr::from));
    found.extend([
        IpAddr::from(PASSTHROUGH_V6),
        Ipv6Addr::LOCALHOST.into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77).into(),
    ]);
    found.extend(borders(&config.loopback_v4));
    let of_family = |cidr: &&Cidr| cidr.family() == family;
    let included: &[Cidr] = match &config.outbound_cidrs {
        OutboundCidrs::All => &[],
        OutboundCidrs::Only(cidrs) => cidrs,
    };
    for list in [included, &config.excluded_cidrs] {
        let list: Vec<Cidr> = list.iter().filter(of_family).copied().collect();
        sample(&list).for_each(|cidr| found.extend([cidr.address(), last(&cidr)]));
        if let Some(Item::Network(cidr)) = item {
            let inside: Vec<Cidr> =
                list.iter().filter(|other| cidr.contains(other.address())).copied().collect();
            sample(&inside).for_each(|cidr| found.extend(borders(&cidr)));
        }
    }
    if let Some(Item::Network(cidr)) = item {
        found.extend(borders(cidr));
    }
    if let DnsCapture::Servers(servers) = &config.dns {
        found.extend(sample(servers));
    }
    found.retain(|address| Family::of(*address) == family);
    found
}

fn last(cidr: &Cidr) -> IpAddr {
    match cidr.address() {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(u32::from(cidr.length())).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() | host).into()
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(u32::from(cidr.length())).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() | host).into()
        }
    }
}

/// The first and the last address, and those beside them.
fn borders(cidr: &Cidr) -> Vec<IpAddr> {
    let beside = |address: IpAddr, step: i8| match address {
        IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits().wrapping_add_signed(step.into())).into(),
        IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits().wrapping_add_signed(step.into())).into(),
    };
    let (first, last) = (cidr.address(), last(cidr));
    vec![first, last, beside(first, -1), beside(last, 1)]
}

fn ports(config: &CaptureConfig, item: Option<&Item>) -> BTreeSet<u16> {
    let mut found: BTreeSet<u16> =
        [DNS_PORT, AGENT_PORT, config.tunnel_port].map(rules::Port::number).into_iter().chain([81]).collect();
    let (InboundPorts::AllBut(inbound) | InboundPorts::Only(inbound)) = &config.inbound_ports;
    for list in [inbound, &config.outbound_ports, &config.excluded_outbound_ports] {
        sample(list).for_each(|range| found.extend(ends(&range)));
    }
    if let Some(Item::Ports(range)) = item {
        found.extend(ends(range));
    }
    found
}

fn ends(range: &PortRange) -> impl Iterator<Item = u16> + use<> {
    let (first, last) = (range.first().number(), range.last().number());
    [first - 1, first, last, last.saturating_add(1)].into_iter().filter(|port| *port != 0)
}

/// The application, the proxy, and whoever is of one of its users or groups or of a group in a list.
fn senders(config: &CaptureConfig, item: Option<&Item>) -> BTreeSet<(Uid, Gid)> {
    let (OwnerGroups::AllBut(groups) | OwnerGroups::Only(groups)) = &config.owner_groups;
    let named = |id: u32| {
        config.proxy_uids.iter().any(|uid| uid.number() == id)
            || config.proxy_gids.iter().chain(groups).any(|gid| gid.number() == id)
    };
    let nobody = (1000..).find(|id| !named(*id)).and_then(Uid::new).expect("lists are shorter than numbers");
    let of_group = |gid: Gid| (nobody, gid);
    let mut found = BTreeSet::from([of_group(nobody.into())]);
    found.extend(sample(&config.proxy_uids).map(|uid| (uid, nobody.into())));
    found.extend(sample(&config.proxy_gids).chain(sample(groups)).map(of_group));
    found.extend(config.proxy_uids.first().copied().zip(config.proxy_gids.first().copied()));
    found.extend(config.proxy_uids.first().copied().zip(groups.first().copied()));
    if let Some(Item::Group(gid)) = item {
        found.insert(of_group(*gid));
    }
    found
}

/// Some of a list, from its start to its end.
fn sample<T: Clone>(items: &[T]) -> impl Iterator<Item = T> {
    let step = items.len().div_ceil(SAMPLES).max(1);
    items.iter().step_by(step).chain(items.last()).cloned()
}

/// A name that the pattern covers.
fn covered(name: &InterfaceName) -> String {
    name.prefix().map_or_else(|| name.as_str().to_owned(), |prefix| format!("{prefix}0"))
}
