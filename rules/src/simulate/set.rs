//! Packet sets: each field's possible values, independent of other fields.

use super::marks::Marks;
use crate::field::{Field, Interval, Intervals, interface_number, protocol_number};
use crate::net::{address, number};
use crate::{ConnState, Family, Gid, Mark, Protocol, Uid};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    Outbound,
    /// Arriving from outside; `local` if the destination is an address of this machine.
    Inbound {
        local: bool,
    },
}

const FIELDS: usize = 8;

/// Packets of one family, direction and connection state: all combinations of the values below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketSet {
    pub family: Family,
    pub way: Way,
    pub state: ConnState,
    values: [Intervals; FIELDS],
    mark: Marks,
    connmark: Marks,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Divider {
    pub(super) by: By,
    /// True if packets with these values match, false if packets without them match.
    pub(super) is_positive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    Values(Field, Intervals),
    Mark(Mark),
    Connmark(Mark),
}

/// Index of a field's values; `None` for fields without number sets, or with one value for all packets.
const fn slot(field: Field) -> Option<usize> {
    match field {
        Field::InInterface | Field::OutInterface => Some(0),
        Field::Source(_) => Some(1),
        Field::Destination(_) => Some(2),
        Field::Protocol => Some(3),
        Field::SourcePort => Some(4),
        Field::DestinationPort => Some(5),
        Field::Uid => Some(6),
        Field::Gid => Some(7),
        Field::Family | Field::ConnState | Field::Mark(_) | Field::Connmark(_) => None,
    }
}

impl PacketSet {
    pub fn all(family: Family, way: Way, state: ConnState) -> Self {
        let range = |first: u128, last: u128| Intervals::from(Interval { first, last });
        let addresses = range(0, Field::Source(family).data_type().max());
        let ports = range(1, u16::MAX.into());
        // The greatest number means no user.
        let ids = range(0, u128::from(u32::MAX) - 1);
        let protocols = [Protocol::Tcp, Protocol::Udp].map(|one| Interval::one(protocol_number(one).into()));
        let is_inbound = matches!(way, Way::Inbound { .. });
        let owner = if is_inbound { Intervals::one(0) } else { ids };
        let names = range(1 << 120, u128::MAX);
        let values = [
            names,
            addresses.clone(),
            addresses,
            Intervals::from_iter(protocols),
            ports.clone(),
            ports,
            owner.clone(),
            owner,
        ];
        Self { family, way, state, values, mark: Marks::any(), connmark: Marks::any() }
    }

    /// Source port 0 means any port.
    pub fn one(packet: &Packet) -> Self {
        let one = |number: u128| Intervals::one(number);
        let (way, interface, uid, gid) = match &packet.direction {
            Direction::Outbound { interface, uid, gid } => {
                (Way::Outbound, interface, uid.number(), gid.number())
            }
            Direction::Inbound { interface, local } => (Way::Inbound { local: *local }, interface, 0, 0),
        };
        let port = packet.source.port();
        let source_port =
            if port == 0 { Interval { first: 1, last: u16::MAX.into() } } else { Interval::one(port.into()) };
        Self {
            family: packet.family(),
            way,
            state: packet.state,
            values: [
                one(interface_number(interface)),
                one(number(packet.source.ip())),
                one(number(packet.destination.ip())),
                one(protocol_number(packet.protocol).into()),
                source_port.into(),
                one(packet.destination.port().into()),
                one(uid.into()),
                one(gid.into()),
            ],
            mark: Marks::one(packet.mark),
            connmark: Marks::one(packet.connmark),
        }
    }

    pub fn values(&self, field: Field) -> Option<&Intervals> {
        slot(field).map(|slot| &self.values[slot])
    }

    pub fn mark(&self) -> &Marks {
        &self.mark
    }

    pub fn connmark(&self) -> &Marks {
        &self.connmark
    }

    #[must_use]
    pub fn with(mut self, field: Field, values: &Intervals) -> Self {
        self.narrow(&By::Values(field, values.clone()), true);
        self
    }

    #[must_use]
    pub fn without(mut self, field: Field, values: &Intervals) -> Self {
        self.narrow(&By::Values(field, values.clone()), false);
        self
    }

    #[must_use]
    pub fn with_any(mut self, field: Field) -> Self {
        let all = Self::all(self.family, Way::Outbound, self.state);
        if let Some(slot) = slot(field) {
            self.values[slot] = all.values[slot].clone();
        }
        self
    }

    #[must_use]
    pub fn without_mark(mut self, mark: Mark) -> Self {
        self.mark.narrow(mark, false);
        self
    }

    #[must_use]
    pub fn marked(self, mark: Marks, connmark: Marks) -> Self {
        Self { mark, connmark, ..self }
    }

    pub fn is_empty(&self) -> bool {
        self.values.iter().any(Intervals::is_empty)
            || self.mark.sample().is_none()
            || self.connmark.sample().is_none()
    }

    /// True if all packets have one of the values, false if none, `None` if only some.
    pub(super) fn have(&self, field: Field, values: &Intervals) -> Option<bool> {
        self.values(field).map_or(Some(true), |own| own.all_among(values))
    }

    pub(super) fn narrow(&mut self, by: &By, keeps: bool) {
        match by {
            By::Mark(bits) => self.mark.narrow(*bits, keeps),
            By::Connmark(bits) => self.connmark.narrow(*bits, keeps),
            By::Values(field, values) => match slot(*field) {
                Some(slot) if keeps => self.values[slot] = self.values[slot].common(values),
                Some(slot) => self.values[slot].remove(values),
                None => {}
            },
        }
    }

    pub fn common(&self, other: &Self) -> Option<Self> {
        if (self.family, self.way, self.state) != (other.family, other.way, other.state) {
            return None;
        }
        let mut both = self.clone();
        for (own, others) in both.values.iter_mut().zip(&other.values) {
            *own = own.common(others);
        }
        both.mark = both.mark.common(&other.mark)?;
        both.connmark = both.connmark.common(&other.connmark)?;
        (!both.is_empty()).then_some(both)
    }

    pub fn contains(&self, packet: &Packet) -> bool {
        self.common(&Self::one(packet)).is_some()
    }

    /// A packet of the set, with typical values where possible; `None` if no valid interface name is possible.
    pub fn sample(&self, usual: &dyn Fn(Field) -> Vec<u128>) -> Option<Packet> {
        let family = self.family;
        let pick = |field: Field| {
            let values = self.values(field)?;
            let usual = usual(field).into_iter().find(|one| values.meets(&Intervals::one(*one)));
            usual.or_else(|| {
                values.ranges().iter().rev().max_by_key(|range| range.last - range.first).map(inner)
            })
        };
        let number = |field: Field| u32::try_from(pick(field)?).ok();
        let socket = |ip: Field, port: Field| {
            Some(SocketAddr::new(address(family, pick(ip)?), u16::try_from(pick(port)?).ok()?))
        };
        let interface = pick_name(self.values(Field::InInterface)?, &usual(Field::InInterface))?;
        let direction = match self.way {
            Way::Outbound => Direction::Outbound {
                interface,
                uid: Uid::new(number(Field::Uid)?)?,
                gid: Gid::new(number(Field::Gid)?)?,
            },
            Way::Inbound { local } => Direction::Inbound { interface, local },
        };
        let is_udp = pick(Field::Protocol)? == u128::from(protocol_number(Protocol::Udp));
        Some(Packet {
            direction,
            protocol: if is_udp { Protocol::Udp } else { Protocol::Tcp },
            source: socket(Field::Source(family), Field::SourcePort)?,
            destination: socket(Field::Destination(family), Field::DestinationPort)?,
            mark: self.mark.sample()?,
            connmark: self.connmark.sample()?,
            state: self.state,
        })
    }
}

/// A value in the range; for a network, an address that a host may have.
fn inner(range: &Interval) -> u128 {
    if range.last - range.first > 1 << 7 { range.first + 1 } else { range.first }
}

fn pick_name(names: &Intervals, usual: &[u128]) -> Option<String> {
    let is_in = |name: &String| is_name(name) && names.meets(&Intervals::one(interface_number(name)));
    let of_range = |range: &Interval| {
        let start = interface_name(range.first);
        let longer = ('0'..='9').chain('a'..='z').map(move |end| format!("{start}{end}"));
        std::iter::once(interface_name(range.first)).chain(longer)
    };
    let usual = usual.iter().map(|number| interface_name(*number));
    let letters = ('a'..='z').map(String::from);
    usual.chain(names.ranges().iter().flat_map(of_range)).chain(letters).find(is_in)
}

/// True if an interface may have the name (`dev_valid_name` in `net/core/dev.c`).
fn is_name(name: &str) -> bool {
    let is_ordinary = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':';
    (1..16).contains(&name.len()) && name.bytes().all(is_ordinary) && name != "." && name != ".."
}

pub fn interface_name(number: u128) -> String {
    let bytes = number.to_be_bytes();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

pub(super) fn loopback(family: Family) -> Intervals {
    match family {
        Family::V4 => Interval { first: 127 << 24, last: (128 << 24) - 1 }.into(),
        Family::V6 => Intervals::one(1),
    }
}

pub fn loopback_interface() -> Intervals {
    Intervals::one(interface_number(LOOPBACK))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    Outbound {
        /// Interface to which the destination is routed; `lo` for addresses of this machine.
        interface: String,
        uid: Uid,
        gid: Gid,
    },
    Inbound {
        interface: String,
        local: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub direction: Direction,
    pub protocol: Protocol,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Mark set by the sender's `SO_MARK`; 0 for none.
    pub mark: u32,
    pub connmark: u32,
    pub state: ConnState,
}

impl Packet {
    pub fn family(&self) -> Family {
        Family::of(self.destination.ip())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Marks for which policy rules deliver packets locally by a local default route, whatever the destination.
    pub local_marks: Vec<Mark>,
    pub addresses: Vec<IpAddr>,
}

impl Routing {
    pub(super) fn takes_address(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.contains(&address)
    }
}

pub const LOOPBACK: &str = "lo";
