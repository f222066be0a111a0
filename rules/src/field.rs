//! Rule conditions: a packet's field lies in a set of numbers, or outside it. All knowledge of fields is here. Shortening rules
//! (`nft::compact`) relies on the algebra of conditions, which may miss implications and contradictions but never invents one.

pub use crate::intervals::{Interval, Intervals};

use crate::{ConnState, Family, Hook, InterfaceName, Protocol, WriteSet};

/// A field of a packet, or of the kernel's data about it, in the order of a rule's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Name of the input interface: 16 bytes, padded with NUL.
    InInterface,
    OutInterface,
    Family,
    Source(Family),
    Destination(Family),
    Protocol,
    SourcePort,
    DestinationPort,
    /// User of the process that created the packet's socket, if any. Our nf_tables rules never negate this field.
    Uid,
    /// Group of the process that created the packet's socket, if any.
    Gid,
    ConnState,
    /// The packet mark's bits in this mask.
    Mark(u32),
    /// The connection mark's bits in this mask.
    Connmark(u32),
}

impl Field {
    pub const ALL: [Self; 15] = [
        Self::InInterface,
        Self::OutInterface,
        Self::Family,
        Self::Source(Family::V4),
        Self::Source(Family::V6),
        Self::Destination(Family::V4),
        Self::Destination(Family::V6),
        Self::Protocol,
        Self::SourcePort,
        Self::DestinationPort,
        Self::Uid,
        Self::Gid,
        Self::ConnState,
        Self::Mark(u32::MAX),
        Self::Connmark(u32::MAX),
    ];

    const fn row(self) -> (&'static str, DataType) {
        match self {
            Self::InInterface => ("iifname", DataType::InterfaceName),
            Self::OutInterface => ("oifname", DataType::InterfaceName),
            Self::Family => ("meta nfproto", DataType::Family),
            Self::Source(Family::V4) => ("ip saddr", DataType::Address(Family::V4)),
            Self::Source(Family::V6) => ("ip6 saddr", DataType::Address(Family::V6)),
            Self::Destination(Family::V4) => ("ip daddr", DataType::Address(Family::V4)),
            Self::Destination(Family::V6) => ("ip6 daddr", DataType::Address(Family::V6)),
            Self::Protocol => ("meta l4proto", DataType::Protocol),
            Self::SourcePort => ("sport", DataType::Port),
            Self::DestinationPort => ("dport", DataType::Port),
            Self::Uid => ("meta skuid", DataType::Uid),
            Self::Gid => ("meta skgid", DataType::Gid),
            Self::ConnState => ("ct state", DataType::ConnState),
            Self::Mark(_) => ("meta mark", DataType::Mark),
            Self::Connmark(_) => ("ct mark", DataType::Mark),
        }
    }

    pub fn name(self) -> &'static str {
        self.row().0
    }

    pub fn data_type(self) -> DataType {
        self.row().1
    }

    pub fn family(self) -> Option<Family> {
        match self {
            Self::Source(family) | Self::Destination(family) => Some(family),
            _ => None,
        }
    }

    pub fn is_port(self) -> bool {
        matches!(self, Self::SourcePort | Self::DestinationPort)
    }

    pub fn is_known_at(self, hook: Hook) -> bool {
        match self {
            Self::InInterface => !matches!(hook, Hook::Output | Hook::Postrouting),
            Self::OutInterface => !matches!(hook, Hook::Prerouting | Hook::Input),
            // xt_owner registers for LOCAL_OUT and POST_ROUTING only.
            Self::Uid | Self::Gid => matches!(hook, Hook::Output | Hook::Postrouting),
            _ => true,
        }
    }

    /// True if these writes may change the field's value.
    pub fn depends_on(self, written: WriteSet) -> bool {
        match self {
            Self::Mark(_) => written.mark,
            Self::Connmark(_) => written.connmark || written.zone,
            Self::ConnState => written.zone,
            _ => false,
        }
    }
}

/// The kernel's number for a family (`NFPROTO_IPV4`, `NFPROTO_IPV6` in `linux/netfilter.h`).
pub const fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// Number of a protocol in the IP header (IANA).
pub const fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
    }
}

/// Bit of a connection state (`NF_CT_STATE_BIT` in `linux/netfilter/nf_conntrack_common.h`).
pub const fn state_bit(state: ConnState) -> u8 {
    match state {
        ConnState::Invalid => 0,
        ConnState::Established => 1,
        ConnState::Related => 2,
        ConnState::New => 3,
    }
}

/// Bit of a packet that conntrack does not track (`NF_CT_STATE_UNTRACKED_BIT`).
pub const UNTRACKED_BIT: u8 = 6;

/// An interface name as a number: 16 bytes, the most significant first.
pub fn interface_number(name: &str) -> u128 {
    padded(name, 0)
}

fn padded(name: &str, pad: u8) -> u128 {
    let mut bytes = [pad; 16];
    bytes.iter_mut().zip(name.bytes()).for_each(|(byte, own)| *byte = own);
    u128::from_be_bytes(bytes)
}

pub(crate) fn interface_interval(name: &InterfaceName) -> Interval {
    match name.prefix() {
        Some(prefix) => Interval { first: padded(prefix, 0), last: padded(prefix, u8::MAX) },
        None => Interval::one(padded(name.as_str(), 0)),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Condition {
    pub field: Field,
    pub negated: bool,
    pub values: Intervals,
}

impl Condition {
    pub fn is(field: Field, values: Intervals) -> Self {
        Self { field, negated: false, values }
    }

    pub fn family(family: Family) -> Self {
        Self::is(Field::Family, Intervals::one(family_number(family).into()))
    }

    pub fn protocol(protocol: Protocol) -> Self {
        Self::is(Field::Protocol, Intervals::one(protocol_number(protocol).into()))
    }

    pub fn holds(&self, value: u128) -> bool {
        self.values.meets(&Intervals::one(value)) != self.negated
    }

    /// The result for every value, if constant: even an unknown address lies in the network of all addresses.
    pub(crate) fn constant_answer(&self) -> Option<bool> {
        let kind = self.field.data_type();
        let is_whole = |values: &Intervals| values.single() == Some(Interval { first: 0, last: kind.max() });
        (kind.has_ranges() && is_whole(&self.values.joined())).then_some(!self.negated)
    }

    /// False if packets may fail condition and negation: no connection, no mark (`nft_ct_get_eval`).
    pub(crate) fn has_opposite(&self) -> bool {
        !matches!(self.field, Field::Connmark(_))
    }

    #[must_use]
    pub(crate) fn opposite(&self) -> Self {
        Self { negated: !self.negated, ..self.clone() }
    }

    pub(crate) fn implies(&self, other: &Self) -> bool {
        self.lies_in(other, other.negated)
    }

    pub(crate) fn contradicts(&self, other: &Self) -> bool {
        self.lies_in(other, !other.negated)
    }

    /// True if `other` holds all values admitted by `self` or, if `negated`, none.
    fn lies_in(&self, other: &Self, negated: bool) -> bool {
        self.field == other.field
            && match (self.negated, negated) {
                (false, false) => self.values.within(&other.values),
                (false, true) => !self.values.meets(&other.values),
                (true, true) => other.values.within(&self.values),
                (true, false) => false,
            }
    }
}

/// Value types: fixed-width numbers in the kernel and in rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataType {
    InterfaceName,
    Family,
    Address(Family),
    Protocol,
    Port,
    Uid,
    Gid,
    ConnState,
    Mark,
}

impl DataType {
    /// Name, number, width and [`DataType::is_host_order`]; the numbers are from `enum datatypes` in `nft`'s `datatype.h`.
    const fn row(self) -> (&'static str, u32, usize, bool) {
        match self {
            Self::Family => ("nf_proto", 2, 1, false),
            Self::Address(Family::V4) => ("ipv4_addr", 7, 4, false),
            Self::Address(Family::V6) => ("ipv6_addr", 8, 16, false),
            Self::Protocol => ("inet_proto", 12, 1, false),
            Self::Port => ("inet_service", 13, 2, false),
            Self::Mark => ("mark", 19, 4, true),
            Self::Uid => ("uid", 24, 4, true),
            Self::Gid => ("gid", 25, 4, true),
            Self::ConnState => ("ct_state", 26, 4, true),
            Self::InterfaceName => ("ifname", 41, 16, false),
        }
    }

    pub fn name(self) -> &'static str {
        self.row().0
    }

    pub fn number(self) -> u32 {
        self.row().1
    }

    pub fn width(self) -> usize {
        self.row().2
    }

    /// True for the kernel's own numbers, in host byte order; other values have their most significant byte first.
    pub fn is_host_order(self) -> bool {
        self.row().3
    }

    pub fn max(self) -> u128 {
        u128::MAX >> (128 - 8 * self.width())
    }

    /// True if lists of values are stored as ranges instead of single values.
    pub fn has_ranges(self) -> bool {
        matches!(self, Self::Address(_) | Self::Port)
    }

    /// Encodes a value for registers and sets; for comparing ranges (`is_ordered`), the most significant byte first.
    pub fn encode(self, value: u128, is_ordered: bool) -> Vec<u8> {
        self.key(value, is_ordered)[..self.width()].to_vec()
    }

    pub fn key(self, value: u128, is_ordered: bool) -> [u8; 16] {
        let (mut key, width) = ([0; 16], self.width());
        key[..width].copy_from_slice(&value.to_be_bytes()[16 - width..]);
        if self.is_reversed(is_ordered) {
            key[..width].reverse();
        }
        key
    }

    /// Decodes a value from bytes of [`DataType::encode`], or from a prefix.
    pub fn decode(self, bytes: &[u8], is_ordered: bool) -> u128 {
        let digit = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
        match self.is_reversed(is_ordered) {
            true => bytes.iter().rev().fold(0, digit),
            false => bytes.iter().fold(0, digit),
        }
    }

    pub fn is_reversed(self, is_ordered: bool) -> bool {
        !is_ordered && self.is_host_order() && cfg!(target_endian = "little")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn port(negated: bool, numbers: &[u128]) -> Condition {
        let values = numbers.iter().map(|&number| Interval::one(number)).collect();
        Condition { field: Field::DestinationPort, negated, values }
    }

    #[test]
    fn conditions_are_compared_by_the_packets_they_admit() {
        assert!(port(false, &[80]).implies(&port(false, &[80, 443])));
        assert!(port(false, &[80]).implies(&port(true, &[53])));
        assert!(port(true, &[53, 80]).implies(&port(true, &[53])));
        assert!(!port(true, &[53]).implies(&port(true, &[53, 80])));
        assert!(!port(true, &[53]).implies(&port(false, &[80])));
        assert!(port(false, &[80]).contradicts(&port(false, &[443])));
        assert!(port(false, &[53]).contradicts(&port(true, &[53, 80])));
        assert!(!port(true, &[53]).contradicts(&port(true, &[80])));
    }

    #[test]
    fn a_wildcard_spans_the_names_it_covers() {
        let interval = |name: &str| interface_interval(&name.parse().expect("valid"));
        let bridges = interval("br+");
        for (name, covered) in
            [("br", true), ("br-lan", true), ("brrrrrrrrrrrrrr", true), ("bs", false), ("b", false)]
        {
            let name = interval(name);
            assert_eq!(bridges.first <= name.first && name.last <= bridges.last, covered);
        }
    }

    #[test]
    fn values_come_back_from_their_bytes() {
        for kind in Field::ALL.map(Field::data_type) {
            let numbers = [0, 1, 0x12, kind.max() / 3, kind.max() - 1, kind.max()];
            for (number, is_ordered) in numbers.into_iter().flat_map(|n| [(n, false), (n, true)]) {
                let bytes = kind.encode(number, is_ordered);
                assert_eq!(
                    (bytes.len(), kind.decode(&bytes, is_ordered)),
                    (kind.width(), number),
                    "{kind:?}"
                );
                let key = kind.key(number, is_ordered);
                assert_eq!(
                    (&key[..kind.width()], u128::from_be_bytes(key) << (8 * kind.width() - 1) << 1),
                    (&bytes[..], 0)
                );
                let in_host_order = kind.is_host_order() && !is_ordered && cfg!(target_endian = "little");
                let mut expected = number.to_be_bytes()[16 - kind.width()..].to_vec();
                if in_host_order {
                    expected.reverse();
                }
                assert_eq!(bytes, expected, "{kind:?} {number} {is_ordered}");
            }
        }
    }

    #[test]
    fn types_differ_by_name_and_number() {
        let kinds = BTreeSet::from(Field::ALL.map(Field::data_type));
        let names: BTreeSet<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let numbers: BTreeSet<u32> = kinds.iter().map(|kind| kind.number()).collect();
        assert_eq!((names.len(), numbers.len()), (kinds.len(), kinds.len()));
        let of_kernel = kinds.into_iter().filter(|kind| kind.is_host_order());
        assert!(of_kernel.eq([DataType::Uid, DataType::Gid, DataType::ConnState, DataType::Mark]));
    }
}
