//! How a change of a configuration changes the rules of one family, and which packets may show it.

use crate::explain::RuleView;
use rules::simulate::{Packet, Reachability, Reachable, Routing};
use rules::{Chain, Checked, Match, Rule, Statement, Table, Target};
use std::collections::BTreeMap;

/// So many changed rules are looked at closely.
const MAX_CHANGED: usize = 64;

/// The rules that only one of two rule sets has.
#[derive(Debug)]
pub(super) struct Difference<'a> {
    changed: Vec<&'a Statement>,
    /// The same with the hooks that lead to them; `None` where packets that match none of them may show it.
    spots: Option<Reachable<'a>>,
}

impl<'a> Difference<'a> {
    /// What differs between the two sets of rules; `reachability` are those through the rules before.
    pub(super) fn of(
        (before, view_before): (&'a Checked, &RuleView),
        (after, view_after): (&'a Checked, &RuleView),
        reachability: &Reachability,
    ) -> Self {
        let changed = changed(before, after);
        // Rules that stay lead to where they led, and decide in the order in which they did.
        let stays = |statement: &Statement| !changed.contains_key(&key(statement));
        let leads_on = |statement: &&Statement| matches!(statement.rule.target, Target::Jump(_));
        let is_local = changed.len() <= MAX_CHANGED
            && view_before.routing == view_after.routing
            && !changed.values().any(leads_on)
            && kept(before, stays) == kept(after, stays);
        let changed: Vec<&Statement> = changed.into_values().collect();
        let spots = is_local.then(|| reachability.spots(changed.iter().copied()));
        Self { changed, spots }
    }

    /// What the changed rules ask, of some where they are many.
    pub(super) fn conditions(&self) -> Vec<Match> {
        let some = self.changed.iter().take(MAX_CHANGED);
        some.flat_map(|statement| statement.rule.matches.iter().cloned()).collect()
    }

    /// Whether the packet may end in another way than before. No is certain: it fulfils none of the changed rules, and meets
    /// all others as before.
    pub(super) fn may_change(&self, packet: &Packet, routing: &Routing) -> bool {
        self.spots.as_ref().is_none_or(|spots| spots.may_take(packet, routing))
    }
}

type StatementKey<'a> = (Table, &'a Chain, &'a Rule);

fn key(statement: &Statement) -> StatementKey<'_> {
    (statement.table, &statement.chain, &statement.rule)
}

/// Rules that one of the two has more often.
fn changed<'a>(before: &'a Checked, after: &'a Checked) -> BTreeMap<StatementKey<'a>, &'a Statement> {
    let mut counts: BTreeMap<StatementKey<'_>, (i32, &Statement)> = BTreeMap::new();
    for (rules, step) in [(before, 1), (after, -1)] {
        for statement in &rules.rules().statements {
            counts.entry(key(statement)).or_insert((0, statement)).0 += step;
        }
    }
    let changed = counts.into_iter().filter(|(_, (count, _))| *count != 0);
    changed.map(|(key, (_, statement))| (key, statement)).collect()
}

/// The rules that stay, in the order in which their chains hold them.
fn kept(rules: &Checked, stays: impl Fn(&Statement) -> bool) -> Vec<StatementKey<'_>> {
    let chains = Table::ALL.into_iter().flat_map(|table| rules.rules().chains(table));
    chains.flat_map(|(_, chain_rules)| chain_rules).filter(|statement| stays(statement)).map(key).collect()
}
