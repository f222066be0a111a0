//! Tables of nf_tables that are not what their rules say: what stands in the way of a change, and what to tell of them.
//!
//! A dormant table that is ours alone is made again awake. One of iptables' is everybody's: to wake it would put the rules
//! of others into force, so that is left to whoever put it to sleep, and `apply` refuses.

use super::DesiredState;
use crate::backend::{
    BackendName, Contents, Snapshot, Step, Variant,
    nftables::{Hindered, Obstacle},
    of_iptables,
};
use rules::{Ownership, State};

/// What keeps these steps from having their effect: a table that they change and that has an owner, or a dormant one of
/// iptables' in which wanted rules stand.
pub(super) fn in_the_way(before: &Snapshot, wanted: &DesiredState, steps: &[Step]) -> Vec<Hindered> {
    if before.hindered.is_empty() {
        return Vec::new();
    }
    let changed: Vec<String> = steps.iter().flat_map(changed).collect();
    let stands_in_the_way = |one: &&Hindered| match one.obstacle {
        Obstacle::Owned { .. } => changed.contains(&one.table),
        Obstacle::Dormant => wanted_in(wanted, &one.table),
        Obstacle::OfBridge => false,
    };
    before.hindered.iter().filter(stands_in_the_way).cloned().collect()
}

/// The dormant tables of iptables in which wanted rules stand, or should.
pub(super) fn asleep<'a>(
    before: &'a Snapshot,
    wanted: &'a DesiredState,
) -> impl Iterator<Item = &'a Hindered> {
    let is_dormant = |one: &&Hindered| one.obstacle == Obstacle::Dormant;
    before.hindered.iter().filter(is_dormant).filter(|one| wanted_in(wanted, &one.table))
}

/// Whether packets are meant to meet rules of an owner's in a table that they do not meet.
pub(super) fn keeps_from(hindered: &Hindered, snapshot: &Snapshot, owner: &Ownership) -> bool {
    let holds = || {
        let own = |one: Ownership| hindered.table == format!("inet {}", one.table);
        owner.each().any(own) || holds_of(snapshot.contents(NFT), &hindered.table, owner)
    };
    hindered.obstacle == Obstacle::Dormant && holds()
}

const NFT: BackendName = BackendName::Iptables(Variant::Nft);

fn wanted_in(wanted: &DesiredState, table: &str) -> bool {
    holds_of(wanted.contents(NFT), table, &wanted.owner)
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

/// The tables that a step changes.
fn changed(step: &Step) -> Vec<String> {
    let inet = |name: &String| format!("inet {name}");
    match step {
        Step::Nftables { live, wanted } => live.iter().chain(wanted).map(|table| inet(&table.name)).collect(),
        Step::RemoveTables(names) => names.iter().map(inet).collect(),
        Step::Iptables { .. } | Step::Clear(_) => {
            let of_nft = step.changes().into_iter().filter(|(variant, ..)| *variant == Variant::Nft);
            let tables = of_nft.flat_map(|(_, family, changes)| {
                changes.iter().map(move |change| of_iptables(family, change.table))
            });
            tables.collect()
        }
        Step::RemoveHidden(tables) => {
            tables.iter().map(|&(family, table)| of_iptables(family, table)).collect()
        }
        Step::Add(_)
        | Step::Adopt(_)
        | Step::Remove(_)
        | Step::RemoveInherited(_)
        | Step::GiveBack(_)
        | Step::WaitForInFlight => Vec::new(),
    }
}
