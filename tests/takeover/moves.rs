//! Under traffic, with a look at each state that the kernel holds on the way: from each mesh to each other one, and a
//! second run of each mesh, with other words and with the same, made anew.
//!
//! A change is a row of commits, each of which the kernel does whole or not at all. Whatever interrupts a run leaves what the
//! commits before have made, so a walk that looks before each commit sees all that an interruption can leave; that a run
//! writes by those commits and by nothing else is what `killed` holds. What comes after is tried here at each commit of
//! each two states, in the one direction or the other: a commit that fails, and a run that is killed before it. In both
//! directions and from any backend to any other, `faults` tries it in memory.

use crate::support::rows::rows;
use crate::takeover::meshes::Goal;
use crate::takeover::packets::{By, LEGACY, NATIVE, NFT, set};
use crate::takeover::scene::{Scene, fresh};
use crate::takeover::watched::Disposition;
use sidecar_init::backend::{BackendName, Variant};
use std::collections::{BTreeSet, HashMap};

rows! {
    within_nf_tables: there_and_back(NATIVE);
    within_iptables_nft: there_and_back(NFT);
    within_iptables_legacy: there_and_back(LEGACY);
}

/// All states of two that one backend holds, each two once.
fn there_and_back(backend: BackendName) {
    let scene = Scene::new();
    let place = |goal: &Goal| Goal::ALL.iter().position(|other| other == goal);
    let meshes = Goal::pairs().filter(|(one, other)| place(one) < place(other));
    let second_runs = Goal::ALL.into_iter().zip(Goal::OTHERWISE).chain(Goal::ALL.map(|goal| (goal, goal)));
    let mut now = Goal::ALL[0];
    set(&scene.inside, now, By::Us(backend));
    scene.under_traffic(|| {
        let mut alone = HashMap::new();
        for (pair, (one, other)) in meshes.chain(second_runs).enumerate() {
            let mut holds = |goal: Goal, what: &str| {
                let alone = alone.entry(format!("{goal:?}")).or_insert_with(|| fresh(goal, backend));
                scene.holds(goal, alone, what);
            };
            if now != one {
                scene.change(now, one, backend, Disposition::Done);
            }
            let [there, back] = [(one, other), (other, one)].map(|(old, new)| {
                let commits = scene.change(old, new, backend, Disposition::Done);
                holds(new, &format!("from {old:?} by {backend}"));
                commits
            });
            now = one;
            if one == other {
                scene.rests(one, backend);
            }
            for (index, at) in interrupted(backend, pair, there.max(back)).into_iter().enumerate() {
                let (next, last) = if now == one { (other, there) } else { (one, back) };
                if at >= last {
                    continue;
                }
                scene.change(now, next, backend, Disposition::Fails(at));
                holds(now, &format!("back from {next:?} by {backend}, where commit {at} failed"));
                scene.change(now, next, backend, Disposition::Killed(at));
                // On from where the killed run has stopped, or back.
                let (before, after) = if index % 2 == 0 { (now, next) } else { (next, now) };
                scene.change(before, after, backend, Disposition::Done);
                holds(after, &format!("{backend}: after a run to {next:?} was killed at commit {at}"));
                now = after;
            }
        }
    });
}

/// The commits at which a change between two states is interrupted: with nf_tables each of them. With iptables, where they
/// are many and differ in the table and the family alone, two, and others for each two states.
fn interrupted(backend: BackendName, pair: usize, commits: usize) -> BTreeSet<usize> {
    match backend {
        BackendName::Nftables => (0..commits).collect(),
        BackendName::Iptables(_) => [pair % commits, (pair + commits / 2) % commits].into(),
    }
}

/// From each mesh to each other one while the backend changes too.
#[test]
fn from_one_backend_to_another() {
    const BACKENDS: [BackendName; 3] = [NATIVE, NFT, LEGACY];
    let scene = Scene::new();
    let mut now = Goal::ALL[0];
    set(&scene.inside, now, By::Us(NATIVE));
    scene.under_traffic(|| {
        for (index, (old, new)) in Goal::pairs().enumerate() {
            // Each backend, and each of the two others.
            let (from, to) = (index % 3, (index + 1 + index / 3 % 2) % 3);
            if now != old {
                scene.change(now, old, BACKENDS[from], Disposition::Done);
            }
            scene.change(old, new, BACKENDS[to], Disposition::Done);
            scene.holds(new, &fresh(new, BACKENDS[to]), &format!("from {old:?} by {}", BACKENDS[from]));
            now = new;
        }
    });
}

/// What a mesh's own program has set gives way as well.
#[test]
fn from_what_other_programs_have_set() {
    for (index, (old, new)) in Goal::pairs().enumerate() {
        let (by, backend) = [
            (By::Program(Variant::Nft), NFT),
            (By::Program(Variant::Legacy), LEGACY),
            (By::Program(Variant::Nft), NATIVE),
            (By::Program(Variant::Legacy), NATIVE),
        ][index % 4];
        let scene = Scene::new();
        set(&scene.inside, old, by);
        scene.under_traffic(|| {
            scene.change(old, new, backend, Disposition::Done);
            scene.holds(new, &fresh(new, backend), &format!("from {old:?} {by:?}"));
        });
    }
}
