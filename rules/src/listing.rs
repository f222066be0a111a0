//! A listing of our and other programs' rules, as `iptables-save` prints it, with source text, which [`crate::State`] lacks.

use crate::{
    Action, Chain, ChainName, Family, Foreign, Hits, ListedRule, Ownership, Policy, State, Table,
    inheritance, ownership,
};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedRule {
    pub text: String,
    pub line: ListedRule,
    /// True if we would write the rule identically: iptables finds rules to delete by text.
    pub is_our_spelling: bool,
    /// `None` if the listing has no counters.
    pub hits: Option<Hits>,
}

impl PrintedRule {
    fn foreign(&self, action: Action, comment: Option<String>) -> Foreign {
        let (text, conditions) = (self.text.clone(), self.line.conditions());
        Foreign { text, conditions, action, comment, is_inherited: false }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedChain {
    /// Meaningful only in a base chain.
    pub policy: Policy,
    pub rules: Vec<PrintedRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub family: Family,
    pub chains: BTreeMap<(Table, Chain), ListedChain>,
}

impl Listing {
    pub fn empty(family: Family) -> Self {
        Self { family, chains: BTreeMap::new() }
    }

    pub fn holds_rules(&self) -> bool {
        let mut chains = self.chains.iter();
        chains.any(|((_, chain), content)| matches!(chain, Chain::User(_)) || !content.rules.is_empty())
    }

    pub fn drops(&self) -> bool {
        self.chains.values().any(|content| content.policy == Policy::Drop)
    }

    /// Chains in canonical form. The owner's chains are removed as a whole; from other chains, rules are deleted by text, so
    /// rules not in our form stay foreign. A conflicting owner's chain is left out, and rules that lead to it are foreign.
    pub fn state(&self, owner: &Ownership) -> State {
        let mut state = State::default();
        for ((table, chain), content) in &self.chains {
            let is_theirs = |chain: &ChainName| self.is_of_conflicting_owner(*table, chain, owner);
            if matches!(chain, Chain::User(name) if is_theirs(name)) {
                continue;
            }
            let owned = owner.owns_chain(chain);
            let lines = content.rules.iter().map(|listed| match &listed.line {
                line if line.action().chain().is_some_and(is_theirs) => {
                    ListedRule::Foreign(call_of_conflicting_chain(listed))
                }
                ListedRule::Typed(rule) if owned || listed.is_our_spelling => {
                    ListedRule::Typed(rule.canonical())
                }
                ListedRule::Typed(rule) => {
                    let comment = ownership::comments(rule).next().map(str::to_owned);
                    ListedRule::Foreign(listed.foreign(listed.line.action(), comment))
                }
                ListedRule::Inherited(rule) => ListedRule::Inherited(rule.clone()),
                ListedRule::Foreign(foreign) => ListedRule::Foreign(foreign.clone()),
            });
            state.tables.entry(*table).or_default().insert(chain.clone(), lines.collect());
        }
        match owner.joined {
            [] => inheritance::mark_inherited(&mut state, owner),
            // Evidence for one predecessor is valid only in its successor's own state.
            _ => owner.each().for_each(|one| state.inherit(&self.state(&one))),
        }
        state
    }

    /// True if a chain has an owner's name but belongs to another program in this table.
    fn is_of_conflicting_owner(&self, table: Table, chain: &ChainName, owner: &Ownership) -> bool {
        let exists =
            |name: &str| name.parse().is_ok_and(|name| self.chains.contains_key(&(table, Chain::User(name))));
        owner.owns_chain_named(chain) && !owner.owns_chain_among(chain.as_str(), &exists)
    }
}

fn call_of_conflicting_chain(listed: &PrintedRule) -> Foreign {
    let chain = listed.line.action().chain().map(ToString::to_string).unwrap_or_default();
    let returns = !matches!(listed.line.action(), Action::Goto(_));
    listed.foreign(Action::Call { chain, returns }, None)
}
