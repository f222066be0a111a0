//! Findings about a namespace: what is not as it should be with the rules of the owner, what rules of other programs do, and
//! which tables of nf_tables keep a change from taking effect: activating a dormant one of iptables would put the rules of
//! others into force.

use super::DesiredState;
use super::provenance::{doubtful, droppers, preceding_rules_in, predecessors};
use crate::backend::nftables::{BlockedTable, Obstacle};
use crate::backend::{BackendName, CommitStep, Contents, Snapshot, of_iptables};
use rules::finding::{Code, Finding};
use rules::{Ownership, State, Table, plan, simulate::View};
use std::collections::BTreeSet;

pub(super) fn unreadable(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    let unread = snapshot.unreadable.iter().map(|(variant, family)| {
        let text = format!("{family} tables of {variant} are there, and no program on PATH to read them");
        let text = format!("{text}: they may contain rules of this program");
        Finding::failure(Code::Unreadable, "", text, "install iptables")
    });
    let unlistable = snapshot.unlistable.iter().filter_map(|(&(family, table), unlistable)| {
        let text = unlistable.problem(family, table, owner)?;
        Some(Finding::failure(Code::Unreadable, "", text, "sidecar-init clean removes them"))
    });
    unread.chain(unlistable).collect()
}

pub(super) fn blocked_tables(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    let found = snapshot.blocked_tables.iter().map(|one| match disables(one, snapshot, owner) {
        true => Finding::failure(Code::BlockedTable, "", one.to_string(), one.remedy()),
        false => Finding::warning(Code::BlockedTable, "", one.to_string(), one.remedy()),
    });
    found.collect()
}

/// Rules of other programs that come before the owner's in the chains of iptables.
pub(super) fn foreign_rules(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
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
                    let remedy = "sidecar-init apply puts its own first";
                    findings.push(Finding::warning(Code::OthersFirst, "", text, remedy));
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
) -> Vec<Finding> {
    // A table of both families is seen twice.
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for view in views {
        let preceding_rules =
            captures.iter().flat_map(|one| preceding_rules_in(view, &one.union(owner.joined)));
        let preceding_rules = preceding_rules.map(|preceding| (Code::OthersFirst, preceding.to_string()));
        let drops = droppers(view, owner).into_iter();
        let drops = drops.map(|(place, rule)| (Code::MayDrop, format!("{place} may drop packets: {rule}")));
        for (code, text) in preceding_rules.chain(drops).filter(|one| seen.insert(one.clone())) {
            let remedy = "see what it does with nft list ruleset or iptables-save";
            findings.push(Finding::warning(code, "", text, remedy));
        }
    }
    findings
}

pub(super) fn doubtful_objects(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    let remedy = "sidecar-init clean leaves it; remove it by hand if nothing needs it";
    let found = doubtful(snapshot, owner).into_iter().map(|doubtful| {
        let text = format!("made by {} or another program: {doubtful}", predecessors(owner));
        Finding::warning(Code::UnknownOrigin, "", text, remedy)
    });
    found.collect()
}

/// Obstacles to these steps: a table that they change and that has an owner, or a dormant one of iptables that needs rules.
pub(super) fn blocking(before: &Snapshot, desired: &DesiredState, steps: &[CommitStep]) -> Vec<BlockedTable> {
    if before.blocked_tables.is_empty() {
        return Vec::new();
    }
    let changed: Vec<String> = steps.iter().flat_map(CommitStep::tables).collect();
    let is_blocking = |one: &&BlockedTable| match one.obstacle {
        Obstacle::Owned { .. } => changed.contains(&one.table),
        Obstacle::Dormant => desired_in(desired, &one.table),
        Obstacle::OfBridge => false,
    };
    before.blocked_tables.iter().filter(is_blocking).cloned().collect()
}

pub(super) fn dormant_targets<'a>(
    before: &'a Snapshot,
    desired: &'a DesiredState,
) -> impl Iterator<Item = &'a BlockedTable> {
    let is_dormant = |one: &&BlockedTable| one.obstacle == Obstacle::Dormant;
    before.blocked_tables.iter().filter(is_dormant).filter(|one| desired_in(desired, &one.table))
}

pub(super) fn disables(blocked: &BlockedTable, snapshot: &Snapshot, owner: &Ownership) -> bool {
    let holds = || {
        let own = |one: Ownership| blocked.table == format!("inet {}", one.table);
        owner.each().any(own) || holds_of(snapshot.contents(BackendName::IPTABLES_NFT), &blocked.table, owner)
    };
    blocked.obstacle == Obstacle::Dormant && holds()
}

fn desired_in(desired: &DesiredState, table: &str) -> bool {
    holds_of(desired.contents(BackendName::IPTABLES_NFT), table, &desired.owner)
}

fn holds_of(contents: Option<&Contents>, table: &str, owner: &Ownership) -> bool {
    let Some(Contents::Iptables { tables, .. }) = contents else { return false };
    let holds = |family, state: &State| {
        let own = state.part_of(owner);
        let mut tables = own.tables.iter().filter(|(of, _)| of_iptables(family, **of) == table);
        tables.any(|(_, chains)| chains.values().any(|chain| !chain.lines.is_empty()))
    };
    tables.iter().any(|(family, state)| holds(family, state))
}
