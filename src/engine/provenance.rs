//! Provenance: which program made the rules, the owner, its predecessor, or that of another mesh.

use crate::backend::{Contents, Snapshot};
use rules::{Chain, Family, ListedRule, Ownership, State, inheritance, render, simulate::View};
use rules::{Pattern, Proof};
use std::collections::BTreeSet;

/// The program that made the rules of a family in iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Owner,
    /// The owner or its predecessor: where no rule needs a comment, both write the same.
    Either,
    Predecessor,
}

/// The names of the predecessors, of all joined owners, whose rules other programs may make too.
pub fn predecessors(owner: &Ownership) -> String {
    let is_doubtful = |pattern: &Pattern| pattern.proof != Proof::NoComments;
    let makes_rules = inheritance::predecessors(owner).filter(|one| one.patterns.iter().any(is_doubtful));
    let names: Vec<&str> = makes_rules.map(|predecessor| predecessor.name).collect();
    if names.is_empty() { "no known program".to_owned() } else { names.join(", ") }
}

/// Makers of an owner's rules in tables of iptables, each with the families and the number of its rules.
pub(super) fn makers(contents: &Contents, owner: &Ownership) -> Vec<(Maker, Vec<Family>, usize)> {
    let mut found: Vec<(Maker, Vec<Family>, usize)> = Vec::new();
    for (family, state) in contents.states() {
        let state = state.seen_by(owner);
        let Some(maker) = maker_of(&state, owner) else { continue };
        let count = state.count_of(owner);
        match found.iter_mut().find(|(known, ..)| *known == maker) {
            Some((_, families, rules)) => {
                families.push(family);
                *rules += count;
            }
            None => found.push((maker, vec![family], count)),
        }
    }
    found
}

fn maker_of(state: &State, owner: &Ownership) -> Option<Maker> {
    let base = state.tables.values().flatten().filter(|(chain, _)| matches!(chain, Chain::Base(_)));
    let lines: Vec<&ListedRule> = base.flat_map(|(_, content)| &content.lines).collect();
    if lines.iter().any(|line| line.is_inherited()) {
        Some(Maker::Predecessor)
    } else if lines.iter().any(|line| matches!(line, ListedRule::Typed(rule) if owner.has_comment_in(rule))) {
        Some(Maker::Owner)
    } else {
        state.holds_any_of(owner).then_some(Maker::Either)
    }
}

/// Rules and routing that cleaning leaves, because nothing proves that they are the predecessor's: other programs make
/// such ones too, or they have the owner's routing protocol and a form that the owner does not make.
pub fn doubtful(snapshot: &Snapshot, owner: &Ownership) -> Vec<String> {
    let mut found = Vec::new();
    for contents in snapshot.all_contents() {
        let backend = contents.backend();
        for (family, state) in contents.states() {
            found.extend(inheritance::doubtful(state, owner).map(|(table, hook, line)| {
                let rule = render::iptables::appended(&Chain::Base(hook), line);
                format!("{family} {table} ({backend}): {rule}")
            }));
        }
    }
    found.extend(snapshot.inheritance(owner).doubtful.iter().map(|route| route.object.to_string()));
    let unexpected = snapshot.unexpected.iter();
    found.extend(unexpected.map(|what| format!("{what}, of routing protocol {}", owner.protocol)));
    found
}

/// Other owners that capture in the rules that a packet meets, with the evidence.
pub fn other_captures(view: &View, owner: &Ownership) -> BTreeSet<String> {
    let known = |table: &str, chain: &str| {
        let is_in = |tables: &[&str]| table.strip_prefix("inet ").is_some_and(|name| tables.contains(&name));
        if let Some(predecessor) = owner.predecessor.filter(|predecessor| is_in(predecessor.tables)) {
            return Some(format!("table {table} is of {} in its native mode", predecessor.name));
        }
        let exists =
            |name: &str| view.chains().iter().any(|other| other.table == table && other.chain == name);
        owner.others().find_map(|other| {
            let is_its_table =
                is_in(&[other.table]) || other.predecessor.is_some_and(|one| is_in(one.tables));
            let is_its_chain = || other.owns_chain_among(chain, &exists);
            match is_its_table {
                true => Some(format!("table {table} is of {}", other.name)),
                false => is_its_chain().then(|| format!("chain {chain} of {table} is of {}", other.name)),
            }
        })
    };
    view.chains().iter().filter_map(|chain| known(&chain.table, &chain.chain)).collect()
}

pub fn remedy_of(other: &Ownership) -> String {
    format!(
        "sidecar-init clean --mesh {} removes it; to keep it from coming back: {}",
        other.mesh, other.opt_out
    )
}
