//! What is done where one mesh takes the place of another, step by step.

use crate::takeover::meshes::{Goal, captures, holding, options, replace, same};
use mesh::OWNERS;
use rules::Family;
use sidecar_init::{
    backend::{Backend, BackendName, CommitStep, Variant, memory::Memory},
    engine::{self, EngineError},
};

const NFT: BackendName = BackendName::Iptables(Variant::Nft);
const LEGACY: BackendName = BackendName::Iptables(Variant::Legacy);

/// Calls `check` for every change from one mesh to another, from every backend to every other.
fn for_each_change(mut check: impl FnMut(Memory, BackendName, Goal, BackendName)) {
    for (old, new) in Goal::pairs() {
        for (from, to) in BackendName::ALL.into_iter().flat_map(|a| BackendName::ALL.map(|b| (a, b))) {
            check(holding(old, from, new.owner().union(OWNERS)), from, new, to);
        }
    }
}

#[test]
fn nothing_is_set_beside_another_mesh() {
    for (old, new) in Goal::pairs() {
        for (from, to) in BackendName::ALL.into_iter().flat_map(|a| BackendName::ALL.map(|b| (a, b))) {
            let mut memory = holding(old, from, new.owner());
            let before = memory.snapshot.clone();
            let refused = engine::apply(&mut memory, &new.desired(new.owner()), &options(to));
            let Err(error @ EngineError::Captured { .. }) = &refused else {
                panic!("{old:?} {new:?}: {refused:?}")
            };
            let printed = error.to_string();
            let evidence = match from {
                BackendName::Iptables(variant) => format!(", {variant}, IPv4)"),
                BackendName::Nftables => format!("(table inet {} of nf_tables)", old.owner().table),
            };
            for word in [
                old.owner().name,
                new.owner().name,
                &evidence,
                &format!("sidecar-init clean --mesh {}", old.owner().mesh),
                "--replace",
                old.owner().opt_out,
            ] {
                assert!(printed.contains(word), "{word} is not in: {printed}");
            }
            assert!(same(&memory.snapshot, &before) && memory.committed.is_empty());
        }
    }
}

#[test]
fn nothing_of_the_other_is_left_and_strangers_stay() {
    for_each_change(|mut memory, _, new, to| {
        replace(&mut memory, new, to).expect("nothing breaks");
        let expected = holding(new, to, new.owner().union(OWNERS));
        assert!(
            same(&memory.snapshot, &expected.snapshot),
            "{new:?}\n{:#?}\n{:#?}",
            memory.snapshot,
            expected.snapshot
        );
        let again = replace(&mut memory, new, to).expect("nothing breaks");
        assert_eq!(again.steps, [], "{new:?} by {to}");
    });
}

#[test]
fn one_of_the_two_captures_at_every_moment() {
    for_each_change(|mut memory, _, new, to| {
        let steps = replace(&mut memory.clone(), new, to).expect("nothing breaks").steps;
        for step in steps {
            for family in Family::BOTH {
                assert!(captures(&memory.snapshot, family), "{new:?} by {to}, before {step}");
            }
            memory.commit(&step).expect("nothing breaks");
        }
        assert!(Family::BOTH.into_iter().all(|family| captures(&memory.snapshot, family)));
    });
}

/// The steps of a change of rules, in words.
fn printed(old: Goal, from: BackendName, new: Goal, to: BackendName) -> Vec<String> {
    let mut memory = holding(old, from, new.owner().union(OWNERS));
    let steps = replace(&mut memory, new, to).expect("nothing breaks").steps;
    let is_of_rules = |step: &&CommitStep| {
        matches!(
            step,
            CommitStep::Iptables { .. }
                | CommitStep::Nftables { .. }
                | CommitStep::Clear(_)
                | CommitStep::WaitForInFlight
        )
    };
    steps
        .iter()
        .filter(is_of_rules)
        .map(|step| step.to_string().replace("waiting for packets on their way", "wait"))
        .collect()
}

#[test]
fn it_is_one_step_where_the_kernel_can_do_it_in_one() {
    let check = |old, new, backend, expected: &[&str]| {
        assert_eq!(printed(old, backend, new, backend), expected, "{old:?} to {new:?}");
    };
    check(
        Goal::LINKERD,
        Goal::REDIRECT,
        BackendName::Nftables,
        &["replacing the nf_tables table sidecar_init_linkerd by sidecar_init"],
    );
    check(
        Goal::REDIRECT,
        Goal::AMBIENT,
        BackendName::Nftables,
        &["replacing the nf_tables table sidecar_init by sidecar_init_ambient"],
    );
    // A chain whose name both use changes hands within the table's commit.
    let tables =
        ["IPv4 rules (iptables-nft: mangle, nat, raw)", "IPv6 rules (iptables-nft: mangle, nat, raw)"];
    for (old, new) in [
        (Goal::LINKERD, Goal::AMBIENT),
        (Goal::AMBIENT, Goal::LINKERD),
        (Goal::REDIRECT, Goal::AMBIENT),
        (Goal::AMBIENT, Goal::KUMA),
    ] {
        check(old, new, NFT, &tables);
    }
}

#[test]
fn it_is_bridged_where_the_kernel_can_not() {
    let check = |(old, from), (new, to), expected: &[&str]| {
        assert_eq!(printed(old, from, new, to), expected, "{old:?} {from} to {new:?} {to}");
    };
    let native = BackendName::Nftables;
    check(
        (Goal::LINKERD, LEGACY),
        (Goal::AMBIENT, native),
        &[
            "creating the nf_tables table sidecar_init_ambient",
            "wait",
            "IPv4 rules (iptables-legacy: nat)",
            "IPv6 rules (iptables-legacy: nat)",
        ],
    );
    check(
        (Goal::LINKERD, native),
        (Goal::AMBIENT, LEGACY),
        &[
            "IPv4 rules (iptables-legacy: nat, mangle, raw)",
            "IPv6 rules (iptables-legacy: nat, mangle, raw)",
            "wait",
            "removing the nf_tables table sidecar_init_linkerd",
        ],
    );
    // TPROXY on one side: guards first, and both stand for a while.
    check(
        (Goal::LINKERD, native),
        (Goal::TRANSPARENT, native),
        &[
            "replacing the nf_tables table sidecar_init_linkerd",
            "creating the nf_tables table sidecar_init",
            "wait",
            "removing the nf_tables table sidecar_init_linkerd",
        ],
    );
    check(
        (Goal::TRANSPARENT, native),
        (Goal::LINKERD, native),
        &[
            "creating the nf_tables table sidecar_init_linkerd",
            "wait",
            "removing the nf_tables table sidecar_init",
            "wait",
            "replacing the nf_tables table sidecar_init_linkerd",
        ],
    );
}

#[test]
fn routing_that_both_want_stays_where_it_is() {
    let mut memory = holding(Goal::KUMA, NFT, Goal::REDIRECT.owner().union(OWNERS));
    let steps = replace(&mut memory, Goal::REDIRECT, NFT).expect("nothing breaks").steps;
    let routing: Vec<String> = steps
        .iter()
        .filter(|step| !matches!(step, CommitStep::Iptables { .. } | CommitStep::WaitForInFlight))
        .map(ToString::to_string)
        .collect();
    assert_eq!(routing, ["taking over address ::6/128 on lo"]);
}
