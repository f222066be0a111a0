//! All packets of one family and direction, by the classes of their fields. Two packets in the same classes end the same
//! way, so that one of each combination answers for all.

use super::classes::{Class, Conditions, LOOPBACK, holds, interface_name};
use crate::explain::{PLAIN_PORTS, PodContext, RuleView};
use rules::nft::{Field, Interval, Intervals, interface_number, state_bit};
use rules::simulate::{Direction, Packet};
use rules::{ConnState, Family, Gid, Mark, Protocol, Uid};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;

/// What packets differ in, from what a description names first to what it names last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    Protocol,
    Port,
    Destination,
    Source,
    SourcePort,
    Interface,
    User,
    Group,
    Mark,
    Connmark,
    State,
}

impl Axis {
    pub(super) const ALL: [Self; 11] = [
        Self::Protocol,
        Self::Port,
        Self::Destination,
        Self::Source,
        Self::SourcePort,
        Self::Interface,
        Self::User,
        Self::Group,
        Self::Mark,
        Self::Connmark,
        Self::State,
    ];
}

/// A combination: the index of the class on each axis. 0 is what is usual.
pub(super) type Cell = [u32; Axis::ALL.len()];

/// The packets of one family that leave, or that arrive.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) family: Family,
    pub(super) is_inbound: bool,
    /// The pod's own addresses, at least one.
    owned: Vec<IpAddr>,
    /// The pod's own addresses and loopback's: classes of their own, even if no rule distinguishes them.
    pub(super) local_addresses: Intervals,
    axes: [Vec<Class>; Axis::ALL.len()],
    /// Whether every packet is in one of the classes of marks.
    pub(super) has_all_marks: bool,
}

const UDP: u128 = 17;
const TCP: u128 = 6;

/// Values to try where a class has them: those that are unlikely to be excluded.
fn usual_ports() -> [u128; 6] {
    PLAIN_PORTS.map(u128::from)
}
const USUAL_OWNERS: [u128; 4] = [1000, 1001, 2000, 5000];
const SOURCE_PORT: u128 = 40_000;

const PORTS: Interval = Interval { first: 1, last: u16::MAX as u128 };
/// The greatest number means no user.
const OWNERS: Interval = Interval { first: 0, last: u32::MAX as u128 - 1 };

impl Space {
    /// The packets of a family, in the classes that the rules of the two views distinguish.
    pub(super) fn of(rule_views: [&RuleView; 2], pod: &PodContext, is_inbound: bool) -> Self {
        let family = rule_views[0].family;
        let mut conditions = Conditions::default();
        rule_views.iter().for_each(|rule_view| conditions.add(&rule_view.view));
        let of_family = pod.addresses.iter().copied().filter(|own| Family::of(*own) == family);
        let owned: Vec<IpAddr> = of_family.collect();
        let [loopback, passthrough] = loopback_and_passthrough(family);
        let local = [loopback_network(loopback), Interval::one(number(passthrough))];
        let own_set: Intervals = owned.iter().map(|own| Interval::one(number(*own))).collect();
        let asks_source = conditions.is_asked(Field::Source(family));
        for field in [Field::Destination(family), Field::Source(family)] {
            conditions.insert(field, &own_set);
            local.iter().for_each(|net| conditions.insert(field, &Intervals::from_iter([*net])));
        }
        let mut local_addresses = own_set;
        local.iter().for_each(|net| local_addresses.union(&Intervals::from_iter([*net])));
        let every = Interval { first: 0, last: Field::Destination(family).data_type().max() };
        let usual: Vec<u128> = outside_addresses(family).map(number).into();
        let is_local = |class: &Class| local.iter().any(|net| holds(*net, class.value));
        let is_own = |class: &Class| owned.iter().any(|own| number(*own) == class.value);
        let protocols = [TCP, UDP].map(|number| Class {
            value: number,
            values: Intervals::one(number),
            names: Vec::new(),
        });
        let mut ports = conditions.classes(Field::DestinationPort, PORTS, &usual_ports());
        let mut destinations = conditions.classes(Field::Destination(family), every, &usual);
        let mut sources = conditions.classes(Field::Source(family), every, &usual);
        if is_inbound {
            // Nothing arrives from or for the loopback interface.
            destinations.retain(|class| !is_local(class));
            destinations.sort_by_key(|class| !is_own(class));
            sources.retain(|class| !is_local(class) && !is_own(class));
        } else {
            // The pod sends from its own addresses alone: by default from the one that fits the destination.
            destinations.sort_by_key(|class| (is_local(class), is_own(class)));
            sources.retain(|class| is_local(class) || is_own(class));
            sources.sort_by_key(|class| !is_own(class));
        }
        usual_first(&mut ports);
        let mut interfaces = match is_inbound {
            true => conditions.interfaces(Field::InInterface),
            false => conditions.interfaces(Field::OutInterface),
        };
        if !asks_source {
            sources.truncate(1);
        }
        let one = |value: u128| vec![Class { value, values: Intervals::one(value), names: Vec::new() }];
        let source_ports = match conditions.is_asked(Field::SourcePort) {
            true => conditions.classes(Field::SourcePort, PORTS, &[SOURCE_PORT]),
            false => one(SOURCE_PORT),
        };
        let owners = |field| match is_inbound {
            true => one(USUAL_OWNERS[0]),
            false => conditions.classes(field, OWNERS, &USUAL_OWNERS),
        };
        let (users, groups) = (owners(Field::Uid), owners(Field::Gid));
        if !is_inbound {
            let mut lo = one(interface_number(LOOPBACK));
            lo[0].names.push(LOOPBACK.to_owned());
            interfaces.append(&mut lo);
        }
        let routed = rule_views.iter().flat_map(|rule_view| &rule_view.routing.local_marks);
        let routed: Vec<Mark> = routed.copied().collect();
        let states: Vec<Class> =
            states(&conditions).into_iter().flat_map(|state| one(state as u128)).collect();
        let (marks, has_marks) = conditions.marks(Field::Mark, &routed);
        let (connmarks, has_connmarks) = conditions.marks(Field::Connmark, &[]);
        let has_all_marks = has_marks && has_connmarks;
        let axes = Axis::ALL.map(|axis| match axis {
            Axis::Protocol => protocols.to_vec(),
            Axis::Port => std::mem::take(&mut ports),
            Axis::Destination => std::mem::take(&mut destinations),
            Axis::Source => std::mem::take(&mut sources),
            Axis::SourcePort => source_ports.clone(),
            Axis::Interface => std::mem::take(&mut interfaces),
            Axis::User => users.clone(),
            Axis::Group => groups.clone(),
            Axis::Mark => marks.clone(),
            Axis::Connmark => connmarks.clone(),
            Axis::State => states.clone(),
        });
        Self { family, is_inbound, owned, local_addresses, axes, has_all_marks }
    }

    pub(super) fn classes(&self, axis: Axis) -> &[Class] {
        &self.axes[axis as usize]
    }

    fn class(&self, axis: Axis, cell: &Cell) -> &Class {
        &self.axes[axis as usize][cell[axis as usize] as usize]
    }

    /// Where a class of destinations or of sources is.
    pub(super) fn place(&self, class: &Class) -> AddressLocation {
        let [loopback, passthrough] = loopback_and_passthrough(self.family);
        match class.value {
            value if self.owned.iter().any(|own| number(*own) == value) => AddressLocation::Pod,
            value if holds(loopback_network(loopback), value) || value == number(passthrough) => {
                AddressLocation::Loopback
            }
            _ => AddressLocation::Elsewhere,
        }
    }

    /// The combinations that differ from what is usual on so many axes, until the visitor stops.
    pub(super) fn each_cell(
        &self,
        differing: usize,
        see: &mut dyn FnMut(&Cell) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.each_from(0, differing, &mut [0; Axis::ALL.len()], see)
    }

    fn each_from(
        &self,
        axis: usize,
        differing: usize,
        cell: &mut Cell,
        see: &mut dyn FnMut(&Cell) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if differing == 0 {
            return see(cell);
        }
        if self.axes[axis..].iter().filter(|classes| classes.len() > 1).count() < differing {
            return ControlFlow::Continue(());
        }
        self.each_from(axis + 1, differing, cell, see)?;
        for (index, _) in (1..).zip(&self.axes[axis][1..]) {
            cell[axis] = index;
            self.each_from(axis + 1, differing - 1, cell, see)?;
        }
        cell[axis] = 0;
        ControlFlow::Continue(())
    }

    /// Whether there is such a packet.
    pub(super) fn is_possible(&self, cell: &Cell) -> bool {
        let value = |axis| self.class(axis, cell).value;
        let state = value(Axis::State);
        let is_established = state == ConnState::Established as u128;
        if value(Axis::Connmark) != 0 && !is_established {
            return false;
        }
        if self.is_inbound {
            return true;
        }
        let is_within = self.place(self.class(Axis::Destination, cell)) != AddressLocation::Elsewhere;
        let by_loopback = value(Axis::Interface) == interface_number(LOOPBACK);
        // Calls to the pod itself go by the loopback interface, from whichever of its addresses.
        is_within == by_loopback && (is_within || cell[Axis::Source as usize] == 0)
    }

    /// The packet that answers for the combination.
    pub(super) fn packet(&self, cell: &Cell) -> Packet {
        let value = |axis| self.class(axis, cell).value;
        let to = address(self.family, value(Axis::Destination));
        let interface = interface_name(value(Axis::Interface));
        let id = |axis| u32::try_from(value(axis)).unwrap_or_default();
        let direction = match self.is_inbound {
            true => Direction::Inbound {
                interface,
                local: self.place(self.class(Axis::Destination, cell)) == AddressLocation::Pod,
            },
            false => Direction::Outbound {
                interface,
                uid: Uid::new(id(Axis::User)).expect("the class holds users"),
                gid: Gid::new(id(Axis::Group)).expect("the class holds groups"),
            },
        };
        let from = match cell[Axis::Source as usize] {
            0 if !self.is_inbound => self.default_source(to),
            _ => address(self.family, value(Axis::Source)),
        };
        let port = |axis| u16::try_from(value(axis)).unwrap_or_default();
        Packet {
            direction,
            protocol: if value(Axis::Protocol) == UDP { Protocol::Udp } else { Protocol::Tcp },
            source: SocketAddr::new(from, port(Axis::SourcePort)),
            destination: SocketAddr::new(to, port(Axis::Port)),
            mark: id(Axis::Mark),
            connmark: id(Axis::Connmark),
            state: state_of(value(Axis::State)),
        }
    }

    fn default_source(&self, to: IpAddr) -> IpAddr {
        match to {
            IpAddr::V4(to) if to.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            to if self.owned.contains(&to) || loopback_and_passthrough(self.family).contains(&to) => to,
            _ => self.owned[0],
        }
    }
}

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressLocation {
    Pod,
    Loopback,
    Elsewhere,
}

/// Puts the classes of usual ports first, even before one of a longer range that a rule names.
fn usual_first(ports: &mut [Class]) {
    ports.sort_by_key(|class| !usual_ports().contains(&class.value));
}

/// The states that rules may distinguish.
fn states(conditions: &Conditions) -> Vec<ConnState> {
    if !conditions.is_asked(Field::ConnState) && !conditions.asks_connmark() {
        return vec![ConnState::New];
    }
    let answers = |state| conditions.answers(Field::ConnState, state_bit(state).into());
    let related = (answers(ConnState::Related) != answers(ConnState::New)).then_some(ConnState::Related);
    [ConnState::New, ConnState::Established, ConnState::Invalid].into_iter().chain(related).collect()
}

pub(super) fn state_of(value: u128) -> ConnState {
    ConnState::ALL.into_iter().find(|state| *state as u128 == value).unwrap_or(ConnState::New)
}

/// The address of loopback, and the one from which Istio's proxy hands calls to the application.
fn loopback_and_passthrough(family: Family) -> [IpAddr; 2] {
    match family {
        Family::V4 => [Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(127, 0, 0, 6).into()],
        Family::V6 => [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::from_bits(6).into()],
    }
}

/// The network of loopback.
fn loopback_network(loopback: IpAddr) -> Interval {
    match loopback {
        IpAddr::V4(_) => Interval { first: 127 << 24, last: (128 << 24) - 1 },
        IpAddr::V6(loopback) => Interval::one(loopback.to_bits()),
    }
}

/// Addresses outside of the pod, which rules are unlikely to name: for documentation (RFC 5737, RFC 3849), and two of IPv6
/// that are not.
fn outside_addresses(family: Family) -> [IpAddr; 3] {
    match family {
        Family::V4 => [[192, 0, 2, 10], [203, 0, 113, 10], [198, 51, 100, 10]].map(IpAddr::from),
        Family::V6 => [0x2001_0db8, 0x2600_0000, 0x2a00_0000]
            .map(|head: u128| Ipv6Addr::from_bits((head << 96) + 10).into()),
    }
}

pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

pub(super) fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or_default()).into(),
        Family::V6 => Ipv6Addr::from_bits(number).into(),
    }
}
