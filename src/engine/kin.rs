//! Who has made what: the owner, its predecessor, or another one of its trade.

use super::doctor::Finding;
use super::doubtful::doubtful;
use crate::backend::{Contents, Snapshot, Variant};
use rules::simulate::View;
use rules::{Chain, Family, Line, Ownership, State};
use std::collections::BTreeSet;

/// Whose rules a family's tables of iptables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Owner,
    /// The owner or its predecessor: where no rule needs a comment, both write the same.
    Either,
    Predecessor,
}

/// What there is, each with who made it.
pub(super) fn findings(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    const TOPIC: &str = "rules";
    let (all, owner) = (owner.joined, &owner.alone());
    let mut found = Vec::new();
    let held = |maker| {
        let contents = snapshot.all_contents();
        let held: Vec<String> = contents.flat_map(|contents| held_by(maker, contents, owner)).collect();
        (!held.is_empty()).then(|| held.join(", "))
    };
    if let Some(held) = held(Maker::Owner) {
        found.push(Finding::ok(TOPIC, format!("ours: {held}")));
    }
    let predecessor = owner.predecessor.map_or("nobody else", |predecessor| predecessor.name);
    if let Some(held) = held(Maker::Either) {
        let text = format!("ours: {held}; or those of {predecessor}, which writes the same");
        found.push(Finding::ok(TOPIC, text));
    }
    let remedy = "sidecar-init apply takes them over, sidecar-init clean removes them";
    if let Some(held) = held(Maker::Predecessor) {
        found.push(Finding::warn(TOPIC, format!("made by {predecessor}: {held}"), remedy));
    }
    let tables: Vec<&str> = snapshot.inherited_tables(owner).collect();
    if !tables.is_empty() {
        let text =
            format!("made by {predecessor} in its native mode: tables of nf_tables {}", tables.join(", "));
        found.push(Finding::warn(TOPIC, text, remedy));
    }
    // Nothing is said where none is seen but not all can be.
    if found.is_empty() && snapshot.unreadable.is_empty() {
        found.push(Finding::ok(TOPIC, "none of ours"));
    }
    for standing in snapshot.inheritance(owner).routing {
        let text = format!("made by {predecessor}: {}", standing.object);
        found.push(Finding::warn("routing", text, remedy));
    }
    for doubtful in doubtful(snapshot, owner) {
        let text = format!("made by {predecessor} or anybody else: {doubtful}");
        found.push(Finding::warn(
            "foreign",
            text,
            "sidecar-init clean leaves it; remove it by hand if nobody needs it",
        ));
    }
    for (other, by_what) in snapshot.others(owner, all) {
        let text = format!("{} captures here ({by_what}), so apply refuses", other.name);
        found.push(Finding::warn("foreign", text, remedy_of(&other)));
    }
    found
}

/// Who has made what tables of iptables hold, each with the families.
pub(super) fn makers(contents: &Contents, owner: &Ownership) -> Vec<(Maker, Vec<Family>)> {
    let mut found: Vec<(Maker, Vec<Family>)> = Vec::new();
    for (family, state) in contents.states() {
        let Some(maker) = maker_of(state, owner) else { continue };
        match found.iter_mut().find(|(known, _)| *known == maker) {
            Some((_, families)) => families.push(family),
            None => found.push((maker, vec![family])),
        }
    }
    found
}

/// What of the contents is of this maker, family by family.
fn held_by(maker: Maker, contents: &Contents, owner: &Ownership) -> Vec<String> {
    match contents {
        Contents::Iptables { variant, tables } => {
            let of_maker = |(_, state): &(Family, &State)| maker_of(state, owner) == Some(maker);
            let text = |(family, state): (Family, &State)| counted(*variant, family, state, owner);
            tables.iter().filter(of_maker).map(text).collect()
        }
        Contents::Nftables(table) if maker == Maker::Owner => vec![format!("{} (nftables)", table.rules())],
        Contents::Nftables(_) => Vec::new(),
    }
}

fn counted(variant: Variant, family: Family, state: &State, owner: &Ownership) -> String {
    format!("{} {family} ({variant})", state.count_of(owner))
}

fn maker_of(state: &State, owner: &Ownership) -> Option<Maker> {
    let base = state.tables.values().flatten().filter(|(chain, _)| matches!(chain, Chain::Base(_)));
    let lines: Vec<&Line> = base.flat_map(|(_, held)| &held.lines).collect();
    if lines.iter().any(|line| matches!(line, Line::Inherited(_))) {
        Some(Maker::Predecessor)
    } else if lines.iter().any(|line| matches!(line, Line::Typed(rule) if owner.marks_rule(rule))) {
        Some(Maker::Owner)
    } else {
        state.holds_any_of(owner).then_some(Maker::Either)
    }
}

/// Those beside the owner who capture in what a packet meets, and by what they are known.
pub fn kin(view: &View, owner: &Ownership) -> BTreeSet<String> {
    let known = |table: &str, chain: &str| {
        let is_in = |tables: &[&str]| table.strip_prefix("inet ").is_some_and(|name| tables.contains(&name));
        if let Some(predecessor) = owner.predecessor.filter(|predecessor| is_in(predecessor.tables)) {
            return Some(format!("table {table} is of {} in its native mode", predecessor.name));
        }
        let stands =
            |name: &str| view.chains().iter().any(|other| other.table == table && other.chain == name);
        owner.others().find_map(|other| {
            let is_its_table =
                is_in(&[other.table]) || other.predecessor.is_some_and(|one| is_in(one.tables));
            let is_its_chain = || other.owns_chain_among(chain, &stands);
            match is_its_table {
                true => Some(format!("table {table} is of {}", other.name)),
                false => is_its_chain().then(|| format!("chain {chain} of {table} is of {}", other.name)),
            }
        })
    };
    view.chains().iter().filter_map(|chain| known(&chain.table, &chain.chain)).collect()
}

/// What frees a namespace of another one's capture.
pub(super) fn remedy_of(other: &Ownership) -> String {
    format!(
        "sidecar-init clean --mesh {} removes it; to keep it from coming back: {}",
        other.mesh, other.opt_out
    )
}
