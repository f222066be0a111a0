//! The list of calls: one for each region of the packets that processes of the pod send.

use super::{Call, Caller, ProbeContext, explained, packet};
use crate::explain::RuleView;
use crate::pod_packets::{PodPackets, SOURCE_PORT, outside_addresses};
use crate::unnamed::unnamed_user;
use mesh::istio::defaults::{PASSTHROUGH_V4, PASSTHROUGH_V6};
use mesh::recognition::summary::field_condition;
use mesh::{DNS_PORT, Proxy, loopback};
use rules::nft::{Field, Interval, Intervals, protocol_number};
use rules::simulate::{At, Atlas, Ending, Marks, PacketSet, Region, Verdict, Work, address, number};
use rules::{Family, Gid, Origin, Protocol, Uid};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Rules that all packets of a family meet.
const MAX_WORK: usize = 1_000_000;

/// Calls that are tried of those that rules of one origin decide alike.
const MAX: usize = 4;

pub(super) struct CallList<'a> {
    rule_view: &'a RuleView,
    proxy: Proxy,
    facts: &'a ProbeContext<'a>,
    /// An owner that no rule names: ours, if that is so.
    application: (Uid, Gid),
}

/// The properties by which calls show the same, so that some of them stand for all.
type AlikeCalls = (Protocol, Verdict, Option<Origin>);

impl<'a> CallList<'a> {
    pub(super) fn new(rule_view: &'a RuleView, proxy: Proxy, facts: &'a ProbeContext<'a>) -> Self {
        Self { rule_view, proxy, facts, application: application(rule_view, facts.own) }
    }

    /// In the order of their callers.
    pub(super) fn all(&self) -> Vec<Call> {
        let [outside, within] = self.starts();
        let mut calls = [self.calls(outside, false), self.calls(within, true)].concat();
        // The rules for users and for groups are tried apart.
        calls.retain(|call| call.caller != Caller::Proxy);
        calls.sort_by_key(|call| (call.protocol == Protocol::Udp, call.caller));
        calls
    }

    /// The proxy's calls within the pod: first as it hands connections over to the application.
    pub(super) fn of_proxy(&self) -> Vec<Call> {
        let (family, (uid, gid)) = (self.rule_view.family, self.facts.pod.proxy);
        let [_, within] = self.starts();
        let own = within
            .with(Field::Uid, &Intervals::one(uid.number().into()))
            .with(Field::Gid, &Intervals::one(gid.number().into()))
            .with(Field::DestinationPort, &Intervals::one(self.facts.port.number().into()));
        let handed = self.proxy.passthrough(family).map(|passthrough| {
            let set = own.clone().with(Field::Source(family), &one(loopback(family)));
            set.with(Field::Destination(family), &one(passthrough))
        });
        handed.into_iter().chain([own]).flat_map(|set| self.calls(set, true)).collect()
    }

    /// The first packets of calls to others, and of TCP within the pod, with the ports and marks that processes have.
    fn starts(&self) -> [PacketSet; 2] {
        let Self { rule_view: RuleView { family, view, .. }, facts, application, .. } = self;
        let starts = PodPackets::of(&[view], &facts.pod, true).starts;
        let port = Intervals::one(SOURCE_PORT.into());
        let plain =
            |set: &PacketSet| set.clone().marked(Marks::one(0), Marks::one(0)).with(Field::SourcePort, &port);
        let tcp = Intervals::one(protocol_number(Protocol::Tcp).into());
        let (outside, within) = (plain(&starts[0].sets[0]), plain(&starts[1].sets[0]));
        // A pod without addresses has routes all the same.
        let to = SocketAddr::new(outside_addresses(*family)[0], facts.port.number());
        let source = packet(facts, Protocol::Tcp, *application, None, to).source.ip();
        let own = facts.pod.addresses.iter().copied().filter(|own| Family::of(*own) == *family);
        let sources = own.chain([source]).map(|one| Interval::one(number(one))).collect();
        let outside = outside.with_any(Field::Source(*family)).with(Field::Source(*family), &sources);
        [outside, within.with(Field::Protocol, &tcp)]
    }

    /// A call of each caller that matches other rules of those that the packets of a set match. Of many that rules of one
    /// origin decide alike, some.
    fn calls(&self, set: PacketSet, is_within: bool) -> Vec<Call> {
        let RuleView { view, routing, .. } = self.rule_view;
        let mut by_rules: BTreeMap<(Vec<At>, Caller, u8), (AlikeCalls, Call)> = BTreeMap::new();
        for Region { packets, ending, rules } in
            Atlas::with_rules(view, routing, [set], &mut Work::new(MAX_WORK)).regions
        {
            let Some(call) = self.call(&packets, ending, is_within) else { continue };
            let key = (rules, call.caller, protocol_number(call.protocol));
            let is_usual = |one: &Call| one.to.port() == self.usual_port(one.protocol);
            if by_rules.get(&key).is_none_or(|(_, known)| is_usual(&call) && !is_usual(known)) {
                let origin = ending.decided_by.and_then(|by| view.rule(by)?.origin);
                by_rules.insert(key, ((call.protocol, call.expected, origin), call));
            }
        }
        let mut alike: Vec<(AlikeCalls, Vec<Call>)> = Vec::new();
        for (kind, call) in by_rules.into_values() {
            match alike.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, calls)) => calls.push(call),
                None => alike.push((kind, vec![call])),
            }
        }
        let some = alike.iter().flat_map(|(_, calls)| some_of(calls));
        some.map(|call| explained(self.rule_view, self.facts, call)).collect()
    }

    /// The port that calls have where rules leave a choice.
    fn usual_port(&self, protocol: Protocol) -> u16 {
        match protocol {
            Protocol::Tcp => self.facts.port.number(),
            Protocol::Udp => DNS_PORT.number(),
        }
    }

    /// A call whose packet is in the set, to where it does no harm if it is not captured. Of UDP, rules are about queries for
    /// names alone.
    fn call(&self, set: &PacketSet, ending: Ending, is_within: bool) -> Option<Call> {
        let caller = self.caller(set, is_within)?;
        let owner = self.owner(caller);
        let tcp = Intervals::one(protocol_number(Protocol::Tcp).into());
        let is_tcp = set.values(Field::Protocol)?.meets(&tcp);
        let ports = set.values(Field::DestinationPort)?;
        let protocol = if is_tcp { Protocol::Tcp } else { Protocol::Udp };
        let usual = self.usual_port(protocol);
        let port = match ports.meets(&Intervals::one(usual.into())) {
            true => usual,
            false => u16::try_from(ports.ranges().first().filter(|_| is_tcp)?.first).ok()?,
        };
        let to = SocketAddr::new(self.destination(set)?, port);
        let source = address(set.family, set.values(Field::Source(set.family))?.ranges().first()?.first);
        let ways = [None, Some(loopback(set.family)), Some(source)].into_iter();
        let mut ways = ways.map(|from| (from, packet(self.facts, protocol, owner, from, to)));
        let (from, packet) = ways.find(|(_, packet)| set.contains(packet))?;
        let (expected, because, rule) = (ending.of(&packet).verdict, String::new(), None);
        Some(Call { caller, owner, protocol, from, to, packet, expected, because, rule })
    }

    /// The caller whose calls show most: others are the application's, and calls within the pod that all may make are
    /// otherwise captured if they are the proxy's.
    fn caller(&self, set: &PacketSet, is_within: bool) -> Option<Caller> {
        let (uids, gids) = (set.values(Field::Uid)?, set.values(Field::Gid)?);
        let users = self.proxy.uids.iter().copied().map(Caller::ProxyUser);
        let groups = self.proxy.gids.iter().copied().map(Caller::ProxyGroup);
        let first = |ids: &Intervals| u32::try_from(ids.ranges().first()?.first).ok();
        let listed = [Uid::new(first(uids)?).map(Caller::User), Gid::new(first(gids)?).map(Caller::Group)];
        let mut callers: Vec<Caller> = users.collect();
        callers.insert(if is_within { callers.len() } else { 0 }, Caller::Application);
        callers.extend(groups.chain([Caller::Proxy]).chain(listed.into_iter().flatten()));
        callers.into_iter().find(|caller| {
            let (uid, gid) = self.owner(*caller);
            let has = |ids: &Intervals, id: u32| ids.meets(&Intervals::one(id.into()));
            has(uids, uid.number()) && has(gids, gid.number())
        })
    }

    /// Where rules name one of user and group, the other is the application's.
    fn owner(&self, caller: Caller) -> (Uid, Gid) {
        let (uid, gid) = self.application;
        match caller {
            Caller::Application => (uid, gid),
            Caller::Proxy => self.facts.pod.proxy,
            Caller::ProxyUser(uid) | Caller::User(uid) => (uid, gid),
            Caller::ProxyGroup(gid) | Caller::Group(gid) => (uid, gid),
        }
    }

    /// An address that no host has, else one of the pod's own or of loopback, else the first of a network, which no host has by
    /// convention unless it is the only one. `None` where that can't be called.
    fn destination(&self, set: &PacketSet) -> Option<IpAddr> {
        let values = set.values(Field::Destination(set.family))?;
        let is_in = |one: &IpAddr| Family::of(*one) == set.family && values.meets(&self::one(*one));
        let own = self.facts.pod.addresses.iter().copied();
        let within = self.proxy.passthrough(set.family).into_iter();
        let within = within.chain([loopback(set.family), PASSTHROUGH_V4.into()]);
        let outside = outside_addresses(set.family).into_iter();
        let usual = outside.chain(own).chain(within).find(is_in);
        let firsts = values.ranges().iter().map(|range| address(set.family, range.first));
        // Only some meshes put their proxy's source address on the loopback interface.
        let is_called = |one: &IpAddr| !one.is_unspecified() && !one.is_multicast() && *one != PASSTHROUGH_V6;
        usual.or_else(|| firsts.into_iter().find(is_called))
    }
}

fn one(address: IpAddr) -> Intervals {
    Intervals::one(number(address))
}

/// Our own user and group, if no rule names them; else others of which that is true.
fn application(rule_view: &RuleView, own: (Uid, Gid)) -> (Uid, Gid) {
    let rules = rule_view.view.chains().iter().flat_map(|chain| &chain.rules);
    let conditions = rules.flat_map(|rule| &rule.conditions).filter_map(field_condition);
    let owners = conditions.filter(|condition| matches!(condition.field, Field::Uid | Field::Gid));
    let named: Vec<(Field, Interval)> = owners
        .flat_map(|owner| owner.values.ranges().iter().map(|ids| (owner.field, *ids)).collect::<Vec<_>>())
        .collect();
    let is_named = |field: Field, id: u32| {
        named.iter().any(|(of, ids)| *of == field && (ids.first..=ids.last).contains(&id.into()))
    };
    let (uid, gid) = own;
    if !is_named(Field::Uid, uid.number()) && !is_named(Field::Gid, gid.number()) {
        return own;
    }
    let last = named.iter().filter_map(|(_, ids)| u32::try_from(ids.last).ok());
    let uid =
        unnamed_user(last, |uid| is_named(Field::Uid, uid.number()) || is_named(Field::Gid, uid.number()));
    (uid, uid.into())
}

/// A short list, or some of a long one, from its start to its end.
fn some_of<T>(items: &[T]) -> impl Iterator<Item = &T> {
    let step = items.len().div_ceil(MAX - 1).max(1);
    let last = items.last().filter(|_| items.len() > MAX && !(items.len() - 1).is_multiple_of(step));
    let step = if items.len() > MAX { step } else { 1 };
    items.iter().step_by(step).chain(last)
}
