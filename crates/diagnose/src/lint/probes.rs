//! Packets that show whether two configurations do the same: with values at the boundaries of the rules' conditions, in both
//! directions, over loopback and to the pod's own address, of every owner that a rule names and of one that none names.

use super::boundaries::Boundaries;
use rules::simulate::{Direction, Packet};
use rules::{Checked, ConnState, Family, Match, Protocol};
use std::collections::BTreeSet;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;

/// The usual interface of a pod, and one that hardly any list names.
const OUTSIDE: [&str; 2] = ["eth0", "net-9"];

/// The packets of a family that show what rules do. `own` are the pod's addresses.
pub(crate) fn probes(rules: &Checked, own: &[IpAddr], family: Family) -> Vec<Packet> {
    let mut packets = Vec::new();
    let _ = each_probe(rules, own, family, &[], &mut |packet| {
        packets.push(packet.clone());
        ControlFlow::Continue(())
    });
    packets
}

/// Visits the same packets one after the other, until the visitor stops. Of a long list in the rules, only a sample is
/// tried; of the conditions in `focus`, all values are, but for interfaces.
pub(super) fn each_probe(
    rules: &Checked,
    own: &[IpAddr],
    family: Family,
    focus: &[Match],
    visit: ProbeVisitor<'_>,
) -> ControlFlow<()> {
    let boundaries = Boundaries::of(rules, focus);
    let few = boundaries.few_ports();
    let ports = boundaries.ports();
    let senders = boundaries.senders();
    let callers = boundaries.callers(family);
    let [leaves, arrives] = [&boundaries.leaves, &boundaries.arrives]
        .map(|names| names.iter().map(|name| boundaries.member(name)).collect::<BTreeSet<String>>());
    let [loopback, passthrough] = loopback(family);
    let source = own.iter().copied().find(|own| Family::of(*own) == family).unwrap_or(loopback);
    let outside = || OUTSIDE.into_iter().chain(leaves.iter().map(String::as_str));
    let leaving = |interface: &str| {
        let direction = |&(uid, gid)| Direction::Outbound { interface: interface.to_owned(), uid, gid };
        senders.iter().map(direction).collect::<Vec<Direction>>()
    };
    // To an address that is not the pod's, and to one that is.
    let arriving = |interface: &str| {
        [false, true].map(|local| Direction::Inbound { interface: interface.to_owned(), local })
    };
    // Any address may be the pod's own, and then the way to it is over loopback.
    let mut within = leaving("lo");
    let mut leaving: Vec<Direction> = outside().flat_map(leaving).collect();
    let mut usual: Vec<[Direction; 2]> = outside().map(arriving).collect();
    let mut others: Vec<[Direction; 2]> = arrives.iter().map(|name| arriving(name)).collect();
    let kinds = kinds(&boundaries);
    let mut packets = ProbePackets::new(&kinds, visit);
    for &address in &boundaries.addresses(own, family) {
        let local = usize::from(own.contains(&address));
        for &port in &ports {
            let to = SocketAddr::new(address, port);
            packets.visit_each(&mut within, &[source, passthrough], to)?;
            if !address.is_loopback() {
                packets.visit_each(&mut leaving, &[source], to)?;
            }
            packets.visit_each(usual.iter_mut().map(|both| &mut both[local]), &callers, to)?;
        }
        for &port in &few {
            let to = SocketAddr::new(address, port);
            packets.visit_each(others.iter_mut().map(|both| &mut both[local]), &callers, to)?;
        }
    }
    ControlFlow::Continue(())
}

/// Visits packets, and decides whether to go on.
type ProbeVisitor<'a> = &'a mut dyn FnMut(&Packet) -> ControlFlow<()>;

/// The address of loopback, and that by which proxies hand calls to the application.
fn loopback(family: Family) -> [IpAddr; 2] {
    match family {
        Family::V4 => [Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(127, 0, 0, 6).into()],
        Family::V6 => [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::from_bits(6).into()],
    }
}

/// Marks of the packet and of its connection, and the connection's state.
type PacketKind = (u32, u32, ConnState);

fn kinds(boundaries: &Boundaries) -> Vec<PacketKind> {
    let mut kinds = vec![(0, 0, ConnState::New)];
    kinds.extend(boundaries.marks.iter().map(|mark| (*mark, 0, ConnState::New)));
    kinds.extend(boundaries.connmarks.iter().map(|mark| (0, *mark, ConnState::Established)));
    kinds.extend(boundaries.invalid.then_some((0, 0, ConnState::Invalid)));
    kinds
}

/// Packets of some directions, of all protocols and kinds. There may be a hundred thousand, so one packet is changed in
/// place for each.
struct ProbePackets<'a> {
    kinds: &'a [PacketKind],
    packet: Packet,
    visit: ProbeVisitor<'a>,
}

impl<'a> ProbePackets<'a> {
    fn new(kinds: &'a [PacketKind], visit: ProbeVisitor<'a>) -> Self {
        let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let packet = Packet {
            direction: Direction::Inbound { interface: String::new(), local: false },
            protocol: Protocol::Tcp,
            source: nowhere,
            destination: nowhere,
            mark: 0,
            connmark: 0,
            state: ConnState::New,
        };
        Self { kinds, packet, visit }
    }

    /// Visits the packets of these directions and sources. A direction is swapped into the packet and back, because a clone
    /// would copy the name of its interface.
    fn visit_each<'d>(
        &mut self,
        directions: impl IntoIterator<Item = &'d mut Direction>,
        sources: &[IpAddr],
        to: SocketAddr,
    ) -> ControlFlow<()> {
        for direction in directions {
            mem::swap(&mut self.packet.direction, direction);
            let shown = sources.iter().try_for_each(|source| self.show(SocketAddr::new(*source, 40000), to));
            mem::swap(&mut self.packet.direction, direction);
            shown?;
        }
        ControlFlow::Continue(())
    }

    fn show(&mut self, source: SocketAddr, destination: SocketAddr) -> ControlFlow<()> {
        let Self { kinds, packet, visit } = self;
        (packet.source, packet.destination) = (source, destination);
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            packet.protocol = protocol;
            for kind in *kinds {
                (packet.mark, packet.connmark, packet.state) = *kind;
                visit(packet)?;
            }
        }
        ControlFlow::Continue(())
    }
}
