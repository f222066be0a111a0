//! Rules arranged for walking: chains by index, jumps resolved, each rule with its reason.
//!
//! Made from a rule set, which knows why each rule is there, or from a listing or state, which do not.

use crate::{
    Action, Chain, ChainName, Family, Hook, Layer, Listed, Listing, Origin, Policy, RuleSet, State, Table,
    Target,
};
use std::collections::BTreeMap;

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRule {
    /// What it says.
    pub rule: Listed,
    /// Why it is there, where that is known.
    pub origin: Option<Origin>,
    /// The chain that its target names; `None` if there is no such chain.
    pub(super) leads_to: Option<usize>,
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewChain {
    /// Its table.
    pub layer: Layer,
    /// Its name.
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
    bases: [[Option<usize>; Hook::ALL.len()]; Layer::ALL.len()],
}

impl View {
    /// The rules of a listing.
    pub fn of_listing(listing: Listing) -> Self {
        let chains = listing.chains.into_iter().map(|((layer, chain), held)| {
            let rules = held.rules.into_iter().map(|rule| (rule, None)).collect();
            (layer, chain, held.policy, rules)
        });
        Self::build(listing.family, chains)
    }

    /// The rules of a state.
    pub fn of_state(state: &State, family: Family) -> Self {
        Self::of_listing(Listing::of_state(state, family))
    }

    /// The rules of a rule set, as they stand in an otherwise empty namespace.
    pub fn of_rules(rules: &RuleSet) -> Self {
        let chains = Table::ALL.into_iter().flat_map(|table| {
            rules.chains(table).into_iter().map(move |(chain, statements)| {
                let rules = statements.into_iter().map(|s| (Listed::from(&s.rule), s.origin)).collect();
                (Layer::from(table), chain, Policy::Accept, rules)
            })
        });
        Self::build(rules.family, chains)
    }

    fn build(
        family: Family,
        chains: impl Iterator<Item = (Layer, Chain, Policy, Vec<(Listed, Option<Origin>)>)>,
    ) -> Self {
        let mut view =
            Self { family, chains: Vec::new(), bases: [[None; Hook::ALL.len()]; Layer::ALL.len()] };
        let mut places: BTreeMap<(Layer, Chain), usize> = BTreeMap::new();
        for (layer, chain, policy, rules) in chains {
            let index = view.chains.len();
            if let Chain::Base(hook) = chain {
                view.bases[layer as usize][hook as usize] = Some(index);
            }
            places.insert((layer, chain.clone()), index);
            let rules = rules.into_iter().map(|(rule, origin)| ViewRule { rule, origin, leads_to: None });
            let rules: Vec<ViewRule> = rules.collect();
            let is_detour = rules.iter().filter(|rule| !only_reports(&rule.rule.action)).count() == 1;
            view.chains.push(ViewChain { layer, chain, policy, rules, is_detour });
        }
        for chain in &mut view.chains {
            for rule in &mut chain.rules {
                rule.leads_to = named(&rule.rule.action)
                    .and_then(|name| places.get(&(chain.layer, Chain::User(name.clone()))).copied());
            }
        }
        view
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// All chains.
    pub fn chains(&self) -> &[ViewChain] {
        &self.chains
    }

    /// The base chain of a table at a hook, if there is one.
    pub(super) fn base(&self, layer: Layer, hook: Hook) -> Option<usize> {
        self.bases[layer as usize][hook as usize]
    }

    /// A rule by its place; `None` for the policy of a chain.
    pub fn rule(&self, at: super::At) -> Option<&ViewRule> {
        self.chains.get(at.chain)?.rules.get(at.rule)
    }
}

/// The chain that an action leads to.
fn named(action: &Action) -> Option<&ChainName> {
    match action {
        Action::Target(Target::Jump(name)) | Action::Goto(name) => Some(name),
        Action::Target(_)
        | Action::Continue(_)
        | Action::Reject
        | Action::RedirectSamePort
        | Action::Destination { .. }
        | Action::Source(_)
        | Action::Notrack
        | Action::Marks(_)
        | Action::Unknown(_) => None,
    }
}

fn only_reports(action: &Action) -> bool {
    matches!(action, Action::Target(Target::Log { .. }) | Action::Continue(_))
}
