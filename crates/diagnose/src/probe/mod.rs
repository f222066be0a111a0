//! Test connections of a pod, and their verdicts under a configuration. No connection is made here.
//!
//! There is a call for each region of outbound packets that the rules distinguish. A call's expected verdict comes from its
//! first packet's walk. An uncaptured call is harmless: it goes to the pod itself, to a documentation address, which no host
//! has (RFC 5737, RFC 3849), or, only if a region has no other destination, to a network.

#[cfg(test)]
mod tests;

pub use crate::explain::Route;

use crate::explain::{ExplainedRule, PodContext, RuleView, default_source, explain};
use crate::live_proxy;
use crate::pod_packets::{PodPackets, SOURCE_PORT, outside_addresses};
use mesh::istio::defaults::{PASSTHROUGH_V4, PASSTHROUGH_V6};
use mesh::recognition::field_condition;
use mesh::sources::Dialect;
use mesh::{CapturePolicy, DNS_PORT, Proxy, loopback};
use rules::nft::{Field, Interval, Intervals, protocol_number};
use rules::simulate::{
    At, Atlas, Direction, Ending, LOOPBACK, Marks, Packet, PacketSet, Region, Verdict, Work, address, number,
};
use rules::{ConnState, Family, Gid, Origin, Port, Protocol, Uid};
use std::net::{IpAddr, SocketAddr};
use std::{collections::BTreeMap, fmt};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    Application,
    Group(Gid),
    User(Uid),
    Proxy,
    ProxyUser(Uid),
    ProxyGroup(Gid),
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application => f.write_str("application"),
            Self::Group(gid) => write!(f, "group {gid}"),
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Proxy => f.write_str("proxy"),
            Self::ProxyUser(uid) => write!(f, "proxy user {uid}"),
            Self::ProxyGroup(gid) => write!(f, "proxy group {gid}"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Call {
    pub caller: Caller,
    pub owner: (Uid, Gid),
    pub protocol: Protocol,
    /// `None` if the kernel chooses it.
    pub from: Option<IpAddr>,
    pub to: SocketAddr,
    pub packet: Packet,
    pub expected: Verdict,
    pub because: String,
    pub rule: Option<ExplainedRule>,
}

impl Call {
    pub fn is_captured(&self) -> bool {
        self.expected.captures()
    }

    pub fn is_within_pod(&self) -> bool {
        matches!(&self.packet.direction, Direction::Outbound { interface, .. } if interface == LOOPBACK)
    }
}

pub struct ProbeContext<'a> {
    pub pod: PodContext,
    /// Current user and group: calls with these need no privilege.
    pub own: (Uid, Gid),
    /// Default port of calls, on which no process listens.
    pub port: Port,
    pub route: &'a dyn Fn(IpAddr) -> Option<Route>,
    pub dialect: Dialect,
}

pub fn calls(config: &dyn CapturePolicy, facts: &ProbeContext<'_>) -> Vec<Call> {
    let of = |family| {
        let rule_view = RuleView::of_config(config, family, &facts.pod);
        CallList::new(&rule_view, config.proxy(), facts).all()
    };
    config.families().flat_map(of).collect()
}

/// Test calls for the families that live rules capture; only the proxy's user is known.
pub fn calls_by_rules(rule_views: &[RuleView], facts: &ProbeContext<'_>) -> Vec<Call> {
    let of = |rule_view: &RuleView| {
        let calls = CallList::new(rule_view, live_proxy([&rule_view.view]), facts).all();
        if calls.iter().any(Call::is_captured) { calls } else { Vec::new() }
    };
    rule_views.iter().flat_map(of).collect()
}

/// Calls that prove capture without packets that could leave the pod: for each family, the proxy calls the application or,
/// if that is not captured, the pod's own address. A family without captured calls has no proof.
pub fn proofs(config: &dyn CapturePolicy, facts: &ProbeContext<'_>) -> Vec<Call> {
    let of = |family| {
        let rule_view = RuleView::of_config(config, family, &facts.pod);
        let calls = CallList::new(&rule_view, config.proxy(), facts).of_proxy();
        calls.into_iter().find(Call::is_captured)
    };
    config.families().filter_map(of).collect()
}

fn packet(
    facts: &ProbeContext<'_>,
    protocol: Protocol,
    owner: (Uid, Gid),
    from: Option<IpAddr>,
    to: SocketAddr,
) -> Packet {
    let stays = facts.pod.route(to.ip()) == LOOPBACK;
    let route = if stays { None } else { (facts.route)(to.ip()) };
    let interface = route.as_ref().map_or(facts.pod.route(to.ip()), |route| &route.interface).to_owned();
    let by_route = from.or(route.and_then(|route| route.source));
    let source = by_route.or_else(|| Some(default_source(&facts.pod, to.ip())?.0));
    let (uid, gid) = owner;
    Packet {
        direction: Direction::Outbound { interface, uid, gid },
        protocol,
        source: SocketAddr::new(source.unwrap_or_else(|| mesh::loopback(Family::of(to.ip()))), SOURCE_PORT),
        destination: to,
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    }
}

/// Maximum number of rules that a family's packets meet.
const MAX_WORK: usize = 1_000_000;

/// Maximum number of calls with the same [`AlikeCalls`].
const MAX: usize = 4;

struct CallList<'a> {
    rule_view: &'a RuleView,
    proxy: Proxy,
    facts: &'a ProbeContext<'a>,
    /// User and group that no rule names; current, if possible.
    application: (Uid, Gid),
}

/// Calls equal in these properties behave alike, so a few are enough.
type AlikeCalls = (Protocol, Verdict, Option<Origin>);

impl<'a> CallList<'a> {
    fn new(rule_view: &'a RuleView, proxy: Proxy, facts: &'a ProbeContext<'a>) -> Self {
        Self { rule_view, proxy, facts, application: application(rule_view, facts.own) }
    }

    fn all(&self) -> Vec<Call> {
        let [outside, within] = self.starts();
        let mut calls = [self.calls(outside, false), self.calls(within, true)].concat();
        // The rules for users and for groups are tested separately.
        calls.retain(|call| call.caller != Caller::Proxy);
        calls.sort_by_key(|call| (call.protocol == Protocol::Udp, call.caller));
        calls
    }

    /// The proxy's calls within the pod, beginning with one forwarded to the application.
    fn of_proxy(&self) -> Vec<Call> {
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

    /// First packets of calls to other hosts, and of TCP within the pod, with typical ports and marks.
    fn starts(&self) -> [PacketSet; 2] {
        let Self { rule_view: RuleView { family, view, .. }, facts, application, .. } = self;
        let starts = PodPackets::of(&[view], &facts.pod, true).starts;
        let port = Intervals::one(SOURCE_PORT.into());
        let plain =
            |set: &PacketSet| set.clone().marked(Marks::one(0), Marks::one(0)).with(Field::SourcePort, &port);
        let tcp = Intervals::one(protocol_number(Protocol::Tcp).into());
        let (outside, within) = (plain(&starts[0].sets[0]), plain(&starts[1].sets[0]));
        // A pod without addresses may still have routes.
        let to = SocketAddr::new(outside_addresses(*family)[0], facts.port.number());
        let source = packet(facts, Protocol::Tcp, *application, None, to).source.ip();
        let own = facts.pod.addresses.iter().copied().filter(|own| Family::of(*own) == *family);
        let sources = own.chain([source]).map(|one| Interval::one(number(one))).collect();
        let outside = outside.with_any(Field::Source(*family)).with(Field::Source(*family), &sources);
        [outside, within.with(Field::Protocol, &tcp)]
    }

    /// Calls of a set that match different rules, per caller; only a sample per origin.
    fn calls(&self, set: PacketSet, is_within: bool) -> Vec<Call> {
        let RuleView { view, routing, .. } = self.rule_view;
        let mut by_rules: BTreeMap<(Vec<At>, Caller, u8), (AlikeCalls, Call)> = BTreeMap::new();
        for Region { packets, ending, rules } in
            Atlas::of(view, routing, [set], &mut Work::new(MAX_WORK)).regions
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
        let explained = |call: &Call| {
            let explained = explain(view, routing, &call.packet).in_words_of(&self.facts.dialect);
            Call { because: explained.reason(), rule: explained.deciding_rule(), ..call.clone() }
        };
        alike.iter().flat_map(|(_, calls)| some_of(calls)).map(explained).collect()
    }

    fn usual_port(&self, protocol: Protocol) -> u16 {
        match protocol {
            Protocol::Tcp => self.facts.port.number(),
            Protocol::Udp => DNS_PORT.number(),
        }
    }

    /// Call whose packet is in the set, to a harmless destination. For UDP, rules concern only DNS queries.
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

    /// Caller with the most significant result: within the pod, the proxy comes first, since its calls may be captured.
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

    /// User and group of a caller; unset ones are the application's.
    fn owner(&self, caller: Caller) -> (Uid, Gid) {
        let (uid, gid) = self.application;
        match caller {
            Caller::Application => (uid, gid),
            Caller::Proxy => self.facts.pod.proxy,
            Caller::ProxyUser(uid) | Caller::User(uid) => (uid, gid),
            Caller::ProxyGroup(gid) | Caller::Group(gid) => (uid, gid),
        }
    }

    /// Address without a host, else one of the pod's own or loopback addresses, else a network's first address, which by
    /// convention no host has, except in one-address networks. `None` if none can be called.
    fn destination(&self, set: &PacketSet) -> Option<IpAddr> {
        let values = set.values(Field::Destination(set.family))?;
        let is_in = |one: &IpAddr| Family::of(*one) == set.family && values.meets(&self::one(*one));
        let own = self.facts.pod.addresses.iter().copied();
        let within = self.proxy.passthrough(set.family).into_iter();
        let within = within.chain([loopback(set.family), PASSTHROUGH_V4.into()]);
        let outside = outside_addresses(set.family).into_iter();
        let usual = outside.chain(own).chain(within).find(is_in);
        let firsts = values.ranges().iter().map(|range| address(set.family, range.first));
        // Only some meshes add their proxy's source address to the loopback interface.
        let is_called = |one: &IpAddr| !one.is_unspecified() && !one.is_multicast() && *one != PASSTHROUGH_V6;
        usual.or_else(|| firsts.into_iter().find(is_called))
    }
}

fn one(address: IpAddr) -> Intervals {
    Intervals::one(number(address))
}

/// Current user and group, if no rule names them; else unnamed ones.
fn application(rule_view: &RuleView, own: (Uid, Gid)) -> (Uid, Gid) {
    let rules = rule_view.view.chains().iter().flat_map(|chain| &chain.rules);
    let conditions: Vec<_> = rules.flat_map(|rule| &rule.conditions).filter_map(field_condition).collect();
    let named = |fields: &[Field]| -> Intervals {
        let of_fields = conditions.iter().filter(|condition| fields.contains(&condition.field));
        of_fields.flat_map(|condition| condition.values.ranges().iter().copied()).collect()
    };
    let is_in = |ids: &Intervals, id: u32| ids.meets(&Intervals::one(id.into()));
    if !is_in(&named(&[Field::Uid]), own.0.number()) && !is_in(&named(&[Field::Gid]), own.1.number()) {
        return own;
    }
    let uid = unnamed_user(&named(&[Field::Uid, Field::Gid]));
    (uid, uid.into())
}

/// A short list, or samples of a long one, including its first and last item.
fn some_of<T>(items: &[T]) -> impl Iterator<Item = &T> {
    let step = items.len().div_ceil(MAX - 1).max(1);
    let last = items.last().filter(|_| items.len() > MAX && !(items.len() - 1).is_multiple_of(step));
    let step = if items.len() > MAX { step } else { 1 };
    items.iter().step_by(step).chain(last)
}

/// Smallest unnamed number from 1000, else a smaller unnamed number, else 1000.
fn unnamed_user(named: &Intervals) -> Uid {
    // The first regular user, by the convention of Linux distributions.
    const FIRST: u32 = 1000;
    let candidates = named.ranges().iter().map(|range| range.last + 1).chain([0, FIRST.into()]);
    let free = candidates.filter(|id| !named.meets(&Intervals::one(*id)));
    let free = free.filter_map(|id| Uid::new(u32::try_from(id).ok()?));
    let unnamed = free.min_by_key(|uid| (uid.number() < FIRST, *uid));
    unnamed.or_else(|| Uid::new(FIRST)).expect("1000 is an id")
}
