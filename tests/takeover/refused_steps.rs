//! Something breaks while one mesh takes the place of another, at every point where something can.

use crate::support::scope;
use crate::takeover::meshes::{Goal, captures, holding, replace, same};
use mesh::OWNERS;
use rules::Family;
use sidecar_init::backend::{Backend, BackendName, CommitStep, Snapshot, memory::Memory};

/// A change that is broken off.
struct Broken<'a> {
    /// Before it.
    memory: &'a Memory,
    new: Goal,
    to: BackendName,
    /// Where nothing breaks.
    steps: &'a [CommitStep],
    /// The step at which it breaks.
    at: usize,
    /// What is wanted.
    expected: &'a Snapshot,
}

/// Calls `check` for every change from one mesh to another, from every backend to every other, and every step of it.
fn for_each_step(mut check: impl FnMut(&Broken<'_>)) {
    let all = Goal::ALL.into_iter().flat_map(|new| BackendName::ALL.map(|to| (new, to))).collect();
    for (new, to) in scope::of(all, 4) {
        let joined = new.owner().union(OWNERS);
        let expected = holding(new, to, joined).snapshot;
        for (old, _) in Goal::pairs().filter(|(_, one)| *one == new) {
            for from in BackendName::ALL {
                let memory = holding(old, from, joined);
                let steps = replace(&mut memory.clone(), new, to).expect("nothing breaks").steps;
                for at in 0..steps.len() {
                    check(&Broken { memory: &memory, new, to, steps: &steps, at, expected: &expected });
                }
            }
        }
    }
}

/// Whether anything is captured past both meshes.
fn is_captured(memory: &Memory) -> bool {
    Family::BOTH.into_iter().all(|family| captures(&memory.snapshot, family))
}

#[test]
fn a_failure_anywhere_leaves_the_capture_of_before() {
    let mut failures = 0;
    for_each_step(|&Broken { memory, new, to, steps, at, .. }| {
        let tables = steps[at].changes().iter().map(|(.., changes)| changes.len()).sum();
        for tables in 0..=tables {
            let mut memory = Memory { fails_after: Some(at), tables_before_fault: tables, ..memory.clone() };
            let before = memory.snapshot.clone();
            let printed = replace(&mut memory, new, to).expect_err("it was asked to fail");
            assert!(printed.ends_with("the old state is back in place"), "{printed}");
            assert!(is_captured(&memory), "{printed}");
            assert!(same(&memory.snapshot, &before), "{printed}\n{before:#?}\n{:#?}", memory.snapshot);
            failures += 1;
        }
    });
    assert!(failures > 80, "{failures}");
}

#[test]
fn a_killed_change_captures_and_is_finished_by_the_next() {
    for_each_step(|&Broken { memory, new, to, steps, at, expected }| {
        let mut memory = memory.clone();
        for done in &steps[..at] {
            memory.commit(done).expect("nothing breaks");
        }
        assert!(is_captured(&memory), "killed before step {at}");
        replace(&mut memory, new, to).expect("nothing breaks");
        assert!(
            same(&memory.snapshot, expected),
            "killed before step {at}: {steps:#?}\n{:#?}",
            memory.snapshot
        );
    });
}

#[test]
fn a_call_after_a_broken_one_mends_everything() {
    for_each_step(|&Broken { memory, new, to, at, expected, .. }| {
        let mut memory = Memory { fails_after: Some(at), stays_broken: true, ..memory.clone() };
        replace(&mut memory, new, to).expect_err("it was asked to fail");
        assert!(is_captured(&memory), "broken at step {at}");
        memory.fails_after = None;
        replace(&mut memory, new, to).expect("nothing breaks any more");
        assert!(same(&memory.snapshot, expected), "broken at step {at}");
    });
}
