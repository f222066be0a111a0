//! Packets in words and as data: direction, family, protocol, source, destination, sender.

use crate::groups::{End, PacketGroup};
use crate::pod_packets::{PodPackets, Start};
use crate::style::listed;
use mesh::{Proxy, recognition::items};
use rules::nft::{Condition, Field, Interval, Intervals, protocol_number};
use rules::{Cidr, Family, Gid, Mark, Protocol, Uid, simulate::Marks};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, net::IpAddr};

const OWN: &str = "the pod's own address";

/// Maximum number of list items in a sentence.
const NAMED: usize = 5;

/// Packets by their properties. A null list means that the property makes no difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Packets {
    /// `outbound`, `inbound` or `forwarded` (to other hosts, as from a virtual machine in the pod).
    pub direction: Cow<'static, str>,
    /// `ipv4`, `ipv6`.
    pub families: Vec<Cow<'static, str>>,
    /// `tcp`, `udp`.
    pub protocols: Vec<Cow<'static, str>>,
    /// The destination ports.
    pub ports: Option<Values>,
    /// The destinations. Null: at least all outside addresses for outbound packets; the pod's addresses for inbound packets.
    pub destinations: Option<Values>,
    /// The sources.
    pub sources: Option<Values>,
    /// The source ports.
    pub source_ports: Option<Values>,
    /// The interfaces through which packets leave or arrive.
    pub interfaces: Option<Values>,
    /// The sending users.
    pub users: Option<Values>,
    /// The sending groups.
    pub groups: Option<Values>,
    /// The marks.
    pub marks: Option<Values>,
    /// The connection marks.
    pub connection_marks: Option<Values>,
    /// The connection states.
    pub states: Option<Values>,
}

/// Values of a property: these, or all except these, whichever list is shorter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Values {
    /// True for all values except these.
    pub except: bool,
    /// Single values, networks, or ranges with a dash.
    pub values: Vec<String>,
}

impl Packets {
    pub(crate) fn of<E: End>(packets: &PodPackets, group: &PacketGroup<E>) -> Self {
        let start = &packets.starts[group.start];
        let family = packets.family;
        let values = |field: Field| values(packets, start, group, field);
        let is_among = |protocol: &Protocol| {
            let number = Intervals::one(protocol_number(*protocol).into());
            group.values(Field::Protocol).is_none_or(|values| values.meets(&number))
        };
        let protocols = [Protocol::Tcp, Protocol::Udp].into_iter().filter(is_among);
        let states = start.sets.iter().map(|set| set.state);
        let (held, others): (Vec<_>, Vec<_>) = states.partition(|state| group.states.contains(state));
        let except = held.contains(&start.sets[0].state);
        let named = if except { &others } else { &held };
        let states = named.iter().map(|state| state.name().to_lowercase()).collect();
        Self {
            direction: match (start.is_inbound(), start.is_forwarded()) {
                (false, _) => "outbound".into(),
                (true, false) => "inbound".into(),
                (true, true) => "forwarded".into(),
            },
            families: vec![family.word().into()],
            protocols: protocols.map(|one| if one == Protocol::Tcp { "tcp" } else { "udp" }.into()).collect(),
            ports: values(Field::DestinationPort),
            destinations: destinations(packets, start, group),
            sources: values(Field::Source(family)),
            source_ports: values(Field::SourcePort),
            interfaces: values(if start.is_inbound() { Field::InInterface } else { Field::OutInterface }),
            users: values(Field::Uid),
            groups: values(Field::Gid),
            marks: marks(&group.marks[0]),
            connection_marks: marks(&group.marks[1]),
            states: (!others.is_empty()).then_some(Values { except, values: states }),
        }
    }

    /// True if all packets have marks, unusual connection states or unusual sources.
    pub(crate) fn is_unusual(&self) -> bool {
        // Calls to loopback have a loopback source.
        let holds_loopback = |value: &String| {
            let host = || value.parse::<IpAddr>().ok().map(Cidr::host);
            let network = value.parse::<Cidr>().ok().or_else(host);
            network.is_some_and(|one| one.contains(mesh::loopback(one.family())))
        };
        let is_odd = |sources: &&Values| !sources.values.iter().any(holds_loopback);
        let sources = self.sources.as_ref().filter(|_| self.direction == "outbound").filter(is_odd);
        let lists = [self.marks.as_ref(), self.connection_marks.as_ref(), self.states.as_ref(), sources];
        lists.into_iter().flatten().any(|values| !values.except)
    }

    pub(crate) fn is_same_but_for_family(&self, other: &Self) -> bool {
        self.destinations.is_none()
            && self.sources.is_none()
            && Self { families: Vec::new(), ..self.clone() } == Self { families: Vec::new(), ..other.clone() }
    }

    pub(crate) fn is_of(&self, family: Family) -> bool {
        self.families.iter().any(|one| one == family.word())
    }

    pub(crate) fn has(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|one| one == protocol)
    }

    /// Destinations, unless they are exactly the pod's own and loopback addresses.
    pub(crate) fn other_destinations(&self) -> Option<&Values> {
        self.destinations.as_ref().filter(|values| !(values.is_own() && values.values.len() > 1))
    }

    /// Number of properties that matter, except the protocol.
    fn properties(&self) -> usize {
        let lists = [
            self.other_destinations(),
            self.ports.as_ref(),
            self.sources.as_ref(),
            self.source_ports.as_ref(),
            self.interfaces.as_ref(),
            self.users.as_ref(),
            self.groups.as_ref(),
            self.marks.as_ref(),
            self.connection_marks.as_ref(),
            self.states.as_ref(),
        ];
        lists.into_iter().flatten().count()
    }

    pub(crate) fn is_only(&self, protocol: &str) -> bool {
        self.protocols == [protocol]
    }

    /// True if at most the protocol matters.
    pub(crate) fn is_plain(&self) -> bool {
        self.properties() == 0
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.is_plain() && self.protocols.len() > 1
    }

    /// True if only the sender matters.
    pub(crate) fn are_of_owner_alone(&self) -> bool {
        let owners = usize::from(self.users.is_some()) + usize::from(self.groups.is_some());
        self.protocols.len() > 1 && owners > 0 && self.properties() == owners
    }

    pub(crate) fn are_tcp_ports_alone(&self) -> bool {
        self.is_only("tcp") && self.ports.is_some() && self.properties() == 1
    }

    /// Adds another family's packets if only their addresses differ.
    pub(crate) fn take_in_family(&mut self, other: &Self) -> bool {
        let without_addresses = |one: &Self| {
            let shape = |values: &Option<Values>| {
                values.as_ref().map(|values| Values { except: values.except, values: Vec::new() })
            };
            let (destinations, sources) = (shape(&one.destinations), shape(&one.sources));
            Self { families: Vec::new(), destinations, sources, ..one.clone() }
        };
        if without_addresses(self) != without_addresses(other) {
            return false;
        }
        self.families.extend(other.families.iter().cloned());
        let lists = [(&mut self.destinations, &other.destinations), (&mut self.sources, &other.sources)];
        for (own, more) in lists {
            let Some((own, more)) = own.as_mut().zip(more.as_ref()) else { continue };
            let new = more.values.iter().filter(|value| !own.values.contains(value)).cloned();
            let new: Vec<String> = new.collect();
            own.values.extend(new);
        }
        true
    }

    pub(crate) fn apart(&self) -> String {
        self.senders(&self.sources, &[])
    }

    fn senders(&self, sources: &Option<Values>, proxies: &[&Proxy]) -> String {
        let [by, not_by] = match self.direction == "outbound" {
            true => [" leaving by", " not leaving by"],
            false => [" arriving at", " not arriving at"],
        };
        let uids: Vec<String> = proxies.iter().flat_map(|proxy| &proxy.uids).map(Uid::to_string).collect();
        let gids: Vec<String> = proxies.iter().flat_map(|proxy| &proxy.gids).map(Gid::to_string).collect();
        let owners = |values: &Option<Values>, own: &[String], noun: &str| {
            let is_own = |values: &Values| values.values.iter().all(|one| own.contains(one));
            let is_proxys = values.as_ref().is_some_and(is_own);
            let said = values.clone().filter(|values| !(values.except && is_proxys));
            let one = format!(" by {}{noun}", if is_proxys { "the proxy's " } else { "" });
            let except = format!(" by {noun}s other than");
            Values::said(&said, [&one, &format!(" by {noun}s")], [&except; 2])
        };
        let ports = [" from port", " from ports"];
        [
            Values::said(sources, [" from"; 2], [" from addresses other than"; 2]),
            Values::said(&self.source_ports, ports, [" from ports other than"; 2]),
            Values::said(&self.interfaces, [by; 2], [not_by; 2]),
            owners(&self.users, &uids, "user"),
            owners(&self.groups, &gids, "group"),
        ]
        .concat()
    }

    /// Packets in words, without excepted proxy users; with the family if `both_families` are captured.
    pub(crate) fn sentence(&self, both_families: bool, proxies: &[&Proxy]) -> String {
        let protocols: Vec<String> = self.protocols.iter().map(|name| name.to_uppercase()).collect();
        let mut text = format!("{} {}", self.direction, protocols.join(" and "));
        let is_literal = |values: &Values| !values.is_own();
        let names_addresses = self.destinations.as_ref().is_some_and(is_literal)
            || self.sources.as_ref().is_some_and(|values| self.direction != "outbound" || !values.except);
        if let ([family], true, false) = (&self.families[..], both_families, names_addresses) {
            text += if *family == "ipv4" { " over IPv4" } else { " over IPv6" };
        }
        let others = self.other_destinations().cloned();
        let is_within = self.destinations.is_some() && others.is_none();
        text += if is_within { " within the pod" } else { "" };
        let said = Values::said;
        // Typical properties are omitted: a new connection without marks, from the pod's own address.
        let unusual = |values: &Option<Values>| values.clone().filter(|values| !values.except);
        let is_inbound = self.direction != "outbound";
        let sources = if is_inbound { self.sources.clone() } else { unusual(&self.sources) };
        text += &said(&others, [" to"; 2], [" to addresses other than"; 2]);
        text += &said(&self.ports, [" to port", " to ports"], [" to ports other than"; 2]);
        text += &self.senders(&sources, proxies);
        text += &said(&unusual(&self.marks), [" with mark", " with marks"], [""; 2]);
        text += &said(
            &unusual(&self.connection_marks),
            [" with connection mark", " with connection marks"],
            [""; 2],
        );
        text += &said(&unusual(&self.states), [" in state", " in states"], [""; 2]);
        text
    }
}

impl Values {
    pub(crate) fn one(value: String) -> Self {
        Self { except: false, values: vec![value] }
    }

    /// Values after the words for one value or several; empty without values.
    fn said(values: &Option<Self>, is: [&str; 2], except: [&str; 2]) -> String {
        let Some(values) = values else { return String::new() };
        let [one, several] = if values.except { except } else { is };
        format!("{} {}", if values.is_single() { one } else { several }, values.listed())
    }

    /// True if the first value is the pod's own address.
    pub(crate) fn is_own(&self) -> bool {
        self.values[0] == OWN
    }

    fn is_single(&self) -> bool {
        matches!(&self.values[..], [one] if count_in(one) == 1)
    }

    /// First values and the number of other values; a single other value is named.
    fn listed(&self) -> String {
        if self.values.len() <= NAMED + 1 { listed(&self.values) } else { first_of(&self.values, NAMED) }
    }
}

/// At most `most` first items of a list, and the number of others, counting each value of a range.
pub(crate) fn first_of(items: &[String], most: usize) -> String {
    let (first, others) = items.split_at(most.min(items.len()));
    let first = first.join(", ");
    match others.iter().map(|item| count_in(item)).sum::<usize>() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Number of values in a range of ports, users or groups; 1 for any other value.
pub(crate) fn count_in(value: &str) -> usize {
    let range = value
        .split_once('-')
        .and_then(|(first, last)| Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1));
    range.unwrap_or(1)
}

/// Values of a field, or the excepted values if fewer; `None` if the field does not matter.
fn values<E: End>(
    packets: &PodPackets,
    start: &Start,
    group: &PacketGroup<E>,
    field: Field,
) -> Option<Values> {
    let values = group.values(field)?;
    let mut others = start.values(field)?;
    let except = !packets.is_narrow(values, &others, field);
    others.remove(values);
    let named = if except { &others } else { values };
    Some(Values { except, values: texts(packets, field, named) })
}

/// Destinations; within the pod, the pod's own and loopback addresses.
fn destinations<E: End>(packets: &PodPackets, start: &Start, group: &PacketGroup<E>) -> Option<Values> {
    let field = Field::Destination(packets.family);
    if !start.is_within {
        return values(packets, start, group, field);
    }
    let all = start.values(field)?;
    let (own, loopback): (Vec<Interval>, Vec<Interval>) =
        group.values(field).unwrap_or(&all).ranges().iter().partition(|range| packets.is_own(**range));
    let own = (!own.is_empty()).then(|| OWN.to_owned());
    let loopback = texts(packets, field, &loopback.into_iter().collect());
    Some(Values { except: false, values: own.into_iter().chain(loopback).collect() })
}

fn texts(packets: &PodPackets, field: Field, named: &Intervals) -> Vec<String> {
    let mut all = named.clone();
    // A network around local addresses is shown whole, although packets to local addresses are separate.
    if matches!(field, Field::Source(_) | Field::Destination(_)) {
        all.union(&packets.local);
    }
    let is_named = |range: &Interval| named.meets(&(*range).into());
    let shown = all.joined().ranges().iter().copied().filter(is_named).collect();
    items(&Condition::is(field, shown))
}

fn marks(marks: &Option<Vec<Marks>>) -> Option<Values> {
    let marks = marks.as_ref()?;
    let text = |mark: &Mark| match mark.is_whole() {
        true => format!("{:#x}", mark.value),
        false => format!("{:#x}/{:#x}", mark.value, mark.mask),
    };
    let lacking = marks.iter().find(|one| one.contains(0));
    let values = match lacking.filter(|one| one.within().mask == 0) {
        Some(one) => one.without().iter().map(text).collect(),
        None => marks.iter().map(|one| text(&one.within())).collect(),
    };
    Some(Values { except: lacking.is_some(), values })
}

#[cfg(test)]
mod tests {
    use super::Values;

    #[test]
    fn a_single_further_value_is_named_instead_of_counted() {
        let listed = |last: u16| {
            Values { except: false, values: (1..=last).map(|value| value.to_string()).collect() }.listed()
        };
        assert_eq!(listed(1), "1");
        assert_eq!(listed(6), "1, 2, 3, 4, 5 and 6");
        assert_eq!(listed(7), "1, 2, 3, 4, 5 and 2 more");
    }
}
