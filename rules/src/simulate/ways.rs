//! Which rules a packet may match, found without a walk: by the hooks that lead to a rule's chain, and by its conditions
//! of what no rule before it can have rewritten.

use super::facts::{Asked, ConditionAnswer, Interface, Now};
use super::packet::{Direction, Packet, Routing};
use super::set::PacketSet;
use crate::field::Field;
use crate::{Chain, ChainName, Hook, ListedCondition, Match, RuleSet, Statement, Table, Target, WriteSet};
use std::collections::BTreeMap;

/// Whether packets come from each hook, in the order of [`Hook::ALL`].
type Hooks = [bool; Hook::ALL.len()];

/// The hooks from which packets come to the chains of a rule set.
#[derive(Clone, Debug, Default)]
pub struct Reachability(BTreeMap<(Table, ChainName), Hooks>);

/// Some rules, with the hooks from which packets come to them.
#[derive(Clone, Debug)]
pub struct Reachable<'a>(Vec<Spot<'a>>);

#[derive(Clone, Debug)]
struct Spot<'a> {
    conditions: Vec<(&'a Match, Asked)>,
    table: Table,
    hooks: Hooks,
}

/// How a packet comes to a table's chains from a hook.
enum Coming {
    Never,
    /// As it set out: what comes before writes marks at most, and decides whose connection it is.
    AsItWas,
    /// Perhaps, and perhaps with another destination, by another interface, without its socket.
    Changed,
}

impl Reachability {
    /// The ways through these rules.
    pub fn of(rules: &RuleSet) -> Self {
        let jumps: Vec<(&Statement, &ChainName)> = rules
            .statements
            .iter()
            .filter_map(|statement| match &statement.rule.target {
                Target::Jump(name) => Some((statement, name)),
                _ => None,
            })
            .collect();
        let mut ways = Self::default();
        // From where a chain is come to, so are those that it leads to: as often as that brings something new.
        let mut is_new = true;
        while is_new {
            is_new = false;
            for (statement, name) in &jumps {
                let from = ways.hooks(statement);
                let to = ways.0.entry((statement.table, (*name).clone())).or_default();
                for (to, from) in to.iter_mut().zip(from) {
                    is_new |= from && !*to;
                    *to |= from;
                }
            }
        }
        ways
    }

    /// Rules in the chains that these ways lead to.
    pub fn spots<'a>(&self, statements: impl IntoIterator<Item = &'a Statement>) -> Reachable<'a> {
        let spot = |statement: &'a Statement| Spot {
            conditions: statement
                .rule
                .matches
                .iter()
                .map(|one| (one, Asked::of(&ListedCondition::Known(one.clone()))))
                .collect(),
            table: statement.table,
            hooks: self.hooks(statement),
        };
        Reachable(statements.into_iter().map(spot).collect())
    }

    fn hooks(&self, statement: &Statement) -> Hooks {
        match &statement.chain {
            Chain::Base(hook) => Hook::ALL.map(|one| one == *hook),
            Chain::User(name) => self.0.get(&(statement.table, name.clone())).copied().unwrap_or_default(),
        }
    }
}

impl Reachable<'_> {
    /// Whether the packet may fulfil one of the rules somewhere on its way through any rules that lead to it. No is certain,
    /// yes is not.
    pub fn may_take(&self, packet: &Packet, routing: &Routing) -> bool {
        let set = PacketSet::one(packet);
        let mut now = Now::of(&set);
        // The route was looked up with the socket's mark.
        let is_taken = routing.local_marks.iter().any(|local| local.covers(packet.mark));
        if is_taken && matches!(packet.direction, Direction::Outbound { .. }) {
            now.leaves_by = Interface::Loopback;
        }
        self.0.iter().any(|spot| spot.may_take(packet, &set, now))
    }
}

impl Spot<'_> {
    fn may_take(&self, packet: &Packet, set: &PacketSet, now: Now) -> bool {
        let mut hooks =
            Hook::ALL.into_iter().zip(self.hooks).filter_map(|(hook, leads)| leads.then_some(hook));
        hooks.any(|hook| match coming(packet, self.table, hook) {
            Coming::Never => false,
            Coming::AsItWas => self.may_hold(set, now, |condition| !is_written(condition)),
            Coming::Changed => self.may_hold(set, now, is_lasting),
        })
    }

    /// Whether all those conditions may hold that are certain.
    fn may_hold(&self, set: &PacketSet, mut now: Now, is_certain: impl Fn(&Match) -> bool) -> bool {
        self.conditions
            .iter()
            .filter(|(condition, _)| is_certain(condition))
            .all(|(_, asked)| !matches!(now.fulfils(set, asked), ConditionAnswer::No))
    }
}

/// Follows the walk: a hook calls `raw`, `mangle` and `nat` in this order, and no rule before `nat` changes a destination;
/// what `nat` has decided at one hook it does not decide again.
fn coming(packet: &Packet, table: Table, hook: Hook) -> Coming {
    let is_first = matches!(table, Table::Raw | Table::Mangle | Table::Nat);
    match (&packet.direction, hook) {
        (Direction::Inbound { .. }, Hook::Output) => Coming::Never,
        (Direction::Inbound { .. }, Hook::Prerouting) if is_first => Coming::AsItWas,
        (Direction::Outbound { .. }, Hook::Output) if is_first => Coming::AsItWas,
        (Direction::Outbound { .. }, Hook::Prerouting) if table == Table::Nat => Coming::Never,
        (
            Direction::Inbound { .. } | Direction::Outbound { .. },
            Hook::Prerouting | Hook::Input | Hook::Forward | Hook::Output | Hook::Postrouting,
        ) => Coming::Changed,
    }
}

/// Whether rules or conntrack write its field on the way.
fn is_written(condition: &Match) -> bool {
    condition.field().is_some_and(|field| field.depends_on(WriteSet::ANYTHING))
}

/// Whether no rule and no hook changes its field.
fn is_lasting(condition: &Match) -> bool {
    matches!(condition.field(), Some(Field::Protocol | Field::Source(_) | Field::SourcePort))
}
