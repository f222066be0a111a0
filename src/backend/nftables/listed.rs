//! Tables in the form that a walk follows, with their chains' hooks and sets' values.

use super::bytecode::{BaseChain, Element, EncodedChain, EncodedSet, EncodedTable};
use super::lift::{self, Context};
use super::read::TableCounters;
use crate::sys::header::*;
use rules::nft::{
    Base, Condition, DataType, Field, Interval, Intervals, Kind, LiveChain, LiveRule, LiveTable,
    interface_number,
};
use rules::{Action, Family, Hook, Policy, Target, render};
use std::collections::BTreeMap;

pub(super) type Interfaces = BTreeMap<u32, String>;

pub(super) fn interfaces() -> Interfaces {
    let found = nix::net::if_::if_nameindex();
    let names = found.iter().flat_map(|list| list.iter());
    names.map(|one| (one.index(), one.name().to_string_lossy().into_owned())).collect()
}

/// Lists a table; `None` for a family that none of our packets pass (ARP). `bridges` lists the namespace's bridges.
pub(super) fn table(
    family: u8,
    table: &EncodedTable,
    interfaces: &Interfaces,
    bridges: &[String],
    counters: &TableCounters,
) -> Option<LiveTable> {
    let (word, of) = match family {
        NFPROTO_BRIDGE => return Some(of_bridges(table, bridges)),
        NFPROTO_INET => ("inet", None),
        NFPROTO_NETDEV => ("netdev", None),
        NFPROTO_IPV4 => ("ip", Some(Family::V4)),
        NFPROTO_IPV6 => ("ip6", Some(Family::V6)),
        _ => return None,
    };
    let context = Context { family: of, table, interfaces };
    let chain = |chain: &EncodedChain| {
        let mut rules: Vec<LiveRule> = chain.rules.iter().map(|rule| lift::rule(rule, &context)).collect();
        let counted = counters.get(&chain.name).into_iter().flatten();
        rules.iter_mut().zip(counted).for_each(|(rule, hits)| rule.hits = *hits);
        let base = chain.base.as_ref().filter(|base| is_called(family, base)).map(|base| {
            let mut listed = base_chain(family, base);
            if !base.devices.is_empty() {
                of_devices(&base.devices, &mut listed, &mut rules);
            }
            listed
        });
        LiveChain { name: chain.name.clone(), base, rules }
    };
    let chains = table.chains.iter().map(chain).collect();
    Some(LiveTable { family: of, name: format!("{word} {}", table.name), chains })
}

/// Since Linux 6.4, an interface chain may have no interfaces and is then never called.
fn is_called(family: u8, base: &BaseChain) -> bool {
    let is_of_devices = family == NFPROTO_NETDEV || (family, base.hook) == (NFPROTO_INET, NF_INET_INGRESS);
    !is_of_devices || !base.devices.is_empty()
}

/// A `bridge` table, whose rules are not followed: the fate of bridged packets is unknown.
fn of_bridges(table: &EncodedTable, bridges: &[String]) -> LiveTable {
    let chain = |chain: &EncodedChain| {
        let base = chain.base.as_ref()?;
        // Bridges see inbound frames before the address family, outbound frames after it.
        let is_inbound = [Hook::Prerouting, Hook::Input].iter().any(|hook| *hook as u32 == base.hook);
        let (hook, priority) = match is_inbound {
            true => (Hook::Prerouting, i32::MIN / 2),
            false => (Hook::Postrouting, i32::MAX / 2),
        };
        let text = "rules for bridges, which are not evaluated".to_owned();
        let mut rules = vec![added(text.clone(), Vec::new(), Action::Unknown(text))];
        let mut listed = (Base { kind: Kind::Filter, hook, priority }, Policy::Accept);
        of_devices(bridges, &mut listed, &mut rules);
        let says_anything = !chain.rules.is_empty() || base.policy == NF_DROP;
        says_anything.then(|| LiveChain { name: chain.name.clone(), base: Some(listed), rules })
    };
    let chains = table.chains.iter().filter_map(chain).collect();
    LiveTable { family: None, name: format!("bridge {}", table.name), chains }
}

pub(super) fn is_of_iptables(family: u8, table: &EncodedTable) -> bool {
    let mut bases = table.chains.iter().filter(|chain| chain.base.is_some()).peekable();
    bases.peek().is_some() && bases.all(|chain| chain.is_of_iptables(family, &table.name))
}

fn base_chain(family: u8, base: &BaseChain) -> (Base, Policy) {
    // Precedes the family's first hook, or follows its last.
    let (hook, priority) = match (family, base.hook) {
        (NFPROTO_NETDEV, NF_NETDEV_INGRESS) | (NFPROTO_INET, NF_INET_INGRESS) => {
            (Hook::Prerouting, (i32::MIN / 2).saturating_add(base.priority))
        }
        (NFPROTO_NETDEV, _) => (Hook::Postrouting, (i32::MAX / 2).saturating_add(base.priority)),
        (_, number) => {
            let hook = Hook::ALL.into_iter().find(|hook| *hook as u32 == number);
            (hook.unwrap_or(Hook::Postrouting), base.priority)
        }
    };
    let kind = [Kind::Nat, Kind::Route].into_iter().find(|kind| kind.name() == base.kind);
    let kind = kind.unwrap_or(Kind::Filter);
    let policy = if base.policy == NF_DROP { Policy::Drop } else { Policy::Accept };
    (Base { kind, hook, priority }, policy)
}

/// Interfaces matching a device name, as numbers: one name, or every name with the prefix before `*`.
fn device_names(name: &str) -> Interval {
    let Some(prefix) = name.strip_suffix('*') else { return Interval::one(interface_number(name)) };
    let bits = 8 * u32::try_from(prefix.len()).unwrap_or(u32::MAX / 8);
    let first = interface_number(prefix);
    Interval { first, last: first | u128::MAX.checked_shr(bits).unwrap_or(0) }
}

fn added(text: String, conditions: Vec<rules::ListedCondition>, action: Action) -> LiveRule {
    LiveRule { text, conditions, first: Vec::new(), action, comment: String::new(), hits: None }
}

/// Adds the chain's interfaces as a condition to its rules, and turns its policy into a rule with that condition.
fn of_devices(devices: &[String], (base, policy): &mut (Base, Policy), rules: &mut Vec<LiveRule>) {
    let field = if base.hook == Hook::Prerouting { Field::InInterface } else { Field::OutInterface };
    let names = devices.iter().map(|name| device_names(name));
    let condition = rules::ListedCondition::Nft(Condition::is(field, names.collect()));
    rules.iter_mut().for_each(|rule| rule.conditions.insert(0, condition.clone()));
    if std::mem::take(policy) == Policy::Drop {
        let drop = |conditions| added("policy drop".to_owned(), conditions, Action::Target(Target::Drop));
        *rules = std::mem::take(rules).into_iter().flat_map(|rule| with_policy(rule, &drop)).collect();
        rules.push(drop(vec![condition]));
    }
}

/// Applies the base chain's policy after `return`, and at the end of a `goto` chain. `return` becomes a drop; a `goto` is
/// followed by a rule with the same conditions, except conditions that the other chain may have changed.
fn with_policy(
    mut rule: LiveRule,
    drop: &impl Fn(Vec<rules::ListedCondition>) -> LiveRule,
) -> impl Iterator<Item = LiveRule> {
    let policy = match &mut rule.action {
        Action::Call { returns, .. } if !*returns => {
            *returns = true;
            let conditions = rule.conditions.iter().filter(|one| !one.may_change()).cloned().collect();
            Some(drop(conditions))
        }
        action if *action == Action::Target(Target::Return) => {
            *action = Action::Target(Target::Drop);
            None
        }
        _ => None,
    };
    let is_certain = policy.as_ref().is_none_or(|policy| policy.conditions.len() == rule.conditions.len());
    let policy = policy.map(|policy| match is_certain {
        true => policy,
        false => LiveRule { action: Action::Unknown(policy.text.clone()), ..policy },
    });
    [rule].into_iter().chain(policy)
}

/// Values of a set of this type; `None` if it contains other elements or evaluates more than values (`NFT_SET_EVAL`).
pub(super) fn values(set: &EncodedSet, kind: DataType) -> Option<Intervals> {
    let usual = NFT_SET_ANONYMOUS | NFT_SET_CONSTANT | NFT_SET_INTERVAL | NFT_SET_TIMEOUT | NFT_SET_MAP;
    if set.flags & !usual != 0 || set.others > 0 || set.key_length as usize != kind.width() {
        return None;
    }
    let is_ordered = set.flags & NFT_SET_INTERVAL != 0;
    let number = |element: &Element| kind.decode(&element.key[..kind.width()], is_ordered);
    if !is_ordered {
        return Some(set.elements.iter().map(|element| Interval::one(number(element))).collect());
    }
    let mut ranges = Vec::new();
    let mut elements = set.elements.iter().peekable();
    while let Some(start) = elements.next().filter(|start| !start.is_end) {
        let last = match elements.next_if(|end| end.is_end) {
            Some(end) => number(end).checked_sub(1)?,
            None => match elements.peek() {
                Some(next) => number(next).checked_sub(1)?,
                None => kind.max(),
            },
        };
        ranges.push(Interval { first: number(start), last: last.max(number(start)) });
    }
    elements.next().is_none().then(|| ranges.into_iter().collect())
}

pub(super) fn elements(set: &EncodedSet) -> Vec<String> {
    match set.data_type().and_then(|kind| Some((kind, values(set, kind)?))) {
        Some((kind, values)) => render::nft::texts(kind, &values),
        None => set.elements.iter().map(|element| format!("{:02x?}", element.key)).collect(),
    }
}

pub(super) fn type_name(set: &EncodedSet) -> String {
    match set.data_type() {
        Some(kind) => kind.name().to_owned(),
        None => format!("{} of {} bytes", set.key_type, set.key_length),
    }
}

pub(super) fn base_text(base: &BaseChain) -> String {
    let (place, policy) = base_chain(NFPROTO_INET, base);
    let mut text = render::nft::base(place, policy);
    if !base.devices.is_empty() {
        text.push_str(&format!(" devices {}", base.devices.join(", ")));
    }
    text
}
