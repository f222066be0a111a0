//! Something breaks, at every point where something can.

use super::{Goal, NFT, all, holding, holds, run, same, shared, steps, transparent};
use sidecar_init::backend::{Backend, BackendName, memory::Memory};

/// Calls `check` for every change from one thing wanted to another, from every backend to every other, and every point
/// of failure in it.
fn for_each_failure(mut check: impl FnMut(&Memory, &Goal, BackendName, usize, usize)) {
    for old in all() {
        for from in BackendName::ALL {
            let memory = holding(&old, from);
            for new in all() {
                for to in BackendName::ALL {
                    for step in 0..steps(&memory, &new, to).len() {
                        (0..=3).for_each(|tables| check(&memory, &new, to, step, tables));
                    }
                }
            }
        }
    }
}

#[test]
fn a_failure_anywhere_brings_the_old_state_back() {
    let mut failures = 0;
    for_each_failure(|memory, new, to, step, tables| {
        let mut memory = Memory { fails_after: Some(step), tables_before_fault: tables, ..memory.clone() };
        let before = memory.snapshot.clone();
        let printed = run(&mut memory, new, to).expect_err("it was asked to fail");
        assert!(printed.ends_with("the old state is back in place"), "{printed}");
        assert!(same(&memory.snapshot, &before), "{printed}\n{before:#?}\n{:#?}", memory.snapshot);
        failures += 1;
    });
    assert!(failures > 1_000, "{failures}");
}

#[test]
fn what_can_not_be_taken_back_is_told() {
    let mut left = 0;
    for_each_failure(|memory, new, to, step, tables| {
        let mut memory = broken(memory, step, tables);
        let before = memory.snapshot.clone();
        let printed = run(&mut memory, new, to).expect_err("it was asked to fail");
        match printed.split_once("left undone:") {
            Some((_, steps)) => {
                assert!(steps.lines().skip(1).count() > 0, "{printed}");
                assert!(steps.lines().skip(1).all(|step| step.contains("failed as asked")), "{printed}");
                left += 1;
            }
            None => assert!(same(&memory.snapshot, &before), "{printed}"),
        }
    });
    assert!(left > 500, "{left}");
}

/// From this step on, all fails.
fn broken(memory: &Memory, step: usize, tables: usize) -> Memory {
    let memory = memory.clone();
    Memory { fails_after: Some(step), tables_before_fault: tables, stays_broken: true, ..memory }
}

#[test]
fn the_steps_left_undone_are_named() {
    let printed = run(&mut broken(&shared(), 6, 0), &transparent(), NFT).expect_err("it was asked to fail");
    let expected = "IPv6 rules (iptables-nft: mangle, nat) failed; it could not be taken back in full, so run this \
                    again or clean; left undone:\n  IPv4 rules (iptables-nft: nat, mangle): ";
    assert!(printed.starts_with(expected), "{printed}");
    for object in
        ["address ::6/128 on lo", "policy rule fwmark 1337 lookup 133", "route -6 local default dev lo"]
    {
        assert!(printed.contains(&format!("\n  removing {object}")), "{printed}");
    }
}

#[test]
fn a_call_after_a_broken_one_mends_everything() {
    for_each_failure(|memory, new, to, step, tables| {
        let mut memory = broken(memory, step, tables);
        run(&mut memory, new, to).expect_err("it was asked to fail");
        memory.fails_after = None;
        run(&mut memory, new, to).expect("nothing breaks any more");
        assert!(holds(&memory.snapshot, new, to), "step {step}, {tables} tables");
    });
}

#[test]
fn a_killed_call_is_finished_by_the_next() {
    for_each_failure(|memory, new, to, step, _| {
        let mut memory = memory.clone();
        for done in &steps(&memory, new, to)[..step] {
            memory.commit(done).expect("nothing breaks");
        }
        run(&mut memory, new, to).expect("nothing breaks");
        assert!(holds(&memory.snapshot, new, to), "killed before step {step}");
    });
}
