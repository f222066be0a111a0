//! A rule's question about a packet: does a field of it lie in a set of numbers? All that is known of a field is here:
//! its name, the type, width and byte order of its values, and what changes it.
//!
//! The algebra at the end (implication, contradiction) is the base of the shortening of rules (`nft::compact`). It may
//! miss an implication or a contradiction; it never claims one wrongly.

mod data_type;

pub use crate::intervals::{Interval, Intervals};
pub use data_type::DataType;

use crate::{ConnState, Family, Hook, InterfaceName, Protocol, WriteSet};

/// A field of a packet, or what the kernel knows about it. The order is that in which rules ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The name of the interface on which it came in: 16 bytes, padded with NUL.
    InInterface,
    OutInterface,
    /// The address family, as [`family_number`].
    Family,
    Source(Family),
    Destination(Family),
    /// The transport protocol, as [`protocol_number`].
    Protocol,
    SourcePort,
    DestinationPort,
    /// The user whose process made the socket. A packet without a socket has none, and a rule of nf_tables that asks for
    /// it does not match then, so no rule of ours negates it.
    Uid,
    /// The group of the process that made the socket. As with [`Field::Uid`], a packet may have none.
    Gid,
    /// The state of its connection, as [`state_bit`].
    ConnState,
    /// The bits of this mask in its mark.
    Mark(u32),
    /// The bits of this mask in the mark of its connection.
    Connmark(u32),
}

impl Field {
    /// All fields, marks as a whole.
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

    /// Its name in `nft`; of ports, the part after the name of their header.
    pub fn name(self) -> &'static str {
        match self {
            Self::InInterface => "iifname",
            Self::OutInterface => "oifname",
            Self::Family => "meta nfproto",
            Self::Source(Family::V4) => "ip saddr",
            Self::Source(Family::V6) => "ip6 saddr",
            Self::Destination(Family::V4) => "ip daddr",
            Self::Destination(Family::V6) => "ip6 daddr",
            Self::Protocol => "meta l4proto",
            Self::SourcePort => "sport",
            Self::DestinationPort => "dport",
            Self::Uid => "meta skuid",
            Self::Gid => "meta skgid",
            Self::ConnState => "ct state",
            Self::Mark(_) => "meta mark",
            Self::Connmark(_) => "ct mark",
        }
    }

    pub fn data_type(self) -> DataType {
        match self {
            Self::InInterface | Self::OutInterface => DataType::InterfaceName,
            Self::Family => DataType::Family,
            Self::Source(family) | Self::Destination(family) => DataType::Address(family),
            Self::Protocol => DataType::Protocol,
            Self::SourcePort | Self::DestinationPort => DataType::Port,
            Self::Uid => DataType::Uid,
            Self::Gid => DataType::Gid,
            Self::ConnState => DataType::ConnState,
            Self::Mark(_) | Self::Connmark(_) => DataType::Mark,
        }
    }

    /// The family of the packets that have it; `None` for both.
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

    /// True if its value may change once these are written.
    pub fn depends_on(self, written: WriteSet) -> bool {
        match self {
            Self::Mark(_) => written.mark,
            Self::Connmark(_) => written.connmark || written.zone,
            Self::ConnState => written.zone,
            _ => false,
        }
    }
}

/// The kernel's number of a family (`NFPROTO_IPV4`, `NFPROTO_IPV6` in `linux/netfilter.h`).
pub const fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// The number of a protocol in the IP header (IANA).
pub const fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
    }
}

/// The bit of a connection state (`NF_CT_STATE_BIT` in `linux/netfilter/nf_conntrack_common.h`).
pub const fn state_bit(state: ConnState) -> u8 {
    match state {
        ConnState::Invalid => 0,
        ConnState::Established => 1,
        ConnState::Related => 2,
        ConnState::New => 3,
    }
}

/// The bit of a packet that conntrack does not track (`NF_CT_STATE_UNTRACKED_BIT`).
pub const UNTRACKED_BIT: u8 = 6;

/// The name of one interface, as a number: 16 bytes, the first the most significant.
pub fn interface_number(name: &str) -> u128 {
    let mut bytes = [0; 16];
    let length = name.len().min(bytes.len());
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    u128::from_be_bytes(bytes)
}

/// The names that an interface name covers, as numbers: 16 bytes, the first the most significant.
pub(crate) fn interface_interval(name: &InterfaceName) -> Interval {
    let padded = |text: &str, pad: u8| {
        let mut bytes = [pad; 16];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        u128::from_be_bytes(bytes)
    };
    match name.prefix() {
        Some(prefix) => Interval { first: padded(prefix, 0), last: padded(prefix, u8::MAX) },
        None => Interval::one(padded(name.as_str(), 0)),
    }
}

/// One condition of a rule; a packet must fulfil all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Condition {
    pub field: Field,
    /// The field must lie outside of the values.
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

    pub fn holds(&self, value: u128) -> bool {
        self.values.meets(&Intervals::one(value)) != self.negated
    }

    /// The answer for every value, if there is one: an address that is not known lies in the network of all.
    pub(crate) fn constant_answer(&self) -> Option<bool> {
        let kind = self.field.data_type();
        let is_whole = |values: &Intervals| values.single() == Some(Interval { first: 0, last: kind.max() });
        (kind.has_ranges() && is_whole(&self.values.joined())).then_some(!self.negated)
    }

    /// A packet that does not fulfil it fulfils the opposite; one without a connection has no connection mark, and
    /// fails either way (`xt_connmark.c`, `nft_ct_get_eval`).
    pub(crate) fn has_opposite(&self) -> bool {
        !matches!(self.field, Field::Connmark(_))
    }

    #[must_use]
    pub(crate) fn opposite(&self) -> Self {
        Self { negated: !self.negated, ..self.clone() }
    }

    pub(crate) fn implies(&self, other: &Self) -> bool {
        self.field == other.field
            && match (self.negated, other.negated) {
                (false, false) => self.values.within(&other.values),
                (false, true) => !self.values.meets(&other.values),
                (true, true) => other.values.within(&self.values),
                (true, false) => false,
            }
    }

    pub(crate) fn contradicts(&self, other: &Self) -> bool {
        self.field == other.field
            && match (self.negated, other.negated) {
                (false, false) => !self.values.meets(&other.values),
                (false, true) => self.values.within(&other.values),
                (true, false) => other.values.within(&self.values),
                (true, true) => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
