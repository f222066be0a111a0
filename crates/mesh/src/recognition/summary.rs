//! What a rule asks of a packet, whichever backend holds it: iptables' matches and the conditions of nf_tables in the same
//! few words.

use rules::nft::Field;
use rules::{Cidr, Condition, Match, Negatable, Protocol, render};
use std::fmt::Display;

/// The values that a field may have, or, negated, may not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldValues {
    pub negated: bool,
    pub items: Vec<String>,
}

/// The fields that rules of the policy ask about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSummary {
    pub in_interface: Option<FieldValues>,
    pub out_interface: Option<FieldValues>,
    pub source: Option<FieldValues>,
    pub destination: Option<FieldValues>,
    pub destination_port: Option<FieldValues>,
    pub uid: Option<FieldValues>,
    pub gid: Option<FieldValues>,
    /// The mark of the packet, as `VALUE/MASK`.
    pub mark: Option<FieldValues>,
    /// Whether it asks for TCP; for UDP. Neither, if it asks for no protocol.
    pub tcp: bool,
    pub udp: bool,
    /// The state of the connection, a mark, anything that is not understood: what tells nothing to people.
    pub more: bool,
    /// The rule's own words about it.
    pub comment: Option<String>,
}

impl RuleSummary {
    pub fn of(conditions: &[Condition]) -> Self {
        let mut asks = Self::default();
        for condition in conditions {
            match condition {
                Condition::Known(asked) => asks.matched(asked),
                Condition::Nft(asked) => {
                    let items = render::nft::values(asked);
                    let items = items.iter().map(|item| item.trim_matches('"').to_owned()).collect();
                    asks.field(asked.field, FieldValues { negated: asked.negated, items });
                }
                Condition::Always(_) | Condition::Protocol(_) => {}
                Condition::DestinationLocal(_) | Condition::TcpFlags { .. } | Condition::Unknown(_) => {
                    asks.more = true;
                }
            }
        }
        asks
    }

    fn matched(&mut self, asked: &Match) {
        match asked {
            Match::InInterface(name) => self.in_interface = Some(one(name)),
            Match::OutInterface(name) => self.out_interface = Some(one(name)),
            Match::Source(network) => self.source = Some(host(network)),
            Match::Destination(network) => self.destination = Some(host(network)),
            Match::DestinationPort(port) => {
                let items = vec![port.value().dashed().to_string()];
                self.destination_port = Some(FieldValues { negated: port.is_negated(), items });
            }
            Match::DestinationPorts(ports) => {
                let items = ports.value().ranges().iter().map(|range| range.dashed().to_string()).collect();
                self.destination_port = Some(FieldValues { negated: ports.is_negated(), items });
            }
            Match::UidOwner(uid) => {
                let items = vec![uid.value().dashed().to_string()];
                merge(&mut self.uid, FieldValues { negated: uid.is_negated(), items });
            }
            Match::GidOwner(gid) => merge(&mut self.gid, one(gid)),
            Match::Comment(comment) => self.comment = Some(comment.as_str().to_owned()),
            Match::Mark(mark) => {
                self.mark = Some(one(mark));
                self.more = true;
            }
            Match::Protocol(Protocol::Tcp) => self.tcp = true,
            Match::Protocol(Protocol::Udp) => self.udp = true,
            Match::ProtocolModule(_) | Match::SourcePort(_) => {}
            _ => self.more = true,
        }
    }

    fn field(&mut self, field: Field, asked: FieldValues) {
        match field {
            Field::InInterface => self.in_interface = Some(asked),
            Field::OutInterface => self.out_interface = Some(asked),
            Field::Source(_) => self.source = Some(asked),
            Field::Destination(_) => self.destination = Some(asked),
            Field::DestinationPort => self.destination_port = Some(asked),
            Field::Uid => self.uid = Some(asked),
            Field::Gid => self.gid = Some(asked),
            Field::Mark(_) => {
                self.mark = Some(asked);
                self.more = true;
            }
            Field::ConnState | Field::Connmark(_) => self.more = true,
            Field::Protocol if !asked.negated => {
                self.tcp |= asked.items.iter().any(|item| item == "tcp");
                self.udp |= asked.items.iter().any(|item| item == "udp");
            }
            Field::Family | Field::Protocol | Field::SourcePort => {}
        }
    }
}

/// Of several owners in a rule each is asked on its own; the policy only ever says of several who it is not.
fn merge(held: &mut Option<FieldValues>, more: FieldValues) {
    match held {
        Some(held) if held.negated == more.negated => held.items.extend(more.items),
        _ => *held = Some(more),
    }
}

fn one<T: Display + Ord>(operand: &Negatable<T>) -> FieldValues {
    FieldValues { negated: operand.is_negated(), items: vec![operand.value().to_string()] }
}

/// A network; of one address alone, that.
fn host(operand: &Negatable<Cidr>) -> FieldValues {
    let cidr = operand.value();
    let text =
        if cidr.length() == cidr.family().bits() { cidr.address().to_string() } else { cidr.to_string() };
    FieldValues { negated: operand.is_negated(), items: vec![text] }
}
