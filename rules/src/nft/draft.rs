//! Rules on their way from iptables' vocabulary to that of nf_tables.

use super::{Action, Base, Kind, Log};
use crate::field::{Condition, Field, Interval, Intervals, interface_interval, protocol_number, state_bit};
use crate::model::Written;
use crate::{
    Chain, Cidr, Hook, Mark, Match, Negatable, Origin, PortRange, Rule, Statement, Table, Target, UidRange,
    Writes,
};
use std::net::IpAddr;

/// A rule whose values are not yet in sets, of one family or of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    /// The conditions, sorted by field.
    pub(super) conditions: Vec<Condition>,
    pub(super) log: Option<Log>,
    pub(super) action: Action,
    /// What it changes of the packet, with the chains that it leads to.
    pub(super) writes: Writes,
    pub(super) origin: Option<Origin>,
}

/// The name of a chain in our table.
pub(super) fn chain_name(table: Table, chain: &str) -> String {
    format!("{table}_{chain}")
}

/// How the kernel calls a base chain of ours: just before that of iptables, so that ours come first whoever was there
/// before. Of chains of equal priority the kernel calls that first which was registered last (`nf_hook_entries_grow`).
pub(super) fn base(table: Table, chain: &Chain) -> Option<Base> {
    base_of(table, chain).map(|base| Base { priority: base.priority - 1, ..base })
}

/// How the kernel calls a base chain of iptables (`NF_IP_PRI_*` in `linux/netfilter_ipv4.h`).
pub fn base_of(table: Table, chain: &Chain) -> Option<Base> {
    let hook = match chain {
        Chain::Base(hook) => *hook,
        Chain::User(_) => return None,
    };
    let (kind, priority) = match (table, hook) {
        (Table::Raw, _) => (Kind::Filter, -300),
        (Table::Mangle, Hook::Output) => (Kind::Route, -150),
        (Table::Mangle, Hook::Prerouting | Hook::Input | Hook::Forward | Hook::Postrouting) => {
            (Kind::Filter, -150)
        }
        (Table::Nat, Hook::Prerouting | Hook::Output | Hook::Forward) => (Kind::Nat, -100),
        (Table::Nat, Hook::Input | Hook::Postrouting) => (Kind::Nat, 100),
        (Table::Filter, _) => (Kind::Filter, 0),
        (Table::Security, _) => (Kind::Filter, 50),
    };
    Some(Base { kind, hook, priority })
}

/// The statements of a chain as drafts. A report joins the rule on which it reports.
pub(super) fn drafts(table: Table, statements: Vec<&Statement>, written: &Written) -> Vec<Draft> {
    let mut drafts = Vec::with_capacity(statements.len());
    let mut statements = statements.into_iter().peekable();
    while let Some(statement) = statements.next() {
        let log = log(&statement.rule.target);
        let reported = log.as_ref().and_then(|_| {
            let is_reported =
                |next: &Rule| same_packets(next, &statement.rule) && self::log(&next.target).is_none();
            statements.next_if(|next| is_reported(&next.rule))
        });
        let statement = reported.unwrap_or(statement);
        let Some(conditions) = conditions(&statement.rule) else {
            continue; // No packet fulfils them.
        };
        let fails_closed = matches!(statement.rule.target, Target::Tproxy { .. });
        let draft = Draft {
            conditions,
            log,
            action: action(table, &statement.rule.target),
            writes: written.by(table, &statement.rule.target),
            origin: statement.origin,
        };
        // Where no socket takes a packet, TPROXY of iptables drops it, and that of nf_tables lets it go on.
        let drop = fails_closed.then(|| Draft {
            log: None,
            action: Action::Drop,
            writes: Writes::NOTHING,
            ..draft.clone()
        });
        drafts.push(draft);
        drafts.extend(drop);
    }
    drafts
}

/// The report of a target that does nothing else.
fn log(target: &Target) -> Option<Log> {
    match target {
        Target::Nflog { group, prefix } => Some(Log::Group { group: *group, prefix: prefix.clone() }),
        Target::Log { prefix, level } => Some(Log::Kernel { prefix: prefix.clone(), level: *level }),
        _ => None,
    }
}

/// Whether two rules hold for the same packets, whatever their comments.
fn same_packets(a: &Rule, b: &Rule) -> bool {
    let conditions = |rule: &Rule| conditions(rule);
    conditions(a) == conditions(b)
}

/// The conditions of a rule, sorted by field; `None` if no packet fulfils them.
fn conditions(rule: &Rule) -> Option<Vec<Condition>> {
    let mut conditions: Vec<Condition> = Vec::with_capacity(rule.matches.len());
    for condition in rule.matches.iter().filter_map(condition) {
        let everything = match condition.field {
            Field::Source(family) | Field::Destination(family) => {
                let last = u128::MAX >> (128 - u32::from(family.bits()));
                condition.values.single() == Some(Interval { first: 0, last })
            }
            _ => false,
        };
        match (everything, condition.negated) {
            (true, true) => return None,
            (true, false) => continue,
            (false, _) => {}
        }
        // `! a ! b` is `! {a, b}`, but of marks there are no sets.
        let is_single = matches!(condition.field, Field::Mark(_) | Field::Connmark(_));
        let same = |other: &&mut Condition| {
            other.negated && condition.negated && other.field == condition.field && !is_single
        };
        match conditions.iter_mut().find(same) {
            Some(other) => other.values.union(&condition.values),
            None => conditions.push(condition),
        }
    }
    conditions.sort();
    Some(conditions)
}

/// What a condition of iptables asks, as nf_tables asks it; `None` if that is nothing.
pub fn condition(m: &Match) -> Option<Condition> {
    let id = |number: u32| Intervals::one(number.into());
    let users = |range: &UidRange| {
        let (first, last) = (range.first().number().into(), range.last().number().into());
        [Interval { first, last }].into_iter().collect()
    };
    Some(match m {
        Match::Source(cidr) => negatable(Field::Source(cidr.value().family()), cidr, addresses),
        Match::Destination(cidr) => negatable(Field::Destination(cidr.value().family()), cidr, addresses),
        Match::InInterface(name) => {
            negatable(Field::InInterface, name, |name| [interface_interval(name)].into_iter().collect())
        }
        Match::OutInterface(name) => {
            negatable(Field::OutInterface, name, |name| [interface_interval(name)].into_iter().collect())
        }
        Match::Protocol(protocol) => {
            Condition::is(Field::Protocol, Intervals::one(protocol_number(*protocol).into()))
        }
        Match::SourcePort(range) => negatable(Field::SourcePort, range, |range| ports([*range])),
        Match::DestinationPort(range) => negatable(Field::DestinationPort, range, |range| ports([*range])),
        Match::DestinationPorts(set) => {
            negatable(Field::DestinationPort, set, |set| ports(set.ranges().iter().copied()))
        }
        Match::UidOwner(uid) => negatable(Field::Uid, uid, users),
        Match::GidOwner(gid) => negatable(Field::Gid, gid, |gid| id(gid.number())),
        Match::ConnState(states) => negatable(Field::ConnState, states, |states| {
            states.states().iter().map(|&state| Interval::one(state_bit(state).into())).collect()
        }),
        Match::Mark(mark) => negatable(Field::Mark(mark.value().mask), mark, |mark: &Mark| id(mark.value)),
        Match::Connmark(mark) => {
            negatable(Field::Connmark(mark.value().mask), mark, |mark: &Mark| id(mark.value))
        }
        Match::ProtocolModule(_) | Match::Comment(_) => return None,
    })
}

fn negatable<T>(field: Field, value: &Negatable<T>, values: impl Fn(&T) -> Intervals) -> Condition {
    Condition { field, negated: value.is_negated(), values: values(value.value()) }
}

fn ports(ranges: impl IntoIterator<Item = PortRange>) -> Intervals {
    let interval = |range: PortRange| Interval {
        first: range.first().number().into(),
        last: range.last().number().into(),
    };
    ranges.into_iter().map(interval).collect()
}

fn addresses(cidr: &Cidr) -> Intervals {
    let first = match cidr.address() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    let host_bits = u32::from(cidr.family().bits() - cidr.length());
    let last = first | 1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1);
    [Interval { first, last }].into_iter().collect()
}

fn action(table: Table, target: &Target) -> Action {
    match target {
        Target::Accept => Action::Accept,
        Target::Drop => Action::Drop,
        Target::Return => Action::Return,
        Target::Jump(chain) => Action::Jump(chain_name(table, chain.as_str())),
        // No rule of our table leads to a chain of another one. But ours come first, so that whoever keeps that chain calls
        // it afterwards by a base chain of its own. Our rules have no more to say about the packet: what they would say if
        // that chain let it go comes too early here.
        Target::JumpForeign(_) => Action::Accept,
        Target::Redirect(ports) => Action::Redirect(*ports),
        Target::Tproxy { port, mark } => Action::Tproxy { family: None, port: *port, mark: *mark },
        Target::SetMark(mark) => Action::SetMark(*mark),
        Target::SetConnmark(mark) => Action::SetConnmark(*mark),
        Target::SaveMark => Action::SaveMark,
        Target::RestoreMark => Action::RestoreMark,
        Target::SetZone(zone) => Action::SetZone(*zone),
        Target::Nflog { .. } | Target::Log { .. } => Action::Report,
    }
}
