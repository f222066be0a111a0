//! Packets in words and as data: of which direction, family and protocol, to and from where, sent by whom.

use super::classes::{Class, LOOPBACK};
use super::regions::ClassRegion;
use super::space::{AddressLocation, Axis, Space, address, state_of};
use mesh::Proxy;
use rules::nft::{Interval, Intervals};
use rules::{Family, Protocol};
use serde::Serialize;

/// The pod's address among destinations.
const OWN: &str = "the pod's own address";

/// The items of a list that a sentence names.
const NAMED: usize = 5;

/// Packets by their properties. A list that is null means that the property makes no difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Packets {
    /// `outbound` or `inbound`; `forwarded` for those that arrive for others, as from a virtual machine in the pod.
    pub direction: &'static str,
    /// `ipv4`, `ipv6`.
    pub families: Vec<&'static str>,
    /// `tcp`, `udp`.
    pub protocols: Vec<&'static str>,
    /// The destination ports.
    pub ports: Option<Values>,
    /// The destinations; null means at least those outside of the pod for outbound packets, the pod's own for inbound ones.
    pub destinations: Option<Values>,
    /// Where they come from.
    pub sources: Option<Values>,
    /// The source ports.
    pub source_ports: Option<Values>,
    /// The interfaces by which they leave or arrive.
    pub interfaces: Option<Values>,
    /// The users that send them.
    pub users: Option<Values>,
    /// The groups that send them.
    pub groups: Option<Values>,
    /// Their marks.
    pub marks: Option<Values>,
    /// The marks of their connections.
    pub connection_marks: Option<Values>,
    /// The states of their connections.
    pub states: Option<Values>,
}

/// Some values of a property: these, or all but these, whichever is shorter to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Values {
    /// Whether it is all values but these.
    pub except: bool,
    /// Each a value, a network or a range with a dash.
    pub values: Vec<String>,
}

impl Packets {
    pub(super) fn of(space: &Space, region: &ClassRegion) -> Self {
        let destinations = destinations(space, region);
        let is_forwarded = space.is_inbound && !includes_own(space, region);
        let protocol = |protocol: Protocol| match protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let protocols = [Protocol::Tcp, Protocol::Udp];
        let protocols = (0..).zip(protocols).filter(|(index, _)| region.has(Axis::Protocol, *index));
        Self {
            direction: match (space.is_inbound, is_forwarded) {
                (false, _) => "outbound",
                (true, false) => "inbound",
                (true, true) => "forwarded",
            },
            families: vec![space.family.word()],
            protocols: protocols.map(|(_, one)| protocol(one)).collect(),
            ports: values(space, region, Axis::Port),
            destinations,
            sources: values(space, region, Axis::Source),
            source_ports: values(space, region, Axis::SourcePort),
            interfaces: interfaces(space, region),
            users: values(space, region, Axis::User),
            groups: values(space, region, Axis::Group),
            marks: values(space, region, Axis::Mark),
            connection_marks: values(space, region, Axis::Connmark),
            states: values(space, region, Axis::State),
        }
    }

    /// Whether no usual packet is among them: they have marks, belong to an older connection, or come from an unusual address.
    pub(super) fn is_unusual(&self) -> bool {
        let sources = self.sources.as_ref().filter(|_| self.direction == "outbound");
        let lists = [self.marks.as_ref(), self.connection_marks.as_ref(), self.states.as_ref(), sources];
        lists.into_iter().flatten().any(|values| !values.except)
    }

    pub(super) fn is_same_but_for_family(&self, other: &Self) -> bool {
        self.destinations.is_none()
            && self.sources.is_none()
            && Self { families: Vec::new(), ..self.clone() } == Self { families: Vec::new(), ..other.clone() }
    }

    /// The packets in words. A family is named only where `both_families` are captured. The users and groups of a proxy go
    /// without saying where its traffic is excepted.
    pub(super) fn sentence(&self, both_families: bool, proxies: &[&Proxy]) -> String {
        let protocols: Vec<String> = self.protocols.iter().map(|name| name.to_uppercase()).collect();
        let mut text = format!("{} {}", self.direction, protocols.join(" and "));
        let is_literal = |values: &Values| values.values[0] != OWN;
        let names_addresses = self.destinations.as_ref().is_some_and(is_literal)
            || self.sources.as_ref().is_some_and(|values| self.direction != "outbound" || !values.except);
        if let ([family], true, false) = (&self.families[..], both_families, names_addresses) {
            text += if *family == "ipv4" { " over IPv4" } else { " over IPv6" };
        }
        let is_within = |values: &Values| values.values.len() > 1 && values.values[0] == OWN;
        let (is_within, others) = match &self.destinations {
            Some(values) if is_within(values) => (true, &None),
            destinations => (false, destinations),
        };
        text += if is_within { " within the pod" } else { "" };
        let mut add = |values: &Option<Values>, is: [&str; 2], except: [&str; 2]| {
            let Some(values) = values else { return };
            let [one, several] = if values.except { except } else { is };
            text += if values.is_single() { one } else { several };
            text += " ";
            text += &values.listed();
        };
        let is_inbound = self.direction != "outbound";
        // What is usual goes without saying: a new connection without marks, from the pod's own address.
        let unusual = |values: &Option<Values>| values.clone().filter(|values| !values.except);
        add(others, [" to"; 2], [" to addresses other than"; 2]);
        add(&self.ports, [" to port", " to ports"], [" to ports other than"; 2]);
        let sources = if is_inbound { self.sources.clone() } else { unusual(&self.sources) };
        add(&sources, [" from"; 2], [" from addresses other than"; 2]);
        add(&self.source_ports, [" from port", " from ports"], [" from ports other than"; 2]);
        let [by, not_by] = match is_inbound {
            true => [" arriving at", " not arriving at"],
            false => [" leaving by", " not leaving by"],
        };
        add(&self.interfaces, [by; 2], [not_by; 2]);
        let of_proxies = |id: fn(&Proxy) -> Vec<String>| -> Vec<String> {
            proxies.iter().flat_map(|proxy| id(proxy)).collect()
        };
        let uids = of_proxies(|proxy| proxy.uids.iter().map(ToString::to_string).collect());
        let gids = of_proxies(|proxy| proxy.gids.iter().map(ToString::to_string).collect());
        let unless_proxys = |values: &Option<Values>, own: &[String]| {
            values
                .clone()
                .filter(|values| !(values.except && values.values.iter().all(|one| own.contains(one))))
        };
        let is_proxys = |values: &Option<Values>, own: &[String]| {
            values.as_ref().is_some_and(|values| values.values.iter().all(|one| own.contains(one)))
        };
        let of_user = if is_proxys(&self.users, &uids) { " by the proxy's user" } else { " by user" };
        let of_group = if is_proxys(&self.groups, &gids) { " by the proxy's group" } else { " by group" };
        add(&unless_proxys(&self.users, &uids), [of_user, " by users"], [" by users other than"; 2]);
        add(&unless_proxys(&self.groups, &gids), [of_group, " by groups"], [" by groups other than"; 2]);
        add(&unusual(&self.marks), [" with mark", " with marks"], [""; 2]);
        add(&unusual(&self.connection_marks), [" with connection mark", " with connection marks"], [""; 2]);
        add(&unusual(&self.states), [" in state", " in states"], [""; 2]);
        text
    }
}

impl Values {
    /// Whether it is one value, and no range.
    fn is_single(&self) -> bool {
        matches!(&self.values[..], [one] if count_in(one) == 1)
    }

    /// Some of them, and how many more there are.
    fn listed(&self) -> String {
        let named = if self.values.len() > NAMED + 1 { NAMED } else { self.values.len() };
        let (named, more) = self.values.split_at(named);
        let counted: usize = more.iter().map(|value| count_in(value)).sum();
        match (more.is_empty(), named) {
            (true, [one]) => one.clone(),
            (true, [first @ .., last]) => format!("{} and {last}", first.join(", ")),
            _ => format!("{} and {counted} more", named.join(", ")),
        }
    }
}

/// How many numbers a range of ports, users or groups has; 1 for anything else.
fn count_in(value: &str) -> usize {
    let range = value
        .split_once('-')
        .and_then(|(first, last)| Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1));
    range.unwrap_or(1)
}

/// The values of an axis; `None` where it makes no difference.
fn values(space: &Space, region: &ClassRegion, axis: Axis) -> Option<Values> {
    chosen(space, region, axis, &|_| true)
}

/// The interfaces beside that of loopback, which is for calls to the pod itself.
fn interfaces(space: &Space, region: &ClassRegion) -> Option<Values> {
    chosen(space, region, Axis::Interface, &|class| !class.names.iter().any(|name| name == LOOPBACK))
}

/// The destinations outside of the pod, where the region has any, else those within it. Inbound packets for the pod are
/// described by the pod's own addresses instead.
fn destinations(space: &Space, region: &ClassRegion) -> Option<Values> {
    let place = |class: &Class| space.place(class);
    let outside = |class: &Class| place(class) == AddressLocation::Elsewhere;
    let within = |class: &Class| !outside(class);
    let has =
        |is_such: &dyn Fn(&Class) -> bool| !members(space, region, Axis::Destination, is_such).is_empty();
    match (has(&outside), has(&within), space.is_inbound) {
        // The region may have forwarded packets as well; the description leaves them out.
        (_, true, true) => chosen(space, region, Axis::Destination, &within),
        (true, _, _) => chosen(space, region, Axis::Destination, &outside),
        (false, _, _) => {
            let classes = members(space, region, Axis::Destination, &within);
            let own = classes.iter().any(|class| place(class) == AddressLocation::Pod);
            let loopback: Vec<&Class> =
                classes.iter().copied().filter(|class| place(class) == AddressLocation::Loopback).collect();
            let own = own.then(|| OWN.to_owned());
            let values = own.into_iter().chain(texts(space, Axis::Destination, &loopback)).collect();
            Some(Values { except: false, values })
        }
    }
}

/// Whether the region has packets to the pod's own address.
pub(super) fn includes_own(space: &Space, region: &ClassRegion) -> bool {
    let is_own = |class: &Class| space.place(class) == AddressLocation::Pod;
    !members(space, region, Axis::Destination, &is_own).is_empty()
}

/// The classes of an axis that the region has. Where the usual class is among them, those that it lacks, as exceptions.
/// `None` where it has all or none.
fn chosen(
    space: &Space,
    region: &ClassRegion,
    axis: Axis,
    is_such: &dyn Fn(&Class) -> bool,
) -> Option<Values> {
    let all: Vec<&Class> = space.classes(axis).iter().filter(|class| is_such(class)).collect();
    let chosen = members(space, region, axis, is_such);
    if chosen.is_empty() || chosen.len() == all.len() {
        return None;
    }
    // The first class is the usual one. It is mostly the largest too, so the list without it is the shorter one.
    let is_chosen = |class: &&Class| chosen.iter().any(|one| one.value == class.value);
    let except = is_chosen(&all[0]);
    let named: Vec<&Class> = all.into_iter().filter(|class| is_chosen(class) != except).collect();
    Some(Values { except, values: texts(space, axis, &named) })
}

/// The classes of an axis that the region has.
fn members<'a>(
    space: &'a Space,
    region: &ClassRegion,
    axis: Axis,
    is_such: &dyn Fn(&Class) -> bool,
) -> Vec<&'a Class> {
    let classes = (0..).zip(space.classes(axis));
    classes
        .filter(|(index, class)| region.has(axis, *index) && is_such(class))
        .map(|(_, class)| class)
        .collect()
}

fn texts(space: &Space, axis: Axis, classes: &[&Class]) -> Vec<String> {
    if axis == Axis::Interface {
        return classes.iter().flat_map(|class| class.names.clone()).collect();
    }
    let ranges = classes.iter().flat_map(|class| class.values.ranges().to_vec());
    let named: Intervals = ranges.collect();
    // The pod's own addresses and loopback are classes of their own. A network that they lie in is still shown as one.
    let mut all = named.clone();
    if matches!(axis, Axis::Destination | Axis::Source) {
        all.union(&space.local_addresses);
    }
    let all = all.joined();
    let is_named = |range: &&Interval| named.meets(&Intervals::from_iter([**range]));
    all.ranges().iter().filter(is_named).map(|range| shown(space.family, axis, *range)).collect()
}

fn shown(family: Family, axis: Axis, range: Interval) -> String {
    let Interval { first, last } = range;
    let whole = |text: &dyn Fn(u128) -> String| match first == last {
        true => text(first),
        false => format!("{}-{}", text(first), text(last)),
    };
    match axis {
        Axis::Destination | Axis::Source => network(family, range),
        Axis::Mark | Axis::Connmark => whole(&|mark| format!("{mark:#x}")),
        Axis::State => whole(&|state| state_of(state).name().to_lowercase()),
        Axis::Protocol | Axis::Port | Axis::SourcePort | Axis::Interface | Axis::User | Axis::Group => {
            whole(&|number| number.to_string())
        }
    }
}

fn network(family: Family, range: Interval) -> String {
    let text = |number| address(family, number).to_string();
    match range.prefix_length(family.bits()) {
        Some(bits) if bits == family.bits() => text(range.first),
        Some(bits) => format!("{}/{bits}", text(range.first)),
        None => format!("{}-{}", text(range.first), text(range.last)),
    }
}

#[cfg(test)]
mod tests {
    use super::Values;

    #[test]
    fn a_single_value_more_is_named_instead_of_counted() {
        let listed = |last: u16| {
            Values { except: false, values: (1..=last).map(|value| value.to_string()).collect() }.listed()
        };
        assert_eq!(listed(1), "1");
        assert_eq!(listed(6), "1, 2, 3, 4, 5 and 6");
        assert_eq!(listed(7), "1, 2, 3, 4, 5 and 2 more");
    }
}
