//! Boundary values of what rules match: some of every kind of condition, all of the conditions in focus.

use crate::unnamed::unnamed_user;
use rules::nft::Interval;
use rules::{Checked, Cidr, ConnState, Family, Gid, InterfaceName, Match, PortRange, Uid, UidRange};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Items that represent a long list that the question is not about.
const SAMPLES: usize = 6;

/// Ports to try whatever the rules name: DNS, one without a special meaning, Istio's tunnel, and its listener for DNS.
const COMMON_PORTS: [u16; 4] = [53, 81, 15008, 15053];

#[derive(Default)]
pub(super) struct Boundaries {
    /// Destinations of which the first and the last address are tried.
    networks: BTreeSet<Cidr>,
    /// Destinations in focus, and some that lie in them: the addresses just outside of them are tried too.
    focus_networks: BTreeSet<Cidr>,
    sources: BTreeSet<Cidr>,
    ports: BTreeSet<PortRange>,
    /// All interfaces that rules name.
    interfaces: BTreeSet<InterfaceName>,
    /// Interfaces by which packets only arrive, as far as rules ask.
    pub(super) arrives: BTreeSet<InterfaceName>,
    /// Interfaces by which packets come and go.
    pub(super) leaves: BTreeSet<InterfaceName>,
    users: BTreeSet<UidRange>,
    groups: BTreeSet<Gid>,
    pub(super) marks: BTreeSet<u32>,
    pub(super) connmarks: BTreeSet<u32>,
    /// Whether any rule matches packets of no connection.
    pub(super) invalid: bool,
}

type MatchGroup<'a> = (Discriminant<Match>, BTreeSet<&'a Match>);

impl Boundaries {
    /// What these rules match, and all that `focus` matches.
    pub(super) fn of(rules: &Checked, focus: &[Match]) -> Self {
        let mut boundaries = Self::default();
        // The items of a list are in rules of one origin, and some lists have thousands.
        let mut lists: BTreeMap<&str, Vec<MatchGroup<'_>>> = BTreeMap::new();
        for statement in &rules.rules().statements {
            let reason = statement.origin.map_or("", |origin| origin.name);
            let kinds = lists.entry(reason).or_default();
            for condition in &statement.rule.matches {
                if let Match::InInterface(operand) | Match::OutInterface(operand) = condition {
                    boundaries.interfaces.insert(operand.value().clone());
                }
                let kind = discriminant(condition);
                let at = kinds.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
                    kinds.push((kind, BTreeSet::new()));
                    kinds.len() - 1
                });
                kinds[at].1.insert(condition);
            }
        }
        let lists: Vec<Vec<&Match>> =
            lists.into_values().flatten().map(|(_, values)| values.into_iter().collect()).collect();
        for values in &lists {
            sample(values).for_each(|condition| boundaries.add(condition, SAMPLES));
        }
        let is_interface =
            |condition: &&&Match| matches!(condition, Match::InInterface(_) | Match::OutInterface(_));
        let focus: BTreeSet<&Match> = focus.iter().collect();
        // Where a network is captured behind many interfaces, some of these represent all.
        let interfaces: Vec<&Match> = focus.iter().filter(is_interface).copied().collect();
        sample(&interfaces).for_each(|condition| boundaries.add(condition, SAMPLES));
        for condition in focus.iter().filter(|condition| !is_interface(condition)) {
            boundaries.add(condition, usize::MAX);
            let Match::Destination(operand) = condition else { continue };
            let network = *operand.value();
            boundaries.focus_networks.insert(network);
            for values in &lists {
                let inside: Vec<Cidr> =
                    values.iter().filter_map(|condition| destination(condition)).collect();
                let inside: Vec<Cidr> =
                    inside.into_iter().filter(|other| network.contains(other.address())).collect();
                boundaries.focus_networks.extend(sample(&inside));
            }
        }
        let both = |name: &InterfaceName| boundaries.leaves.contains(name);
        boundaries.arrives = boundaries.arrives.iter().filter(|name| !both(name)).cloned().collect();
        boundaries
    }

    fn add(&mut self, condition: &Match, most: usize) {
        match condition {
            Match::Source(operand) => drop(self.sources.insert(*operand.value())),
            Match::Destination(operand) => drop(self.networks.insert(*operand.value())),
            Match::InInterface(operand) => drop(self.arrives.insert(operand.value().clone())),
            Match::OutInterface(operand) if *operand.value() == InterfaceName::loopback() => {}
            Match::OutInterface(operand) => drop(self.leaves.insert(operand.value().clone())),
            Match::SourcePort(operand) | Match::DestinationPort(operand) => {
                self.ports.insert(*operand.value());
            }
            Match::DestinationPorts(operand) => {
                let ranges = operand.value().ranges();
                match ranges.len() > most {
                    true => self.ports.extend(sample(ranges)),
                    false => self.ports.extend(ranges),
                }
            }
            Match::UidOwner(operand) => drop(self.users.insert(*operand.value())),
            Match::GidOwner(operand) => drop(self.groups.insert(*operand.value())),
            Match::ConnState(operand) => {
                self.invalid |= operand.value().states().contains(&ConnState::Invalid);
            }
            Match::Mark(operand) => drop(self.marks.insert(operand.value().value)),
            Match::Connmark(operand) => drop(self.connmarks.insert(operand.value().value)),
            Match::Protocol(_) | Match::ProtocolModule(_) | Match::Comment(_) => {}
        }
    }

    /// An interface that the name covers. Where possible, no other name that rules have covers it, except wider ones.
    pub(super) fn member(&self, name: &InterfaceName) -> String {
        let Some(prefix) = name.prefix() else { return name.as_str().to_owned() };
        let is_wider =
            |other: &InterfaceName| other.prefix().is_some_and(|others| prefix.starts_with(others));
        let is_other =
            |member: &String| self.interfaces.iter().any(|other| other.covers(member) && !is_wider(other));
        let members = ('0'..='9').chain('a'..='z').map(|last| format!("{prefix}{last}"));
        members.clone().find(|member| !is_other(member)).unwrap_or_else(|| format!("{prefix}0"))
    }

    pub(super) fn addresses(&self, own: &[IpAddr], family: Family) -> BTreeSet<IpAddr> {
        let mut found: BTreeSet<IpAddr> = own.iter().copied().collect();
        found.extend(["127.0.0.1", "127.0.0.6", "192.0.2.77"].map(address));
        found.extend(["::1", "::6", "2001:db8::77"].map(address));
        found.extend(self.networks.iter().flat_map(ends_of));
        let small = self.networks.iter().filter(|cidr| cidr.address().is_loopback());
        found.extend(self.focus_networks.iter().chain(small).flat_map(borders));
        found.retain(|address| Family::of(*address) == family);
        found
    }

    /// Addresses of a family from where others call.
    pub(super) fn callers(&self, family: Family) -> Vec<IpAddr> {
        let elsewhere = ["192.0.2.9", "2001:db8::9"].map(address);
        let named = self.sources.iter().flat_map(ends_of);
        let of_family = |address: &IpAddr| Family::of(*address) == family && !address.is_loopback();
        let callers: BTreeSet<IpAddr> = elsewhere.into_iter().chain(named).filter(of_family).collect();
        callers.into_iter().collect()
    }

    /// The first port of each range that rules name, DNS, and one without a special meaning: enough for packets that are to
    /// tell interfaces apart.
    pub(super) fn few_ports(&self) -> BTreeSet<u16> {
        self.ports.iter().map(|range| range.first().number()).chain([53, 81]).collect()
    }

    pub(super) fn ports(&self) -> BTreeSet<u16> {
        self.ports.iter().flat_map(port_borders).chain(COMMON_PORTS).collect()
    }

    /// The owners that rules name, by user and by group, and one that no rule names.
    pub(super) fn senders(&self) -> BTreeSet<(Uid, Gid)> {
        let unnamed = self.unnamed();
        let users: BTreeSet<Uid> =
            self.users.iter().flat_map(|range| [range.first(), range.last()]).collect();
        let mut found = BTreeSet::from([(unnamed, Gid::from(unnamed))]);
        found.extend(users.iter().map(|uid| (*uid, Gid::from(unnamed))));
        found.extend(self.groups.iter().map(|gid| (unnamed, *gid)));
        let both =
            users.iter().take(1).flat_map(|uid| self.groups.iter().take(SAMPLES).map(|gid| (*uid, *gid)));
        found.extend(both);
        found
    }

    /// A user that rules name neither as a user nor, by its number, as a group.
    fn unnamed(&self) -> Uid {
        let users = self.users.iter().map(|range| range.last().number());
        unnamed_user(users.chain(self.groups.iter().map(|gid| gid.number())), |uid| {
            self.users.iter().any(|range| range.contains(uid)) || self.groups.contains(&Gid::from(uid))
        })
    }
}

fn destination(condition: &Match) -> Option<Cidr> {
    match condition {
        Match::Destination(operand) => Some(*operand.value()),
        _ => None,
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The first and the last address.
fn ends_of(cidr: &Cidr) -> [IpAddr; 2] {
    let Interval { first, last } = cidr.interval();
    [first, last].map(|number| numbered(cidr.family(), number))
}

/// The first and the last address, and those just outside.
fn borders(cidr: &Cidr) -> [IpAddr; 4] {
    let Interval { first, last } = cidr.interval();
    [first, last, first.wrapping_sub(1), last.wrapping_add(1)].map(|number| numbered(cidr.family(), number))
}

/// The address of this number, of which IPv4 takes the last 32 bits.
fn numbered(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => {
            let [.., a, b, c, d] = number.to_be_bytes();
            Ipv4Addr::new(a, b, c, d).into()
        }
        Family::V6 => Ipv6Addr::from_bits(number).into(),
    }
}

/// The first and the last port, and those just outside.
fn port_borders(range: &PortRange) -> impl Iterator<Item = u16> + use<> {
    let (first, last) = (range.first().number(), range.last().number());
    [first - 1, first, last, last.saturating_add(1)].into_iter().filter(|port| *port != 0)
}

/// Some of a list, from its start to its end.
fn sample<T: Clone>(items: &[T]) -> impl Iterator<Item = T> {
    let step = items.len().div_ceil(SAMPLES).max(1);
    items.iter().step_by(step).chain(items.last()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::configured;
    use mesh::Mesh;

    #[test]
    fn addresses_outside_of_networks_in_focus_and_of_those_within_are_tried() {
        let flags = [("pod-ips", "10.9.0.1"), ("istio-service-cidr", "10.1.0.0/16,11.0.0.0/8")];
        let (_, capture) = configured(Mesh::Istio, &flags).expect("valid");
        let focus = Match::Destination(rules::Negatable::Is("10.0.0.0/8".parse().expect("a network")));
        let boundaries = Boundaries::of(&capture.rules(Family::V4), &[focus]);
        let addresses = boundaries.addresses(&[], Family::V4);
        for tried in ["9.255.255.255", "10.0.0.0", "10.255.255.255", "10.0.255.255", "10.2.0.0", "11.0.0.0"] {
            assert!(addresses.contains(&address(tried)), "{tried}: {addresses:?}");
        }
        assert!(!addresses.contains(&address("12.0.0.0")), "11.0.0.0/8 is not in focus");
    }
}
