//! Rules arranged for walking: chains by index, jumps resolved, each rule with its reason.
//!
//! Made from a rule set, which knows why each rule is there, or from a listing or state, which do not.

use crate::{
    Action, Chain, Condition, Family, Hook, Line, Listing, Origin, Policy, RuleSet, State, Statement, Table,
};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRule {
    /// As it was read; `None` for rules that were made here.
    pub text: Option<String>,
    /// In the order in which they are written.
    pub conditions: Vec<Condition>,
    pub action: Action,
    /// Why it is there, where that is known.
    pub origin: Option<Origin>,
    /// The chain that its target names; `None` if there is no such chain.
    pub(super) leads_to: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewChain {
    pub table: Table,
    pub chain: Chain,
    /// What happens at its end, if the kernel calls it.
    pub policy: Policy,
    /// Its rules in order.
    pub rules: Vec<ViewRule>,
    /// Whether it does just one thing, so that whoever calls it decides.
    pub(super) is_detour: bool,
}

/// The rules of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    family: Family,
    chains: Vec<ViewChain>,
    bases: [[Option<usize>; Hook::ALL.len()]; Table::ALL.len()],
}

impl ViewRule {
    fn new(line: &Line, text: Option<String>, origin: Option<Origin>) -> Self {
        Self { text, conditions: line.conditions(), action: line.action(), origin, leads_to: None }
    }
}

impl View {
    /// The rules of a listing.
    pub fn of_listing(listing: Listing) -> Self {
        let chains = listing.chains.into_iter().map(|((table, chain), held)| {
            let rules =
                held.rules.into_iter().map(|listed| ViewRule::new(&listed.line, Some(listed.text), None));
            (table, chain, held.policy, rules.collect())
        });
        Self::build(listing.family, chains)
    }

    /// The rules of a state; the policies, which it does not keep, count as `ACCEPT`.
    pub fn of_state(state: &State, family: Family) -> Self {
        let chains = state.tables.iter().flat_map(|(table, chains)| {
            chains.iter().map(|(chain, held)| {
                let rules = held.lines.iter().map(|line| ViewRule::new(line, None, None)).collect();
                (*table, chain.clone(), Policy::Accept, rules)
            })
        });
        Self::build(family, chains)
    }

    /// The rules of a rule set, as they stand in an otherwise empty namespace.
    pub fn of_rules(rules: &RuleSet) -> Self {
        let chains = Table::ALL.into_iter().flat_map(|table| {
            rules.chains(table).into_iter().map(move |(chain, statements)| {
                let rule = |s: &Statement| ViewRule::new(&Line::Typed(s.rule.clone()), None, s.origin);
                (table, chain, Policy::Accept, statements.into_iter().map(rule).collect())
            })
        });
        Self::build(rules.family, chains)
    }

    /// Puts something before all rules of a base chain, or behind them, of which nobody here knows what it does.
    pub fn with_stranger(mut self, table: Table, hook: Hook, first: bool, what: &str) -> Self {
        let index = self.base(table, hook).unwrap_or_else(|| {
            let (chain, policy) = (Chain::Base(hook), Policy::Accept);
            self.chains.push(ViewChain { table, chain, policy, rules: Vec::new(), is_detour: false });
            self.bases[table as usize][hook as usize] = Some(self.chains.len() - 1);
            self.chains.len() - 1
        });
        let rules = &mut self.chains[index].rules;
        let stranger = ViewRule {
            text: Some(what.to_owned()),
            conditions: vec![Condition::Unknown(what.to_owned())],
            action: Action::Unknown(what.to_owned()),
            origin: None,
            leads_to: None,
        };
        rules.insert(if first { 0 } else { rules.len() }, stranger);
        self
    }

    fn build(family: Family, chains: impl Iterator<Item = (Table, Chain, Policy, Vec<ViewRule>)>) -> Self {
        let mut view =
            Self { family, chains: Vec::new(), bases: [[None; Hook::ALL.len()]; Table::ALL.len()] };
        let mut places: BTreeMap<(Table, Chain), usize> = BTreeMap::new();
        for (table, chain, policy, rules) in chains {
            let index = view.chains.len();
            if let Chain::Base(hook) = chain {
                view.bases[table as usize][hook as usize] = Some(index);
            }
            places.insert((table, chain.clone()), index);
            let is_detour = rules.iter().filter(|rule| !rule.action.surely_continues()).count() == 1;
            view.chains.push(ViewChain { table, chain, policy, rules, is_detour });
        }
        for chain in &mut view.chains {
            for rule in &mut chain.rules {
                rule.leads_to = rule
                    .action
                    .chain()
                    .and_then(|name| places.get(&(chain.table, Chain::User(name.clone()))).copied());
            }
        }
        view
    }

    pub fn family(&self) -> Family {
        self.family
    }

    /// All chains.
    pub fn chains(&self) -> &[ViewChain] {
        &self.chains
    }

    /// The base chain of a table at a hook, if there is one.
    pub(super) fn base(&self, table: Table, hook: Hook) -> Option<usize> {
        self.bases[table as usize][hook as usize]
    }

    /// A rule by its place; `None` for the policy of a chain.
    pub fn rule(&self, at: super::At) -> Option<&ViewRule> {
        self.chains.get(at.chain)?.rules.get(at.rule)
    }
}
