//! What a predecessor has made and the owner takes over: its rules in base chains, its policy rules, routes and
//! addresses, none of which says whose it is.
//!
//! What is proven is inherited: replaced by a change, removed by cleaning. What has a form of the predecessor's and is not
//! proven may be anybody's: it is doubtful, stays, and is named.

use crate::predecessor::{self, Form, Proof};
use crate::routing::{Object, Standing};
use crate::{
    Chain, Family, Hook, InterfaceName, Line, Match, Negatable, Ownership, Predecessor, Rule, State, Table,
};
use std::collections::BTreeSet;

/// Turns the predecessor's rules in base chains into inherited ones.
pub fn claim(state: &mut State, owner: &Ownership) {
    let Some(predecessor) = owner.predecessor else { return };
    for table in Table::ALL {
        let claimed = claims(state, table, owner, predecessor);
        let Some(chains) = state.tables.get_mut(&table) else { continue };
        for (chain, index) in claimed {
            let line = chains.get_mut(&chain).and_then(|chain| chain.lines.get_mut(index));
            if let Some(line) = line
                && let Line::Typed(rule) = line
            {
                *line = Line::Inherited(rule.clone());
            }
        }
    }
}

/// Where the predecessor's rules stand in a table.
fn claims(
    state: &State,
    table: Table,
    owner: &Ownership,
    predecessor: &Predecessor,
) -> BTreeSet<(Chain, usize)> {
    let rules: Vec<Candidate<'_>> = candidates(state, table, owner, predecessor).collect();
    let mut claimed: BTreeSet<(Chain, usize)> =
        rules.iter().filter(|rule| rule.proof == Proof::Itself).map(Candidate::place).collect();
    let base = || state.chains(table).filter(|(chain, _)| matches!(chain, Chain::Base(_)));
    let is_ours = |line: &Line| matches!(line, Line::Typed(rule) if owner.marks_rule(rule));
    let holds_more = !claimed.is_empty()
        || state.chains(table).any(|(chain, _)| owner.owns_chain(chain))
        || base().any(|(_, held)| held.lines.iter().any(|line| line.belongs_to(owner)));
    // Where rules carry the owner's comment, the owner has made the table anew, and left no rule of the other's.
    if !holds_more || base().any(|(_, held)| held.lines.iter().any(is_ours)) {
        return claimed;
    }
    claimed.extend(rules.iter().filter(|rule| rule.proof == Proof::Table).map(Candidate::place));
    let by_place: Vec<_> = rules.iter().filter(|rule| rule.proof == Proof::Place).collect();
    let proven = |rule: &&&Candidate<'_>| {
        let lines = state.lines(table, &Chain::Base(rule.hook));
        let is_owned = |index: usize| {
            lines[index].belongs_to(owner) || claimed.contains(&(Chain::Base(rule.hook), index))
        };
        // Its jumps come after its rules for interfaces, but for those of virtual machines.
        let last = (0..lines.len()).rev().find(|index| is_owned(*index));
        let comes_before = last.is_none_or(|last| rule.index < last);
        match rule.interface {
            Some((name, Way::Out)) => comes_before && by_place.iter().any(|other| other.is(name, Way::In)),
            Some((name, Way::In)) => {
                let leads_on = |line: &Line| match line {
                    Line::Typed(other) => line.belongs_to(owner) && interface(other) == Some((name, Way::In)),
                    Line::Inherited(_) | Line::Foreign(_) => false,
                };
                comes_before
                    || lines.iter().any(leads_on)
                    || by_place.iter().any(|other| other.is(name, Way::Out))
            }
            None => comes_before,
        }
    };
    let proven: Vec<_> = by_place.iter().filter(proven).map(|rule| rule.place()).collect();
    claimed.extend(proven);
    claimed
}

/// The rules in base chains that have a form of the predecessor's and are not known for its own, chain by chain.
pub fn doubtful<'a>(state: &'a State, owner: &'a Ownership) -> impl Iterator<Item = (Table, Hook, &'a Line)> {
    let predecessor = owner.predecessor.into_iter();
    predecessor.flat_map(move |predecessor| {
        Table::LISTED.into_iter().flat_map(move |table| {
            candidates(state, table, owner, predecessor)
                .map(move |rule| (table, rule.hook, &state.lines(table, &Chain::Base(rule.hook))[rule.index]))
        })
    })
}

/// A rule that may be the predecessor's.
struct Candidate<'a> {
    hook: Hook,
    index: usize,
    interface: Option<(&'a InterfaceName, Way)>,
    proof: Proof,
}

impl Candidate<'_> {
    fn place(&self) -> (Chain, usize) {
        (Chain::Base(self.hook), self.index)
    }

    fn is(&self, interface: &InterfaceName, way: Way) -> bool {
        self.interface == Some((interface, way))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

fn interface(rule: &Rule) -> Option<(&InterfaceName, Way)> {
    rule.matches.iter().find_map(|m| match m {
        Match::InInterface(Negatable::Is(name)) => Some((name, Way::In)),
        Match::OutInterface(Negatable::Is(name)) => Some((name, Way::Out)),
        _ => None,
    })
}

fn candidates<'a>(
    state: &'a State,
    table: Table,
    owner: &'a Ownership,
    predecessor: &'a Predecessor,
) -> impl Iterator<Item = Candidate<'a>> {
    state.chains(table).flat_map(move |(chain, held)| {
        held.lines.iter().enumerate().filter_map(move |(index, line)| {
            let (Chain::Base(hook), Line::Typed(rule)) = (chain, line) else { return None };
            if owner.owns_rule(rule) {
                return None;
            }
            let form = predecessor.form(table, *hook, rule).map(|Form { proof, .. }| *proof);
            let proof = form.or(predecessor.logs(rule).then_some(Proof::Itself))?;
            Some(Candidate { hook: *hook, index, interface: interface(rule), proof })
        })
    })
}

/// What speaks for the predecessor in a namespace as a whole, and what for the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Marks that inherited rules look at.
    marks: BTreeSet<u32>,
    /// Whether chains of the owner's prefix stand.
    chains: bool,
    /// Whether anything stands that only the predecessor makes.
    inherited: bool,
    /// Whether anything stands that only the owner makes.
    owned: bool,
}

impl Evidence {
    /// What the tables of iptables tell.
    pub fn of<'a>(states: impl Iterator<Item = &'a State>, owner: &Ownership) -> Self {
        let mut evidence = Self::default();
        for (chain, held) in states.flat_map(|state| state.tables.values().flatten()) {
            evidence.chains |= owner.owns_chain(chain);
            for line in held.lines.iter().filter(|_| matches!(chain, Chain::Base(_))) {
                match line {
                    Line::Typed(rule) => evidence.owned |= owner.marks_rule(rule),
                    Line::Inherited(rule) => {
                        evidence.inherited = true;
                        evidence.marks.extend(predecessor::marks(rule));
                    }
                    Line::Foreign(_) => {}
                }
            }
        }
        evidence
    }

    /// Adds what stands beside those tables.
    #[must_use]
    pub fn and(self, inherited: bool, owned: bool) -> Self {
        Self { inherited: self.inherited || inherited, owned: self.owned || owned, ..self }
    }
}

/// Objects of routing that others than the owner have made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inheritance {
    /// The predecessor's.
    pub routing: BTreeSet<Standing>,
    /// What may be the predecessor's, or anybody's.
    pub doubtful: BTreeSet<Standing>,
}

/// Sorts objects that others than the owner have made; what is surely none of the predecessor's is left out.
pub fn routing(owner: &Ownership, evidence: &Evidence, of_others: &BTreeSet<Standing>) -> Inheritance {
    let mut found = Inheritance::default();
    let Some(predecessor) = owner.predecessor else { return found };
    let stands = |wanted: Object| of_others.iter().any(|standing| standing.object == wanted);
    for &standing in of_others {
        if let Object::Rule { family, mark, table } = standing.object {
            if (mark, table) == predecessor.policy_rule || evidence.marks.contains(&mark) {
                found.routing.insert(standing);
            } else if stands(Object::Route { family, table }) {
                // Together they are what everybody sets up who uses TPROXY.
                found.doubtful.insert(standing);
            }
        }
    }
    let leads = |rules: &BTreeSet<Standing>, of: Family, to: u32| {
        let is_such = |standing: &Standing| matches!(standing.object, Object::Rule { family, table, .. } if (family, table) == (of, to));
        rules.iter().any(is_such)
    };
    let is_its_own = evidence.inherited || !found.routing.is_empty() || (evidence.chains && !evidence.owned);
    for &standing in of_others {
        match standing.object {
            Object::Rule { .. } => {}
            Object::Route { family, table } => {
                if leads(&found.routing, family, table) || table == predecessor.policy_rule.1 {
                    found.routing.insert(standing);
                } else if leads(&found.doubtful, family, table) {
                    found.doubtful.insert(standing);
                }
            }
            Object::Address(_) if is_its_own => drop(found.routing.insert(standing)),
            Object::Address(_) => drop(found.doubtful.insert(standing)),
        }
    }
    found
}
