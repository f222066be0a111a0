//! Something breaks while one mesh takes the place of another, at every point where something can.

use crate::meshes::{ALL, Goal, captures, holding, replace, same};
use rules::Family;
use sidecar_init::backend::{Backend, BackendName, memory::Memory};

/// Calls `check` for every change from one mesh to another, from every backend to every other, and every step of it.
fn for_each_step(mut check: impl FnMut(&Memory, Goal, BackendName, usize)) {
    for (old, new) in Goal::pairs() {
        for (from, to) in BackendName::ALL.into_iter().flat_map(|a| BackendName::ALL.map(|b| (a, b))) {
            let memory = holding(old, from, new.owner().joined_with(ALL));
            let steps = replace(&mut memory.clone(), new, to).expect("nothing breaks").steps.len();
            (0..steps).for_each(|step| check(&memory, new, to, step));
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
    for_each_step(|memory, new, to, step| {
        for tables in 0..=2 {
            let mut memory =
                Memory { fails_after: Some(step), tables_before_fault: tables, ..memory.clone() };
            let before = memory.snapshot.clone();
            let told = replace(&mut memory, new, to).expect_err("it was asked to fail");
            assert!(told.ends_with("the old state is back in place"), "{told}");
            assert!(is_captured(&memory), "{told}");
            // Routing that has changed hands by then serves as before.
            let mut after = memory.snapshot.clone();
            after.routes.clone_from(&before.routes);
            after.routes_of_others.clone_from(&before.routes_of_others);
            assert!(same(&after, &before), "{told}\n{before:#?}\n{:#?}", memory.snapshot);
            let object = |snapshot: &sidecar_init::backend::Snapshot| {
                let others = snapshot.routes_of_others.iter().map(|standing| standing.object);
                others.chain(snapshot.routes.iter().copied()).collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(object(&memory.snapshot), object(&before), "{told}");
            failures += 1;
        }
    });
    assert!(failures > 300, "{failures}");
}

#[test]
fn a_killed_change_captures_and_is_finished_by_the_next() {
    for_each_step(|memory, new, to, step| {
        let mut memory = memory.clone();
        let steps = replace(&mut memory.clone(), new, to).expect("nothing breaks").steps;
        for done in &steps[..step] {
            memory.commit(done).expect("nothing breaks");
        }
        assert!(is_captured(&memory), "killed before step {step}");
        replace(&mut memory, new, to).expect("nothing breaks");
        let expected = holding(new, to, new.owner().joined_with(ALL));
        assert!(
            same(&memory.snapshot, &expected.snapshot),
            "killed before step {step}: {steps:#?}\n{:#?}",
            memory.snapshot
        );
    });
}

#[test]
fn a_call_after_a_broken_one_mends_everything() {
    for_each_step(|memory, new, to, step| {
        let mut memory = Memory { fails_after: Some(step), stays_broken: true, ..memory.clone() };
        replace(&mut memory, new, to).expect_err("it was asked to fail");
        assert!(is_captured(&memory), "broken at step {step}");
        memory.fails_after = None;
        replace(&mut memory, new, to).expect("nothing breaks any more");
        let expected = holding(new, to, new.owner().joined_with(ALL));
        assert!(same(&memory.snapshot, &expected.snapshot), "broken at step {step}");
    });
}
