//! Under traffic, with a look at each state that the kernel holds on the way: from each mesh to each other one, between the
//! captures of Istio, and a second run of each mesh, with other words and with the same, made anew; within each backend and
//! from each backend to each other one.
//!
//! A change is a row of commits, each of which the kernel does whole or not at all. Whatever interrupts a run leaves what the
//! commits before have made, so a walk that looks before each commit sees all that an interruption can leave; that a run
//! writes by those commits and by nothing else is what `killed` holds. What comes after is tried here at commits of each two
//! states, in the one direction or the other: a commit that fails, and a run that is killed before it. In both directions
//! and from any backend to any other, `changes` of the memory backend tries it.

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
    between_both_variants_of_iptables: there_and_back(LEGACY, NFT);
}

/// What changes between the captures of Istio: DNS, marks and tables, and how what arrives is taken.
const WITHIN_ISTIO: [(Goal, Goal); 4] = [
    (Goal::PLAIN_REDIRECT, Goal::TRANSPARENT),
    (Goal::REDIRECT, Goal::MORE_TRANSPARENT),
    (Goal::MORE_TRANSPARENT, Goal::PLAIN_REDIRECT),
    (Goal::REDIRECT, Goal::TRANSPARENT),
];

/// Each two goals once. Where the backend changes, both directions of two meshes differ in no other way.
fn pairs() -> Vec<(Goal, Goal)> {
    let place = |goal: &Goal| Goal::ALL.iter().position(|other| other == goal);
    let meshes = Goal::pairs().filter(|(one, other)| place(one) < place(other));
    let second_runs = Goal::ALL.into_iter().zip(Goal::OTHERWISE).chain(Goal::ALL.map(|goal| (goal, goal)));
    meshes.chain(WITHIN_ISTIO).chain(second_runs).collect()
}

/// All states of two that these backends hold.
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
                // On from where the killed run has stopped, or back.
                let (before, after) = if index % 2 == 0 { (now, next) } else { (next, now) };
                scene.change(before, after, Disposition::Done);
                holds(after, &format!("after a run to {next:?} was killed at commit {at}"));
                now = after;
            }
        }
    });
}

/// The commits at which a change between two states is interrupted: within nf_tables each of them. With iptables, where they
/// are many and differ in the table and the family alone, two, and others for each two states.
fn interrupted(is_within: bool, backend: BackendName, pair: usize, commits: usize) -> BTreeSet<usize> {
    match backend {
        BackendName::Nftables if is_within => (0..commits).collect(),
        _ => [pair % commits, (pair + commits / 2) % commits].into(),
    }
}

/// What a mesh's own program has set gives way as well, to the same mesh of ours and to each other one.
#[test]
fn from_what_other_programs_have_set() {
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
            // By this address upstream's proxy delivers.
            if old.mesh == new.mesh {
                scene.inside.ip("addr add ::6/128 dev lo nodad");
            }
        });
    }
}

/// Whoever captures is named, and nothing is touched, before a backend is chosen.
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

/// So does what upstream sets without iptables.
#[test]
fn from_upstreams_native_mode() {
    for backend in scope::of(vec![NATIVE, NFT, LEGACY], 1) {
        let new = State { backend, goal: Goal::PLAIN_REDIRECT };
        gives_way(new.goal, new, |scene| upstream::set_native(&scene.inside));
    }
}

fn gives_way(old: Goal, new: State, set: impl FnOnce(&Scene)) {
    let scene = Scene::new();
    set(&scene);
    scene.under_traffic(|| {
        // Made by another program, in whatever way, it is not the same state.
        let before = State { goal: old, backend: if new.backend == NATIVE { NFT } else { NATIVE } };
        scene.change(before, new, Disposition::Done);
        scene.holds(new, &fresh(new), &format!("from {old:?} of another program"));
    });
}
