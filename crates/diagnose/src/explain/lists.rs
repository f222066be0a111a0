//! The lists of the settings, as rules hold them: the item that a packet matches, and the items that are nearest to a packet
//! which matches none.

use super::Explanation;
use super::because::reason_of;
use mesh::Mesh;
use mesh::RuleReason;
use mesh::reason::Meaning;
use mesh::recognition::summary::{self, field_condition};
use rules::ListedCondition;
use rules::nft::{Field, Interval, Intervals, interface_number};
use rules::simulate::{Direction, Packet, ViewRule, number};
use std::collections::HashSet;

/// Items of a list that a sentence names.
const NAMED: usize = 5;

impl Explanation<'_> {
    /// The lists of captured items that do not name the packet, in words: `-i captures only 10.0.0.0/8`. `None` where no
    /// rule with a known reason holds such a list.
    pub(super) fn lists_without_packet(&self) -> Option<String> {
        let rules = self.view.chains().iter().flat_map(|chain| &chain.rules);
        let known: Vec<(RuleReason, &ViewRule)> =
            rules.filter_map(|rule| Some((reason_of(rule)?, rule))).collect();
        let lists: &[(Meaning, &str)] = match self.packet.direction {
            Direction::Inbound { .. } => &[(Meaning::InboundPort, "port")],
            Direction::Outbound { .. } => {
                &[(Meaning::OutboundNetwork, "network"), (Meaning::OutboundPort, "port")]
            }
        };
        let meshes = Mesh::ALL.iter().filter(|mesh| known.iter().any(|(reason, _)| reason.mesh() == **mesh));
        let lists = meshes.flat_map(|mesh| {
            let of_mesh = lists.iter().filter_map(move |(meaning, noun)| {
                let mut of_mesh =
                    RuleReason::all().filter(|one| one.mesh() == *mesh && !one.settings().is_empty());
                Some((of_mesh.find(|one| one.meaning() == *meaning)?, *noun))
            });
            // The first list is the main one: of the others it is not worth saying that they are empty.
            of_mesh.enumerate().map(|(index, (reason, noun))| (index == 0, reason, noun))
        });
        let lacking = lists.filter_map(|(is_first, reason, noun)| {
            let option = crate::picture::option(reason.settings()[0], &self.dialect);
            let rules = known.iter().filter(|(known, _)| *known == reason);
            let fields = reason.meaning().row().about;
            let is_of_list =
                |one: &&ListedCondition| one.field().is_some_and(|field| fields.contains(&field));
            let conditions = rules.filter_map(|(_, rule)| items_of(rule)).filter(is_of_list);
            match nearest(conditions, self.packet) {
                None => is_first.then(|| format!("{option} captures no {noun}")),
                Some(items) => Some(format!("{option} captures only {items}")),
            }
        });
        let lacking: Vec<String> = lacking.collect();
        (!lacking.is_empty()).then(|| lacking.join(" and "))
    }

    /// The subject of the rule, in words: the item that the packet matches.
    pub(super) fn value(&self, rule: &ViewRule) -> Option<String> {
        let condition = items_of(rule)?;
        let own = packet_value(condition, self.packet);
        let holds = |(_, values): &&(String, Interval)| {
            own.is_some_and(|own| values.first <= own && own <= values.last)
        };
        let items = items(condition);
        Some(items.iter().find(holds).map_or_else(|| item_texts(rule).join(","), |(text, _)| text.clone()))
    }
}

/// The items of a list that are nearest to the packet's own value, and how many more there are; a range of ports counts as
/// its ports. `None` where the list is empty.
fn nearest<'a>(conditions: impl Iterator<Item = &'a ListedCondition>, packet: &Packet) -> Option<String> {
    let (mut listed, mut seen) = (Vec::new(), HashSet::new());
    let mut are_ports = false;
    for condition in conditions {
        let own = packet_value(condition, packet);
        are_ports = condition.field().is_some_and(Field::is_port);
        for (item, values) in items(condition) {
            let Interval { first, last } = values;
            let distance =
                own.map_or(u128::MAX, |own| first.saturating_sub(own).max(own.saturating_sub(last)));
            let text = if are_ports && first < last { format!("{first}-{last}") } else { item };
            if seen.insert(text.clone()) {
                listed.push((distance, values, text));
            }
        }
    }
    let count = |listed: &[(u128, Interval, String)]| match are_ports {
        true => {
            let ports: Intervals = listed.iter().map(|(_, values, _)| *values).collect();
            ports.joined().ranges().iter().map(|range| range.last - range.first + 1).sum()
        }
        false => listed.len() as u128,
    };
    let all = count(&listed);
    listed.sort_by_key(|(distance, ..)| *distance);
    listed.truncate(NAMED);
    let more = all - count(&listed);
    listed.sort_by_key(|(_, values, _)| values.first);
    let named: Vec<String> = listed.into_iter().map(|(.., text)| text).collect();
    let more = if more > 0 { format!(" and {} more", crate::picture::grouped(more)) } else { String::new() };
    (!named.is_empty()).then(|| named.join(",") + &more)
}

/// The condition that holds items of a setting's list.
fn items_of(rule: &ViewRule) -> Option<&ListedCondition> {
    let field = rule.origin?.item?;
    rule.conditions.iter().find(|condition| condition.field() == Some(field))
}

pub(crate) fn item_texts(rule: &ViewRule) -> Vec<String> {
    items_of(rule).into_iter().flat_map(items).map(|(text, _)| text).collect()
}

fn items(condition: &ListedCondition) -> Vec<(String, Interval)> {
    let Some(condition) = field_condition(condition) else { return Vec::new() };
    let noun = match condition.field {
        Field::Uid => "user ",
        Field::Gid => "group ",
        Field::InInterface | Field::OutInterface | Field::Source(_) | Field::Destination(_) => "",
        Field::SourcePort | Field::DestinationPort => "",
        Field::Family | Field::Protocol | Field::ConnState | Field::Mark(_) | Field::Connmark(_) => {
            return Vec::new();
        }
    };
    let texts = summary::items(&condition).into_iter().map(|text| format!("{noun}{text}"));
    texts.zip(condition.values.ranges().iter().copied()).collect()
}

/// The packet's value of the field that a condition looks at, before any rule has changed it.
pub(super) fn packet_value(condition: &ListedCondition, packet: &Packet) -> Option<u128> {
    let (source, destination) = (packet.source, packet.destination);
    match (condition.field()?, &packet.direction) {
        (Field::Source(_), _) => Some(number(source.ip())),
        (Field::Destination(_), _) => Some(number(destination.ip())),
        (Field::SourcePort, _) => Some(source.port().into()),
        (Field::DestinationPort, _) => Some(destination.port().into()),
        (Field::Uid, Direction::Outbound { uid, .. }) => Some(uid.number().into()),
        (Field::Gid, Direction::Outbound { gid, .. }) => Some(gid.number().into()),
        (Field::InInterface, Direction::Inbound { interface, .. })
        | (Field::OutInterface, Direction::Outbound { interface, .. }) => Some(interface_number(interface)),
        _ => None,
    }
}
