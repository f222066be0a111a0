//! What rules see of a packet at one moment, and whether it fulfils a condition.

use super::packet::{Direction, LOOPBACK, Packet, Routing};
use super::trace::Matched;
use crate::{Cidr, Condition, ConnState, Gid, Match, Protocol, Uid};
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

/// A packet's fields. `None` is a value that is not known, unless said otherwise.
pub(super) struct Facts<'a> {
    pub(super) protocol: Protocol,
    pub(super) source: Option<IpAddr>,
    pub(super) source_port: Option<u16>,
    pub(super) destination: Option<IpAddr>,
    pub(super) destination_port: Option<u16>,
    pub(super) destination_local: bool,
    pub(super) arrives_at: Interface<'a>,
    pub(super) leaves_by: Interface<'a>,
    /// `None` for a packet that no socket of this machine sends.
    pub(super) owner: Option<(Uid, Gid)>,
    pub(super) mark: Option<u32>,
    pub(super) connmark: Option<u32>,
    /// `None` for a packet that conntrack does not see.
    pub(super) state: Option<ConnState>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(packet: &'a Packet, routing: &Routing) -> Self {
        let (arrives_at, leaves_by, owner, local) = match &packet.direction {
            Direction::Outbound { interface, uid, gid } => {
                // The route was looked up with the socket's mark.
                let by = if routing.takes_mark(packet.mark) { LOOPBACK } else { interface };
                (Interface::None, Interface::Named(by), Some((*uid, *gid)), interface == LOOPBACK)
            }
            Direction::Inbound { interface, local } => {
                (Interface::Named(interface), Interface::None, None, *local)
            }
        };
        Self {
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
        }
    }

    /// Compares with all conditions of a rule. One that fails decides, whatever is not known beside it.
    pub(super) fn fulfil(&self, conditions: &[Condition]) -> Matched {
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
    fn fulfils_one(&self, condition: &Condition) -> Option<bool> {
        match condition {
            Condition::Known(m) => self.matches(m),
            Condition::Protocol(operand) => Some(operand.holds(*operand.value() == Some(self.protocol))),
            Condition::DestinationLocal(operand) => Some(operand.holds(self.destination_local)),
            Condition::TcpFlags { takes_first, .. } => match self.state {
                _ if self.protocol != Protocol::Tcp => Some(false),
                Some(ConnState::New | ConnState::Related) => Some(*takes_first),
                Some(ConnState::Established | ConnState::Invalid) | None => None,
            },
            Condition::Always(_) => Some(true),
            Condition::Unknown(_) => None,
        }
    }

    fn matches(&self, m: &Match) -> Option<bool> {
        Some(match m {
            Match::Source(operand) => operand.holds(lies_in(self.source, operand.value())?),
            Match::Destination(operand) => operand.holds(lies_in(self.destination, operand.value())?),
            Match::InInterface(operand) => operand.holds(operand.value().covers(name(self.arrives_at)?)),
            Match::OutInterface(operand) => operand.holds(operand.value().covers(name(self.leaves_by)?)),
            Match::Protocol(protocol) => *protocol == self.protocol,
            Match::SourcePort(operand) => operand.holds(operand.value().contains(self.source_port?)),
            Match::DestinationPort(operand) => {
                operand.holds(operand.value().contains(self.destination_port?))
            }
            Match::DestinationPorts(operand) => {
                operand.holds(operand.value().contains(self.destination_port?))
            }
            // Without a socket there is no owner, and "not this owner" holds (`xt_owner.c`, `owner_mt`).
            Match::UidOwner(operand) => {
                operand.holds(self.owner.is_some_and(|(uid, _)| uid == *operand.value()))
            }
            Match::GidOwner(operand) => {
                operand.holds(self.owner.is_some_and(|(_, gid)| gid == *operand.value()))
            }
            Match::ConnState(operand) => {
                operand.holds(self.state.is_some_and(|state| operand.value().states().contains(&state)))
            }
            Match::Mark(operand) => operand.holds(operand.value().covers(self.mark?)),
            // Without a connection the match fails, negated or not (`xt_connmark.c`, `connmark_mt`).
            Match::Connmark(_) if self.state.is_none_or(|state| state == ConnState::Invalid) => false,
            Match::Connmark(operand) => operand.holds(operand.value().covers(self.connmark?)),
            Match::Comment(_) => true,
        })
    }
}

/// Whether an address lies in a network: one that is not known still lies in that of all.
fn lies_in(address: Option<IpAddr>, network: &Cidr) -> Option<bool> {
    match address {
        Some(address) => Some(network.contains(address)),
        None => network.is_everything().then_some(true),
    }
}

fn name(interface: Interface<'_>) -> Option<&str> {
    match interface {
        Interface::None => Some(""),
        Interface::Named(name) => Some(name),
        Interface::Unknown => None,
    }
}
