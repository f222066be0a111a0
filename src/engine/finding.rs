//! Findings about a namespace, and those that `doctor` and `status` share: what is not as it should be with the rules of the
//! owner, and what rules of other programs do.

use super::{
    blocked_tables::disables,
    foreign::{droppers, preceding_rules_in},
    provenance::{doubtful, predecessors},
};
use crate::backend::Snapshot;
use rules::finding::NamespaceFinding;
use rules::{Ownership, Table, plan, simulate::View};
use std::collections::BTreeSet;

/// Tables that can't be read at all, or not by the program of iptables.
pub(super) fn unreadable(snapshot: &Snapshot, owner: &Ownership) -> Vec<NamespaceFinding> {
    let unread = snapshot.unreadable.iter().map(|(variant, family)| {
        let text = format!("{family} tables of {variant} are there, and no program on PATH to read them");
        NamespaceFinding::fail(
            "rules",
            format!("{text}: they may contain rules of this program"),
            "install iptables",
        )
    });
    let unlistable = snapshot.unlistable.iter().filter_map(|(&(family, table), unlistable)| {
        let text = unlistable.problem(family, table, owner)?;
        Some(NamespaceFinding::fail("rules", text, "sidecar-init clean removes them"))
    });
    unread.chain(unlistable).collect()
}

/// Tables of nf_tables that are dormant, owned by a socket, or of bridges.
pub(super) fn blocked_tables(snapshot: &Snapshot, owner: &Ownership) -> Vec<NamespaceFinding> {
    let found = snapshot.blocked_tables.iter().map(|one| match disables(one, snapshot, owner) {
        true => NamespaceFinding::fail("rules", one.to_string(), one.remedy()),
        false => NamespaceFinding::warn("foreign", one.to_string(), one.remedy()),
    });
    found.collect()
}

/// Rules of other programs that come before the owner's in the chains of iptables.
pub(super) fn foreign_rules(snapshot: &Snapshot, owner: &Ownership) -> Vec<NamespaceFinding> {
    let mut findings = Vec::new();
    for contents in snapshot.all_contents() {
        let backend = contents.backend();
        for (family, state) in contents.states() {
            let state = state.seen_by(owner);
            for table in Table::ALL {
                for (chain, content) in state.chains(table).filter(|(chain, _)| !owner.owns_chain(chain)) {
                    let Some(line) = plan::foreign_before(&content.lines, owner) else { continue };
                    let rule = rules::render::iptables::appended(chain, line);
                    let text = format!(
                        "{family} {table} ({backend}): {rule} sees packets before sidecar-init's rules"
                    );
                    findings.push(NamespaceFinding::warn(
                        "foreign",
                        text,
                        "sidecar-init apply puts its own first",
                    ));
                }
            }
        }
    }
    findings
}

/// Chains of other programs: those that do NAT before the chains of `captures`, and those that drop, before or after.
pub(super) fn foreign_chains<'a>(
    views: impl IntoIterator<Item = &'a View>,
    owner: &Ownership,
    captures: &[Ownership],
) -> Vec<NamespaceFinding> {
    // A table of both families is seen twice.
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for view in views {
        let preceding_rules =
            captures.iter().flat_map(|one| preceding_rules_in(view, &one.union(owner.joined)));
        let preceding_rules = preceding_rules.map(|preceding| preceding.to_string());
        let drops = droppers(view, owner).into_iter();
        let drops = drops.map(|(place, rule)| format!("{place} may drop packets: {rule}"));
        for text in preceding_rules.chain(drops).filter(|text| seen.insert(text.clone())) {
            let remedy = "see what it does with nft list ruleset or iptables-save";
            findings.push(NamespaceFinding::warn("foreign", text, remedy));
        }
    }
    findings
}

/// What cleaning leaves, as it may be another program's.
pub(super) fn doubtful_objects(snapshot: &Snapshot, owner: &Ownership) -> Vec<NamespaceFinding> {
    let remedy = "sidecar-init clean leaves it; remove it by hand if nothing needs it";
    let found = doubtful(snapshot, owner).into_iter().map(|doubtful| {
        let text = format!("made by {} or another program: {doubtful}", predecessors(owner));
        NamespaceFinding::warn("foreign", text, remedy)
    });
    found.collect()
}
