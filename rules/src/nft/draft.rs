//! Rules in translation from iptables to nf_tables.

use super::{Base, Effect, Kind};
use crate::field::{Condition, Field};
use crate::model::ChainWrites;
use crate::{Chain, Family, Hook, Match, Origin, Rule, Statement, Table, Target, TrafficEffect, WriteSet};
use similar::{Algorithm, DiffTag, capture_diff_slices};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Draft {
    /// Sorted by field.
    pub(super) conditions: Vec<Condition>,
    pub(super) report: Option<Target>,
    pub(super) effect: Effect,
    /// Includes the writes of called chains.
    pub(super) writes: WriteSet,
    pub(super) origin: Option<Origin>,
}

pub(super) fn chain_name(table: Table, chain: &str) -> String {
    format!("{table}_{chain}")
}

/// Hook and priority of our base chain: just before iptables' chain, because the kernel calls chains of equal priority in reverse
/// order of registration (`nf_hook_entries_grow`).
pub(super) fn base(table: Table, chain: &Chain) -> Option<Base> {
    base_of(table, chain).map(|base| Base { priority: base.priority - 1, ..base })
}

/// Hook and priority of an iptables base chain (`NF_IP_PRI_*` in `linux/netfilter_ipv4.h`).
pub fn base_of(table: Table, chain: &Chain) -> Option<Base> {
    let Chain::Base(hook) = *chain else { return None };
    let (kind, priority) = match (table, hook) {
        (Table::Raw, _) => (Kind::Filter, -300),
        (Table::Mangle, Hook::Output) => (Kind::Route, -150),
        (Table::Mangle, _) => (Kind::Filter, -150),
        (Table::Nat, Hook::Prerouting | Hook::Output | Hook::Forward) => (Kind::Nat, -100),
        (Table::Nat, Hook::Input | Hook::Postrouting) => (Kind::Nat, 100),
        (Table::Filter, _) => (Kind::Filter, 0),
        (Table::Security, _) => (Kind::Filter, 50),
    };
    Some(Base { kind, hook, priority })
}

/// Drafts of statements; a report joins the rule that it reports on.
pub(super) fn drafts(table: Table, statements: Vec<&Statement>, written: &ChainWrites) -> Vec<Draft> {
    let mut drafts = Vec::with_capacity(statements.len());
    let mut statements = statements.into_iter().peekable();
    while let Some(statement) = statements.next() {
        let report = Some(&statement.rule.target).filter(|target| target.is_report()).cloned();
        let reported = report.as_ref().and_then(|_| {
            let is_same = |next: &Rule| conditions(next) == conditions(&statement.rule);
            statements.next_if(|next| !next.rule.target.is_report() && is_same(&next.rule))
        });
        let statement = reported.unwrap_or(statement);
        let Some(conditions) = conditions(&statement.rule) else {
            continue; // No packet can match.
        };
        let fails_closed = matches!(statement.rule.target, Target::Tproxy { .. });
        let draft = Draft {
            conditions,
            report,
            effect: effect(table, &statement.rule.target),
            writes: written.by(table, &statement.rule.target),
            origin: statement.origin,
        };
        // If no socket takes a packet, iptables' TPROXY drops it; nf_tables' TPROXY lets it pass.
        let drop = fails_closed.then(|| Draft {
            report: None,
            effect: Effect::Target(Target::Drop),
            writes: WriteSet::NOTHING,
            ..draft.clone()
        });
        drafts.push(draft);
        drafts.extend(drop);
    }
    drafts
}

fn conditions(rule: &Rule) -> Option<Vec<Condition>> {
    let mut conditions: Vec<Condition> = Vec::with_capacity(rule.matches.len());
    for condition in rule.matches.iter().filter_map(Match::condition) {
        match condition.constant_answer() {
            Some(false) => return None,
            Some(true) => continue,
            None => {}
        }
        // `! a ! b` is `! {a, b}`, but marks have no sets.
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

fn effect(table: Table, target: &Target) -> Effect {
    match target {
        Target::Jump(chain) => Effect::Jump(chain_name(table, chain.as_str())),
        // Our chains come first, and the owner calls its chain later: our rules after this jump would run too early.
        Target::JumpForeign(_) => Effect::Target(Target::Accept),
        report if report.is_report() => Effect::None,
        other => Effect::Target(other.clone()),
    }
}

/// IPv4 rules, for when IPv6 is off; in a base chain, a first rule lets IPv6 pass.
pub(super) fn alone(v4: Vec<Draft>, is_base: bool) -> Vec<Draft> {
    let guard = Draft {
        conditions: vec![Condition::family(Family::V6)],
        report: None,
        effect: Effect::Target(Target::Return),
        writes: WriteSet::NOTHING,
        origin: Some(Origin { name: "ipv6-passes", option: "", effect: TrafficEffect::Excluded, item: None }),
    };
    let rules = v4.into_iter().map(|draft| match has_address(&draft) {
        true => only(draft, Family::V4),
        false => draft,
    });
    is_base.then_some(guard).into_iter().chain(rules).collect()
}

/// Merges both families' rules in order: equal rules apply to both families; other rules get a family condition.
pub(super) fn join(v4: &[Draft], v6: &[Draft]) -> Vec<Draft> {
    let mut joined = Vec::with_capacity(v4.len() + v6.len());
    for op in capture_diff_slices(Algorithm::Lcs, v4, v6) {
        let (of_v4, of_v6) = (&v4[op.old_range()], &v6[op.new_range()]);
        if op.tag() == DiffTag::Equal {
            joined.extend_from_slice(of_v4);
        } else {
            joined.extend(of_v4.iter().map(|draft| only(draft.clone(), Family::V4)));
            joined.extend(of_v6.iter().map(|draft| only(draft.clone(), Family::V6)));
        }
    }
    joined
}

fn has_address(draft: &Draft) -> bool {
    draft.conditions.iter().any(|condition| condition.field.family().is_some())
}

fn only(mut draft: Draft, family: Family) -> Draft {
    draft.conditions.push(Condition::family(family));
    draft.conditions.sort();
    draft
}
