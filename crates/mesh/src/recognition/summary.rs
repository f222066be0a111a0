//! What a rule matches, whichever backend holds it: iptables' matches and the conditions of nf_tables in the same
//! few words.

use crate::reason::About;
use rules::nft::{self, Field};
use rules::{Cidr, ListedCondition, Match, render};
use std::borrow::Cow;

/// The field that a listed condition looks at and the values that it matches, however the backend writes it; `None` where
/// it looks at none, or is not understood.
pub fn field_condition(condition: &ListedCondition) -> Option<Cow<'_, nft::Condition>> {
    match condition {
        ListedCondition::Known(known) => known.condition().map(Cow::Owned),
        ListedCondition::Nft(condition) => Some(Cow::Borrowed(condition)),
        ListedCondition::Protocol(_)
        | ListedCondition::DestinationLocal(_)
        | ListedCondition::TcpFlags { .. }
        | ListedCondition::Always(_)
        | ListedCondition::Unknown(_) => None,
    }
}

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
    /// Whether it matches TCP; UDP. Neither, if it matches no protocol.
    pub tcp: bool,
    pub udp: bool,
    /// Whether it matches the state of the connection, a mark, or anything that is not understood: what lists do not name.
    pub more: bool,
    /// The rule's own words about it.
    pub comment: Option<String>,
}

impl RuleSummary {
    pub fn of(conditions: &[ListedCondition]) -> Self {
        let mut summary = Self::default();
        for condition in conditions {
            match condition {
                ListedCondition::Known(Match::Comment(comment)) => {
                    summary.comment = Some(comment.as_str().to_owned());
                }
                ListedCondition::Known(known) => {
                    if let Some(values) = known.condition() {
                        summary.field(
                            values.field,
                            FieldValues { negated: values.negated, items: items(known) },
                        );
                    }
                }
                ListedCondition::Nft(values) => {
                    let items = render::nft::values(values);
                    let items = items.iter().map(|item| item.trim_matches('"').to_owned()).collect();
                    summary.field(values.field, FieldValues { negated: values.negated, items });
                }
                ListedCondition::Always(_) | ListedCondition::Protocol(_) => {}
                ListedCondition::DestinationLocal(_)
                | ListedCondition::TcpFlags { .. }
                | ListedCondition::Unknown(_) => {
                    summary.more = true;
                }
            }
        }
        summary
    }

    /// The values that rules about such a condition are about, but for owners, which may be users and groups.
    pub fn values(&self, about: About) -> Option<&FieldValues> {
        match about {
            About::Nothing | About::Owner | About::OwnerAndPorts => None,
            About::Destination => self.destination.as_ref(),
            About::Source => self.source.as_ref(),
            About::Port => self.destination_port.as_ref(),
            About::Interface => self.in_interface.as_ref().or(self.out_interface.as_ref()),
        }
    }

    fn field(&mut self, field: Field, values: FieldValues) {
        match field {
            Field::InInterface => self.in_interface = Some(values),
            Field::OutInterface => self.out_interface = Some(values),
            Field::Source(_) => self.source = Some(values),
            Field::Destination(_) => self.destination = Some(values),
            Field::DestinationPort => self.destination_port = Some(values),
            Field::Uid => merge(&mut self.uid, values),
            Field::Gid => merge(&mut self.gid, values),
            Field::Mark(_) => {
                self.mark = Some(values);
                self.more = true;
            }
            Field::ConnState | Field::Connmark(_) => self.more = true,
            Field::Protocol if !values.negated => {
                self.tcp |= values.items.iter().any(|item| item == "tcp");
                self.udp |= values.items.iter().any(|item| item == "udp");
            }
            Field::Family | Field::Protocol | Field::SourcePort => {}
        }
    }
}

/// Several owners in a rule are separate conditions; the policy only ever excludes several.
fn merge(held: &mut Option<FieldValues>, more: FieldValues) {
    match held {
        Some(held) if held.negated == more.negated => held.items.extend(more.items),
        _ => *held = Some(more),
    }
}

/// The values of a match, as people write them.
fn items(known: &Match) -> Vec<String> {
    match known {
        Match::InInterface(name) | Match::OutInterface(name) => vec![name.value().to_string()],
        Match::Source(network) | Match::Destination(network) => vec![host(network.value())],
        Match::SourcePort(ports) | Match::DestinationPort(ports) => vec![ports.value().dashed().to_string()],
        Match::DestinationPorts(ports) => {
            ports.value().ranges().iter().map(|range| range.dashed().to_string()).collect()
        }
        Match::UidOwner(users) => vec![users.value().dashed().to_string()],
        Match::GidOwner(group) => vec![group.value().to_string()],
        Match::Mark(mark) => vec![mark.value().to_string()],
        Match::Protocol(protocol) => vec![protocol.to_string()],
        // No list of a policy is about other matches.
        _ => Vec::new(),
    }
}

/// A network; of one address alone, that.
fn host(network: &Cidr) -> String {
    match network.length() == network.family().bits() {
        true => network.address().to_string(),
        false => network.to_string(),
    }
}
