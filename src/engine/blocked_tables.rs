//! Tables of nf_tables that are dormant or owned by a socket: which of them keep a change from taking effect.
//!
//! A dormant table of ours is replaced by an active one. Tables of iptables are shared: activating one would put the rules
//! of other programs into force, so `apply` refuses.

use super::DesiredState;
use crate::backend::{
    BackendName, CommitStep, Contents, Snapshot, Variant,
    nftables::{BlockedTable, Obstacle},
    of_iptables,
};
use rules::{Ownership, State};

/// What keeps these steps from having their effect: a table that they change and that has an owner, or a dormant one of
/// iptables' that should have rules.
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

/// The dormant tables of iptables that should have rules.
pub(super) fn dormant_targets<'a>(
    before: &'a Snapshot,
    desired: &'a DesiredState,
) -> impl Iterator<Item = &'a BlockedTable> {
    let is_dormant = |one: &&BlockedTable| one.obstacle == Obstacle::Dormant;
    before.blocked_tables.iter().filter(is_dormant).filter(|one| desired_in(desired, &one.table))
}

/// Whether a table is dormant and has rules of an owner's.
pub(super) fn disables(blocked: &BlockedTable, snapshot: &Snapshot, owner: &Ownership) -> bool {
    let holds = || {
        let own = |one: Ownership| blocked.table == format!("inet {}", one.table);
        owner.each().any(own) || holds_of(snapshot.contents(NFT), &blocked.table, owner)
    };
    blocked.obstacle == Obstacle::Dormant && holds()
}

const NFT: BackendName = BackendName::Iptables(Variant::Nft);

fn desired_in(desired: &DesiredState, table: &str) -> bool {
    holds_of(desired.contents(NFT), table, &desired.owner)
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
