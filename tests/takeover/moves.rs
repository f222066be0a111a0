//! Changes under traffic, with a check of every intermediate state in the kernel: between any two meshes, between Istio's
//! captures, and second runs of each mesh, with other flags or forced with the same; within each backend and between any two
//! backends. A change is a sequence of commits, each atomic in the kernel. An interrupted run leaves the results of its earlier
//! commits, so a check before each commit covers every interruption; `killed` checks that a run writes only by those commits.
//! Continuation after an interruption is tested at some commits of each pair of states in one direction: a failing commit, and a
//! run killed before it. The memory backend's `changes` tests it in both directions and between all backends.

use crate::support::engine::kernel;
use crate::support::namespace::Namespace;
use crate::support::rows::rows;
use crate::support::scope;
use crate::takeover::meshes::{Goal, options};
use crate::takeover::packets::{By, LEGACY, NATIVE, NFT, everything, set};
use crate::takeover::scene::{Scene, fresh};
use crate::takeover::states::State;
use crate::takeover::upstream;
use crate::takeover::watched::Disposition;
use sidecar_init::backend::{BackendName, Variant};
use sidecar_init::engine::{self, EngineError};
use std::collections::{BTreeSet, HashMap};

rows! {
    within_nf_tables: there_and_back(NATIVE, NATIVE);
    within_iptables_nft: there_and_back(NFT, NFT);
    within_iptables_legacy: there_and_back(LEGACY, LEGACY);
    between_iptables_nft_and_nf_tables: there_and_back(NFT, NATIVE);
    between_iptables_legacy_and_nf_tables: there_and_back(LEGACY, NATIVE);
    between_iptables_legacy_and_iptables_nft: there_and_back(LEGACY, NFT);
}

/// Pairs of Istio's captures that differ in DNS, marks and tables, and inbound capture.
const WITHIN_ISTIO: [(Goal, Goal); 4] = [
    (Goal::PLAIN_REDIRECT, Goal::TRANSPARENT),
    (Goal::REDIRECT, Goal::MORE_TRANSPARENT),
    (Goal::MORE_TRANSPARENT, Goal::PLAIN_REDIRECT),
    (Goal::REDIRECT, Goal::TRANSPARENT),
];

/// Each pair of goals once: changes go both ways, and order is otherwise irrelevant.
fn pairs() -> Vec<(Goal, Goal)> {
    let place = |goal: &Goal| Goal::ALL.iter().position(|other| other == goal);
    let meshes = Goal::pairs().filter(|(one, other)| place(one) < place(other));
    let second_runs = Goal::ALL.into_iter().zip(Goal::OTHERWISE).chain(Goal::ALL.map(|goal| (goal, goal)));
    meshes.chain(WITHIN_ISTIO).chain(second_runs).collect()
}

fn there_and_back(from: BackendName, to: BackendName) {
    let scene = Scene::new();
    let start = State { backend: from, goal: Goal::ALL[0] };
    let mut now = start;
    set(&scene.inside, start.goal, By::Us(from));
    scene.under_traffic(|| {
        let mut alone = HashMap::new();
        for (pair, (one, other)) in scope::of(pairs(), 2).into_iter().enumerate() {
            let (one, other) = (State { backend: from, goal: one }, State { backend: to, goal: other });
            let mut holds = |state: State, what: &str| {
                let alone = alone.entry(format!("{state:?}")).or_insert_with(|| fresh(state));
                scene.holds(state, alone, what);
            };
            if now != one {
                scene.change(now, one, Disposition::Done);
            }
            let [there, back] = [(one, other), (other, one)].map(|(old, new)| {
                let commits = scene.change(old, new, Disposition::Done);
                holds(new, &format!("from {old:?}"));
                commits
            });
            now = one;
            if one == other {
                scene.rests(one);
            }
            for (index, at) in interrupted(from == to, from, pair, there.max(back)).into_iter().enumerate() {
                let (next, last) = if now == one { (other, there) } else { (one, back) };
                if at >= last {
                    continue;
                }
                scene.change(now, next, Disposition::Fails(at));
                holds(now, &format!("back from {next:?}, where commit {at} failed"));
                scene.change(now, next, Disposition::Killed(at));
                // Continues where the killed run stopped, or reverts.
                let (before, after) = if index % 2 == 0 { (now, next) } else { (next, now) };
                scene.change(before, after, Disposition::Done);
                holds(after, &format!("after a run to {next:?} was killed at commit {at}"));
                now = after;
            }
        }
    });
}

/// Commits at which a change is interrupted: within nf_tables, all. Otherwise two, different for each pair of states, as iptables
/// has many commits that differ only in table and family.
fn interrupted(is_within: bool, backend: BackendName, pair: usize, commits: usize) -> BTreeSet<usize> {
    match backend {
        BackendName::Nftables if is_within => (0..commits).collect(),
        _ => [pair % commits, (pair + commits / 2) % commits].into(),
    }
}

#[test]
fn from_rules_of_other_programs() {
    const WAYS: [(Variant, BackendName); 6] = [
        (Variant::Nft, NFT),
        (Variant::Legacy, LEGACY),
        (Variant::Nft, NATIVE),
        (Variant::Legacy, NATIVE),
        (Variant::Legacy, NFT),
        (Variant::Nft, LEGACY),
    ];
    let istio = Goal::ALL.into_iter().chain(Goal::OTHERWISE).filter(|goal| goal.mesh == Goal::ALL[0].mesh);
    let of_upstream = istio.flat_map(|goal| WAYS.map(|way| ((goal, goal), way)));
    let of_meshes = Goal::pairs().flat_map(|pair| WAYS.map(|way| (pair, way)));
    for ((old, new), (variant, backend)) in scope::of(of_meshes.chain(of_upstream).collect(), 6) {
        gives_way(old, State { backend, goal: new }, |scene| {
            set(&scene.inside, old, By::Program(variant));
            is_refused_beside(&scene.inside, old, new);
            // Upstream's proxy delivers from this address.
            if old.mesh == new.mesh {
                scene.inside.ip("addr add ::6/128 dev lo nodad");
            }
        });
    }
}

/// The refusal precedes the choice of backend, names the existing owner and changes nothing.
fn is_refused_beside(namespace: &Namespace, old: Goal, new: Goal) {
    if old.mesh == new.mesh {
        return;
    }
    let before = everything(namespace);
    let refused = namespace.run(|| {
        let desired = new.desired(new.owner());
        engine::apply(&mut kernel(new.owner()), &desired, &options(NATIVE))
    });
    let printed = match refused {
        Err(error @ EngineError::Captured { .. }) => error.to_string(),
        other => panic!("{old:?}, {new:?}: {other:?}"),
    };
    let is_named = printed.contains(old.owner().name) && printed.contains(new.owner().name);
    assert!(is_named, "{printed}");
    assert_eq!(everything(namespace), before, "{old:?}, {new:?}");
}

#[test]
fn from_upstream_native_mode() {
    for backend in scope::of(vec![NATIVE, NFT, LEGACY], 1) {
        let new = State { backend, goal: Goal::PLAIN_REDIRECT };
        gives_way(new.goal, new, |scene| upstream::set_native(&scene.inside));
    }
}

fn gives_way(old: Goal, new: State, set: impl FnOnce(&Scene)) {
    let scene = Scene::new();
    set(&scene);
    scene.under_traffic(|| {
        // Rules set by another program are a different state.
        let before = State { goal: old, backend: if new.backend == NATIVE { NFT } else { NATIVE } };
        scene.change(before, new, Disposition::Done);
        scene.holds(new, &fresh(new), &format!("from {old:?} of another program"));
    });
}
