//! What rules see of a packet at one moment, and whether it fulfils a condition.

use super::packet::{Direction, LOOPBACK, Packet, Routing};
use super::trace::Matched;
use crate::field::{Field, UNTRACKED_BIT, family_number, interface_number, protocol_number, state_bit};
use crate::{ConnState, Family, Gid, ListedCondition, Mark, Match, PortRange, Protocol, Uid};
use std::net::IpAddr;

/// An interface as a match sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Interface<'a> {
    /// The hook has none; the kernel compares with the empty name.
    None,
    /// This one.
    Named(&'a str),
    /// One that is not known.
    Unknown,
}

/// Whose socket a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It has none.
    None,
    Is(Uid, Gid),
    /// It has one, or may have one: that of the receiver.
    Unknown,
}

/// What conntrack has put to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// A connection, in this state.
    Here(ConnState),
    /// None: it counts as invalid, or, where it is `None`, as not tracked.
    None(Option<ConnState>),
    /// What a rule before conntrack leaves there with a zone (`xt_ct_target` in `xt_CT.c`). Its state is not known here.
    Template,
}

/// A value of a packet, as `nf_tables` loads it.
enum Loaded {
    Value(u128),
    /// There is none, and a rule that tests it ends there (`NFT_BREAK`).
    Nothing,
    Unknown,
}

/// A packet's fields. `None` is a value that is not known, unless noted otherwise.
pub(super) struct Facts<'a> {
    family: Family,
    pub(super) protocol: Protocol,
    pub(super) source: Option<IpAddr>,
    pub(super) source_port: Option<u16>,
    pub(super) destination: Option<IpAddr>,
    pub(super) destination_port: Option<u16>,
    pub(super) destination_local: bool,
    pub(super) arrives_at: Interface<'a>,
    pub(super) leaves_by: Interface<'a>,
    pub(super) owner: Owner,
    pub(super) mark: Option<u32>,
    pub(super) connmark: Option<u32>,
    /// `None` for a packet that conntrack does not see.
    pub(super) state: Option<ConnState>,
    /// What its state is if conntrack sees it.
    sent_as: ConnState,
    /// Whether conntrack has seen it.
    pub(super) is_tracked: bool,
    /// Whether a rule has put it in a zone.
    pub(super) is_zoned: bool,
}

impl<'a> Facts<'a> {
    pub(super) fn of(packet: &'a Packet, routing: &Routing) -> Self {
        let (arrives_at, leaves_by, owner, local) = match &packet.direction {
            Direction::Outbound { interface, uid, gid } => {
                // The route was looked up with the socket's mark.
                let by = if routing.takes_mark(packet.mark) { LOOPBACK } else { interface };
                (Interface::None, Interface::Named(by), Owner::Is(*uid, *gid), interface == LOOPBACK)
            }
            Direction::Inbound { interface, local } => {
                (Interface::Named(interface), Interface::None, Owner::None, *local)
            }
        };
        Self {
            family: packet.family(),
            protocol: packet.protocol,
            source: Some(packet.source.ip()),
            source_port: Some(packet.source.port()).filter(|&port| port != 0),
            destination: Some(packet.destination.ip()),
            destination_port: Some(packet.destination.port()),
            destination_local: local,
            arrives_at,
            leaves_by,
            owner,
            mark: Some(packet.mark),
            connmark: Some(packet.connmark),
            state: Some(packet.state),
            sent_as: packet.state,
            is_tracked: false,
            is_zoned: false,
        }
    }

    /// A rule puts it in a zone, by a template of its connection. nf_tables makes one even of a packet that is not to be tracked,
    /// which then is (`nft_ct_set_zone_eval`); iptables makes none of it (`xt_ct_target`).
    pub(super) fn put_in_zone(&mut self, by_nf_tables: bool) {
        if by_nf_tables {
            self.state = Some(self.sent_as);
        }
        self.is_zoned |= self.state.is_some();
    }

    /// What rules see of its connection.
    pub(super) fn connection(&self) -> Connection {
        match self.state {
            None => Connection::None(None),
            Some(_) if !self.is_tracked && self.is_zoned => Connection::Template,
            Some(_) if !self.is_tracked => Connection::None(Some(ConnState::Invalid)),
            Some(ConnState::Invalid) => Connection::None(Some(ConnState::Invalid)),
            Some(state) => Connection::Here(state),
        }
    }

    /// Compares with all conditions of a rule. One that fails decides, whatever is not known beside it.
    pub(super) fn fulfil(&self, conditions: &[ListedCondition]) -> Matched {
        let mut unsure = None;
        for (index, condition) in conditions.iter().enumerate() {
            match self.fulfils_one(condition) {
                Some(true) => {}
                Some(false) => return Matched::No(index),
                None => unsure = unsure.or(Some(index)),
            }
        }
        unsure.map_or(Matched::Yes, Matched::Unknown)
    }

    /// Whether the condition holds, if that is known.
    fn fulfils_one(&self, condition: &ListedCondition) -> Option<bool> {
        match condition {
            ListedCondition::Known(m) => self.matches(m),
            ListedCondition::Protocol(operand) => {
                Some(operand.holds(*operand.value() == Some(self.protocol)))
            }
            ListedCondition::DestinationLocal(operand) => Some(operand.holds(self.destination_local)),
            ListedCondition::TcpFlags { matches_syn, .. } => match self.state {
                _ if self.protocol != Protocol::Tcp => Some(false),
                Some(ConnState::New | ConnState::Related) => Some(*matches_syn),
                Some(ConnState::Established | ConnState::Invalid) | None => None,
            },
            ListedCondition::Nft(condition) => match self.load(condition.field) {
                Loaded::Value(value) => Some(condition.holds(value)),
                Loaded::Nothing => Some(false),
                Loaded::Unknown => condition.constant_answer(),
            },
            ListedCondition::Always(_) => Some(true),
            ListedCondition::Unknown(_) => None,
        }
    }

    /// A field as `nf_tables` sees it.
    fn load(&self, field: Field) -> Loaded {
        let known = |value: Option<u128>| value.map_or(Loaded::Unknown, Loaded::Value);
        let interface = |interface| known(name(interface).map(interface_number));
        let address = |of: Family, address: Option<IpAddr>| match address {
            Some(IpAddr::V4(address)) if of == Family::V4 => Loaded::Value(address.to_bits().into()),
            Some(IpAddr::V6(address)) if of == Family::V6 => Loaded::Value(address.to_bits()),
            // The same bytes in the header of the other family are not followed.
            Some(_) | None => Loaded::Unknown,
        };
        let owner = |id: fn(Uid, Gid) -> u32| match self.owner {
            Owner::None => Loaded::Nothing,
            Owner::Is(uid, gid) => Loaded::Value(id(uid, gid).into()),
            Owner::Unknown => Loaded::Unknown,
        };
        match field {
            Field::InInterface => interface(self.arrives_at),
            Field::OutInterface => interface(self.leaves_by),
            Field::Family => Loaded::Value(family_number(self.family).into()),
            Field::Source(of) => address(of, self.source),
            Field::Destination(of) => address(of, self.destination),
            Field::Protocol => Loaded::Value(protocol_number(self.protocol).into()),
            Field::SourcePort => known(self.source_port.map(u128::from)),
            Field::DestinationPort => known(self.destination_port.map(u128::from)),
            // `nft_meta_get_eval_skugid` in `nft_meta.c`.
            Field::Uid => owner(|uid, _| uid.number()),
            Field::Gid => owner(|_, gid| gid.number()),
            Field::ConnState => match self.connection() {
                Connection::Here(state) | Connection::None(Some(state)) => {
                    Loaded::Value(state_bit(state).into())
                }
                Connection::None(None) => Loaded::Value(UNTRACKED_BIT.into()),
                Connection::Template => Loaded::Unknown,
            },
            Field::Mark(mask) => known(self.mark.map(|mark| (mark & mask).into())),
            Field::Connmark(mask) => match self.connection() {
                Connection::Here(_) => known(self.connmark.map(|mark| (mark & mask).into())),
                Connection::None(_) => Loaded::Nothing,
                Connection::Template => Loaded::Unknown,
            },
        }
    }

    /// Whether a condition of iptables holds, if that is known.
    pub(super) fn matches(&self, m: &Match) -> Option<bool> {
        let Some((field, is_negated)) = m.looks_at() else { return Some(true) };
        match self.load(field) {
            Loaded::Value(value) => {
                Some(m.has_range(|range| range.first <= value && value <= range.last) != is_negated)
            }
            // Without a socket there is no owner, and "not this owner" holds (`xt_owner.c`, `owner_mt`). Without a connection
            // the match fails, negated or not (`xt_connmark.c`, `connmark_mt`).
            Loaded::Nothing => Some(is_negated && !matches!(field, Field::Connmark(_))),
            Loaded::Unknown => m.constant_answer(),
        }
    }
}

fn name(interface: Interface<'_>) -> Option<&str> {
    match interface {
        Interface::None => Some(""),
        Interface::Named(name) => Some(name),
        Interface::Unknown => None,
    }
}

/// The port after NAT to a range: one inside stays; otherwise the kernel picks one.
pub(super) fn port_in(ports: PortRange, now: Option<u16>) -> Option<u16> {
    match now {
        _ if ports.is_single() => Some(ports.first().number()),
        Some(port) if ports.contains(port) => Some(port),
        _ => None,
    }
}

/// What setting a mark makes of one that is perhaps not known.
pub(super) fn set_in(before: Option<u32>, mark: Mark) -> Option<u32> {
    match before {
        Some(before) => Some(mark.set_in(before)),
        // A whole mark leaves nothing of what was not known.
        None => mark.is_whole().then_some(mark.value),
    }
}
