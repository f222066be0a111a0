//! Lists that rules hold: which of its items a rule is about for this packet, and which items are near a packet that none
//! of them names.

use super::Explanation;
use crate::lint::{addresses, ports};
use mesh::Mesh;
use mesh::Reason;
use mesh::reason::{About, Meaning};
use rules::nft::{Field, Interval, Intervals, interface_number};
use rules::simulate::{At, Direction, Packet};
use rules::{Condition, Match, render};
use std::net::IpAddr;

/// How many items of a list a sentence names.
const NAMED: usize = 5;

impl Explanation<'_> {
    /// Which of the lists that name what is captured do not name it. `None` for rules that don't say why they are there.
    pub(super) fn lists_lack_it(&self) -> Option<String> {
        let chains = self.view.chains().iter().enumerate();
        let places =
            chains.flat_map(|(chain, held)| (0..held.rules.len()).map(move |rule| At { chain, rule }));
        let known: Vec<(Reason, At)> = places.filter_map(|at| Some((self.told_reason(at)?, at))).collect();
        let lists: &[(Meaning, &str)] = match self.packet.direction {
            Direction::Inbound { .. } => &[(Meaning::InboundPort, "port")],
            Direction::Outbound { .. } => {
                &[(Meaning::OutboundNetwork, "network"), (Meaning::OutboundPort, "port")]
            }
        };
        let meshes = Mesh::ALL.iter().filter(|mesh| known.iter().any(|(reason, _)| reason.mesh() == **mesh));
        let lists = meshes.flat_map(|mesh| {
            let of_mesh = lists.iter().filter_map(move |(meaning, noun)| {
                let mut made = Reason::all().filter(|reason| reason.mesh() == *mesh);
                let is_list = |reason: &Reason| reason.meaning() == *meaning && !reason.settings().is_empty();
                Some((made.find(is_list)?, *noun))
            });
            // The first list is the one that is meant to capture.
            of_mesh.enumerate().map(|(index, (reason, noun))| (index == 0, reason, noun))
        });
        let told = lists.filter_map(|(is_first, reason, noun)| {
            let option = crate::picture::option(reason.settings()[0], &self.dialect);
            let rules = known.iter().filter(|(known, _)| *known == reason);
            let rules = rules.filter_map(|(_, at)| self.view.rule(*at));
            let conditions = rules.filter_map(|rule| rule.conditions.iter().find(|c| !items(c).is_empty()));
            match nearest(conditions, self.packet) {
                None => is_first.then(|| format!("{option} captures no {noun}")),
                Some(items) => Some(format!("{option} captures only {items}")),
            }
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| told.join(" and "))
    }

    /// What the rule is about: of a list that one rule holds, the item that the packet has.
    pub(super) fn value(&self, conditions: &[Condition], meaning: Meaning) -> Option<String> {
        let mut with_items = conditions.iter().filter(|condition| !items(condition).is_empty());
        let condition =
            conditions.iter().find(|condition| is_point(condition, meaning)).or(with_items.next())?;
        let own = own(condition, self.packet);
        let holds =
            |interval: &Interval| own.is_some_and(|own| interval.first <= own && own <= interval.last);
        let mut items = items(condition);
        match (intervals(condition).iter().position(holds), condition) {
            (Some(index), _) => items.into_iter().nth(index),
            (None, Condition::Known(_)) => Some(items.join(",")),
            (None, _) => (!items.is_empty()).then(|| items.swap_remove(0)),
        }
    }
}

/// The items of a list that are nearest to the packet's own value, and how many more there are; a range of ports counts as
/// its ports. `None` where the list is empty.
fn nearest<'a>(conditions: impl Iterator<Item = &'a Condition>, packet: &Packet) -> Option<String> {
    let mut listed: Vec<(u128, Option<Interval>, String)> = Vec::new();
    let mut are_ports = false;
    for condition in conditions {
        let own = own(condition, packet);
        are_ports = is_about_ports(condition);
        let mut intervals = intervals(condition).into_iter();
        for item in items(condition) {
            let interval = intervals.next();
            let distance = own.zip(interval).map_or(u128::MAX, |(own, Interval { first, last })| {
                first.saturating_sub(own).max(own.saturating_sub(last))
            });
            let text = match interval {
                Some(Interval { first, last }) if are_ports && first < last => format!("{first}-{last}"),
                _ => item,
            };
            if !listed.iter().any(|(.., known)| *known == text) {
                listed.push((distance, interval, text));
            }
        }
    }
    let count = |listed: &[(u128, Option<Interval>, String)]| match are_ports {
        true => {
            let ports: Intervals = listed.iter().filter_map(|(_, interval, _)| *interval).collect();
            ports.joined().ranges().iter().map(|range| range.last - range.first + 1).sum()
        }
        false => listed.len() as u128,
    };
    let all = count(&listed);
    listed.sort_by_key(|(distance, ..)| *distance);
    listed.truncate(NAMED);
    let more = all - count(&listed);
    listed.sort_by_key(|(_, interval, _)| interval.map(|interval| interval.first));
    let named: Vec<String> = listed.into_iter().map(|(.., text)| text).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| named.join(",") + &more)
}

/// Whether a condition is what rules of this meaning are about, though others stand before it.
fn is_point(condition: &Condition, meaning: Meaning) -> bool {
    let field = condition.field();
    let is_owner = matches!(field, Some(Field::Uid | Field::Gid));
    let is_interface = field == Some(Field::InInterface);
    match meaning.row().about {
        About::Owner | About::OwnerAndPorts => is_owner,
        About::Interface => is_interface,
        About::Nothing | About::Destination | About::Source | About::Port => false,
    }
}

/// What the rule is about: the items of the option's list that made it.
pub(crate) fn values(conditions: &[Condition]) -> Vec<String> {
    conditions.iter().map(items).find(|items| !items.is_empty()).unwrap_or_default()
}

fn items(condition: &Condition) -> Vec<String> {
    match condition {
        Condition::Known(m) => match m {
            Match::Source(operand) | Match::Destination(operand) => vec![operand.value().to_string()],
            Match::InInterface(operand) | Match::OutInterface(operand) => vec![operand.value().to_string()],
            Match::SourcePort(operand) | Match::DestinationPort(operand) => vec![operand.value().to_string()],
            Match::DestinationPorts(operand) => {
                operand.value().ranges().iter().map(ToString::to_string).collect()
            }
            Match::UidOwner(operand) => vec![format!("user {}", operand.value().dashed())],
            Match::GidOwner(operand) => vec![format!("group {}", operand.value())],
            _ => Vec::new(),
        },
        Condition::Nft(condition) => {
            let noun = match condition.field {
                Field::Uid => "user ",
                Field::Gid => "group ",
                Field::InInterface
                | Field::OutInterface
                | Field::Source(_)
                | Field::Destination(_)
                | Field::SourcePort
                | Field::DestinationPort => "",
                Field::Family | Field::Protocol | Field::ConnState | Field::Mark(_) | Field::Connmark(_) => {
                    return Vec::new();
                }
            };
            let values = render::nft::values(condition);
            values.iter().map(|value| format!("{noun}{}", value.trim_matches('"'))).collect()
        }
        Condition::Protocol(_)
        | Condition::DestinationLocal(_)
        | Condition::TcpFlags { .. }
        | Condition::Always(_)
        | Condition::Unknown(_) => Vec::new(),
    }
}

/// The same items as numbers, of addresses, ports and whatever a rule of nf_tables lists.
fn intervals(condition: &Condition) -> Vec<Interval> {
    match condition {
        Condition::Known(Match::Source(operand) | Match::Destination(operand)) => {
            vec![addresses(operand.value())]
        }
        Condition::Known(Match::SourcePort(operand) | Match::DestinationPort(operand)) => {
            vec![ports(operand.value())]
        }
        Condition::Known(Match::DestinationPorts(operand)) => {
            operand.value().ranges().iter().map(ports).collect()
        }
        Condition::Nft(condition) => condition.values.ranges().to_vec(),
        _ => Vec::new(),
    }
}

fn is_about_ports(condition: &Condition) -> bool {
    match condition {
        Condition::Known(m) => {
            matches!(m, Match::SourcePort(_) | Match::DestinationPort(_) | Match::DestinationPorts(_))
        }
        Condition::Nft(condition) => matches!(condition.field, Field::SourcePort | Field::DestinationPort),
        _ => false,
    }
}

/// The packet's value of what a condition asks for, as it was sent.
fn own(condition: &Condition, packet: &Packet) -> Option<u128> {
    let address = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let (source, destination) = (packet.source, packet.destination);
    match condition {
        Condition::Known(Match::Source(_)) => Some(address(source.ip())),
        Condition::Known(Match::Destination(_)) => Some(address(destination.ip())),
        Condition::Known(Match::SourcePort(_)) => Some(source.port().into()),
        Condition::Known(Match::DestinationPort(_) | Match::DestinationPorts(_)) => {
            Some(destination.port().into())
        }
        Condition::Nft(condition) => match (condition.field, &packet.direction) {
            (Field::Source(_), _) => Some(address(source.ip())),
            (Field::Destination(_), _) => Some(address(destination.ip())),
            (Field::SourcePort, _) => Some(source.port().into()),
            (Field::DestinationPort, _) => Some(destination.port().into()),
            (Field::Uid, Direction::Outbound { uid, .. }) => Some(uid.number().into()),
            (Field::Gid, Direction::Outbound { gid, .. }) => Some(gid.number().into()),
            (Field::InInterface, Direction::Inbound { interface, .. })
            | (Field::OutInterface, Direction::Outbound { interface, .. }) => {
                Some(interface_number(interface))
            }
            _ => None,
        },
        _ => None,
    }
}
