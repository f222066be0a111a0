//! Packets that find out whether two configurations do the same: from the borders of what rules ask, in both directions,
//! over loopback and to the pod's own address, of everybody whom a rule names and of somebody else.

use super::asked::Asked;
use crate::mesh::DNS_PORT;
use rules::simulate::{Direction, Packet};
use rules::{Checked, ConnState, Family, Gid, Match, Protocol, Uid};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Interfaces that no list names by chance.
const OUTSIDE: [&str; 2] = ["eth0", "net-9"];

/// The packets of a family that show what rules do, and closely what `focus` asks, where it is given. `own` are the pod's
/// addresses.
pub(crate) fn probes(
    rules: &Checked,
    own: &[IpAddr],
    family: Family,
    focus: Option<&[Match]>,
) -> Vec<Packet> {
    let asked = Asked::of(rules, focus.unwrap_or_default());
    let ports = asked.ports();
    let few: BTreeSet<u16> = ports.iter().copied().take(2).chain([DNS_PORT.number()]).collect();
    let senders = asked.senders();
    let callers = asked.callers(family);
    let [leaves, arrives] = [&asked.leaves, &asked.arrives]
        .map(|names| names.iter().map(|name| asked.member(name)).collect::<BTreeSet<String>>());
    let mut packets = Packets { own, family, callers, kinds: kinds(&asked), made: Vec::new() };
    for &address in &asked.addresses(own, family) {
        for &port in &ports {
            let to = SocketAddr::new(address, port);
            packets.outbound(to, &senders, &leaves);
            OUTSIDE.iter().for_each(|name| packets.inbound(to, name));
            leaves.iter().for_each(|name| packets.inbound(to, name));
        }
        for &port in &few {
            let to = SocketAddr::new(address, port);
            arrives.iter().for_each(|name| packets.inbound(to, name));
        }
    }
    packets.made
}

/// Marks of the packet and of its connection, and the connection's state.
type Kind = (u32, u32, ConnState);

fn kinds(asked: &Asked) -> Vec<Kind> {
    let mut kinds = vec![(0, 0, ConnState::New)];
    kinds.extend(asked.marks.iter().map(|mark| (*mark, 0, ConnState::New)));
    kinds.extend(asked.connmarks.iter().map(|mark| (0, *mark, ConnState::Established)));
    kinds.extend(asked.invalid.then_some((0, 0, ConnState::Invalid)));
    kinds
}

struct Packets<'a> {
    own: &'a [IpAddr],
    family: Family,
    /// From where others call.
    callers: Vec<IpAddr>,
    kinds: Vec<Kind>,
    made: Vec<Packet>,
}

impl Packets<'_> {
    fn outbound(&mut self, to: SocketAddr, senders: &BTreeSet<(Uid, Gid)>, interfaces: &BTreeSet<String>) {
        let own = self.own.iter().copied().find(|own| Family::of(*own) == self.family);
        // The address by which proxies hand calls to the application, beside 127.0.0.1.
        let (loopback, passthrough): (IpAddr, IpAddr) = match self.family {
            Family::V4 => (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(127, 0, 0, 6).into()),
            Family::V6 => (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::from_bits(6).into()),
        };
        let own = own.unwrap_or(loopback);
        // Any address may be the pod's own, and then the way to it is over loopback.
        let mut ways = vec![("lo".to_owned(), own), ("lo".to_owned(), passthrough)];
        if !to.ip().is_loopback() {
            ways.extend(OUTSIDE.map(|name| (name.to_owned(), own)));
            ways.extend(interfaces.iter().map(|name| (name.clone(), own)));
        }
        for (interface, source) in ways {
            for &(uid, gid) in senders {
                self.put(&Direction::Outbound { interface: interface.clone(), uid, gid }, source, to);
            }
        }
    }

    fn inbound(&mut self, to: SocketAddr, interface: &str) {
        let local = self.own.contains(&to.ip());
        for source in self.callers.clone() {
            self.put(&Direction::Inbound { interface: interface.to_owned(), local }, source, to);
        }
    }

    fn put(&mut self, direction: &Direction, source: IpAddr, destination: SocketAddr) {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            for &(mark, connmark, state) in &self.kinds {
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
