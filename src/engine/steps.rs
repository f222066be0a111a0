//! What has to be done, in order, and how to take it back.
//!
//! iptables commits table by table, so a change takes several steps. They are ordered so that every state between them
//! captures at least what both ends capture.

use super::wanted::Wanted;
use crate::backend::{BackendName, Contents, Snapshot, Step, Variant, nftables};
use rules::routing::{Object, Standing};
use rules::{Family, Ownership, TableChange, plan};
use std::collections::BTreeSet;

/// The steps from what is there to what is wanted: first what rules rely on, then rules, then what nothing relies on any
/// more. Whatever captures from now on stands before what captured until now goes. `anew` makes everything again, be
/// it in place or not.
pub fn steps(before: &Snapshot, wanted: &Wanted, anew: bool) -> Vec<Step> {
    let inherited = before.inheritance(&wanted.owner).routing;
    let mut steps = adoption(before, &inherited);
    let missing = wanted.routes.iter().filter(|object| !before.has(object));
    steps.extend(missing.copied().map(Step::Add));
    let mut backends = BackendName::ALL;
    backends.sort_by_key(|backend| wanted.contents(*backend).is_none());
    for backend in backends {
        match backend {
            BackendName::Iptables(variant) => steps.extend(iptables(before, wanted, variant, anew)),
            BackendName::Nftables => steps.extend(nftables(before, wanted, anew)),
        }
    }
    let adopted = inherited.iter().map(|standing| standing.object);
    let ours: BTreeSet<Object> = before.routes.iter().copied().chain(adopted).collect();
    let leftover = ours.iter().rev().filter(|object| !wanted.routes.contains(object));
    steps.extend(leftover.chain(&before.duplicates).copied().map(Step::Remove));
    let empties = |step: &Step| matches!(step, Step::Iptables { variant: Variant::Nft, .. });
    if !matches!(wanted.contents, Some(Contents::Iptables { .. })) && steps.iter().any(empties) {
        // Nobody needs the empty tables that the last rule of iptables (nft) leaves behind.
        steps.push(Step::DropEmptyTables);
    }
    let tables: Vec<String> = before.inherited_tables(&wanted.owner).map(str::to_owned).collect();
    if !tables.is_empty() {
        steps.push(Step::RemoveTables(tables));
    }
    steps
}

/// Routing that is inherited becomes the owner's before anything else, be it wanted or not: what proves whose it is may be
/// gone when a run is cut short. Policy rules stand side by side, so that theirs goes when ours is there.
fn adoption(before: &Snapshot, inherited: &BTreeSet<Standing>) -> Vec<Step> {
    let objects: BTreeSet<Object> = inherited.iter().map(|standing| standing.object).collect();
    let adopted = objects.into_iter().filter(|object| !before.routes.contains(object)).map(Step::Adopt);
    let is_rule = |standing: &&Standing| matches!(standing.object, Object::Rule { .. });
    adopted.chain(inherited.iter().filter(is_rule).copied().map(Step::RemoveInherited)).collect()
}

fn iptables(before: &Snapshot, wanted: &Wanted, variant: Variant, anew: bool) -> Vec<Step> {
    let plan = if anew { plan::plan_anew } else { plan::plan };
    let of_family = |family| {
        let live = before.iptables(variant, family);
        let target = wanted.iptables(BackendName::Iptables(variant), family);
        changes(variant, family, plan(&live, &target, &wanted.owner))
    };
    Family::BOTH.into_iter().filter_map(of_family).collect()
}

fn changes(variant: Variant, family: Family, changes: Vec<TableChange>) -> Option<Step> {
    (!changes.is_empty()).then_some(Step::Iptables { variant, family, changes })
}

fn nftables(before: &Snapshot, wanted: &Wanted, anew: bool) -> Option<Step> {
    let (live, wanted) = (before.nftables(), wanted.nftables());
    let differs = !nftables::same(live, wanted);
    (differs || (anew && wanted.is_some()))
        .then(|| Step::Nftables { live: live.cloned(), wanted: wanted.cloned() })
}

/// The steps from `now` back to `before`, given those that were attempted.
pub(super) fn way_back(
    before: &Snapshot,
    now: &Snapshot,
    attempted: &[Step],
    owner: &Ownership,
) -> Vec<Step> {
    // What was inherited and is gone comes back as the owner's, and what was adopted stays so: packets see no difference.
    let inherited = attempted.iter().filter_map(|step| match step {
        Step::RemoveInherited(Standing { object, .. }) | Step::Adopt(object) => Some(*object),
        _ => None,
    });
    let there: BTreeSet<Object> = before.routes.iter().copied().chain(inherited).collect();
    let mut back: Vec<Step> =
        there.iter().filter(|object| !now.has(object)).copied().map(Step::Add).collect();
    for step in attempted.iter().rev() {
        match step {
            Step::Iptables { variant, family, changes: made } => {
                let (old, new) = (before.iptables(*variant, *family), now.iptables(*variant, *family));
                back.extend(changes(*variant, *family, plan::back(&old, &new, made, owner)));
            }
            Step::Nftables { .. } if now.nftables() != before.nftables() => {
                back.push(Step::Nftables {
                    live: now.nftables().cloned(),
                    wanted: before.nftables().cloned(),
                });
            }
            Step::Nftables { .. }
            | Step::Add(_)
            | Step::Adopt(_)
            | Step::Remove(_)
            | Step::RemoveInherited(_)
            | Step::RemoveTables(_)
            | Step::DropEmptyTables => {}
        }
    }
    let is_new = |object: &&Object| {
        !before.routes.contains(object) && (!before.others_have(object) || now.others_have(object))
    };
    back.extend(now.routes.iter().filter(is_new).copied().map(Step::Remove));
    back
}
