//! Results of verbs when no step fails.

use super::{LEGACY, NFT, all, dns, holding, holds, options, redirect, run, same, shared, transparent};
use crate::support::memory::Memory;
use mesh::istio::OWNERSHIP;
use rules::{Family, Zone, desired::Desired, desired::StaleFlows};
use sidecar_init::{
    backend::{BackendName, Variant},
    engine::{self, Choice, OnDrift, Options, Preference},
};

#[test]
fn force_sets_existing_rules_again() {
    let desired = transparent().expect("something");
    for (backend, expected) in [(NFT, 2), (LEGACY, 2), (BackendName::Nftables, 1)] {
        let mut memory = holding(&transparent(), backend);
        let before = memory.snapshot.clone();
        let options = Options { force: true, ..options(backend) };
        let summary = engine::apply(&mut memory, &desired, &options).expect("nothing breaks");
        assert_eq!(summary.steps.len(), expected, "{backend}");
        assert!(same(&memory.snapshot, &before));
    }
}

#[test]
fn concurrent_change_is_retried() {
    for (conflicts, works) in [(1, true), (4, true), (5, false)] {
        let mut memory = Memory { conflicts, ..shared() };
        let done = run(&mut memory, &redirect(), NFT);
        assert_eq!(done.is_ok(), works, "{conflicts}: {done:?}");
        assert_eq!(holds(&memory.snapshot, &redirect(), NFT), works);
    }
}

#[test]
fn drift_is_refused_on_request() {
    let desired = redirect().expect("something");
    for backend in BackendName::ALL {
        let refuse = Options { on_drift: OnDrift::Refuse, ..options(backend) };
        let mut memory = holding(&dns(), backend);
        let before = memory.snapshot.clone();
        let refused = engine::apply(&mut memory, &desired, &refuse);
        assert!(matches!(refused, Err(engine::EngineError::Drift(_))), "{refused:?}");
        assert!(same(&memory.snapshot, &before) && memory.committed.is_empty());
        engine::apply(&mut shared(), &desired, &refuse).expect("no rules exist");
        engine::apply(&mut holding(&redirect(), backend), &desired, &refuse).expect("the rules are in place");
    }
}

#[test]
fn stale_flows_are_forgotten_after_the_rules_are_set() {
    let stale = StaleFlows {
        port: 53,
        destinations: None,
        except_zone: Zone::new(1).expect("not 0"),
        families: vec![Family::V4],
    };
    let desired = Desired { stale_flows: Some(stale), ..redirect().expect("something") };
    let mut memory = Memory { stale_flows: 3, ..shared() };
    let summary = engine::apply(&mut memory, &desired, &options(NFT)).expect("nothing breaks");
    assert_eq!((summary.forgotten_flows, summary.backend), (3, Some(NFT)));
}

#[test]
fn plan_changes_nothing_and_matches_apply() {
    for goal in all().into_iter().flatten() {
        let mut memory = holding(&dns(), LEGACY);
        let before = memory.snapshot.clone();
        let plan = engine::plan(&mut memory, &goal, &options(NFT)).expect("nothing breaks");
        assert!(memory.snapshot == before && memory.committed.is_empty());
        let summary = engine::apply(&mut memory, &goal, &options(NFT)).expect("nothing breaks");
        assert_eq!(plan.steps, summary.steps);
    }
}

#[test]
fn clean_refuses_unreadable_tables() {
    let mut memory = holding(&redirect(), NFT);
    memory.snapshot.unreadable.push((Variant::Legacy, Family::V4));
    assert!(matches!(engine::clean(&mut memory, OWNERSHIP, &[]), Err(engine::EngineError::Unreadable)));
    assert_eq!(memory.committed, []);
}

/// The drop-in prefers iptables, other commands nf_tables; if the kernel has only one, both use it.
#[test]
fn a_kernel_without_nf_tables_gets_rules_of_iptables_legacy() {
    for preference in [Preference::Nftables, Preference::Iptables] {
        let mut memory = Memory { programs: Variant::ALL.to_vec(), ..Memory::default() };
        memory.snapshot.lacks_nftables = true;
        let choice = Choice::InUse(preference);
        let chosen = choice.backend(&memory, &memory.snapshot, &OWNERSHIP);
        assert_eq!(chosen, LEGACY, "{preference:?}");
        memory.snapshot.lacks_nftables = false;
        assert_ne!(choice.backend(&memory, &memory.snapshot, &OWNERSHIP), LEGACY, "{preference:?}");
    }
}

#[test]
fn preferred_legacy_is_taken_if_available_and_no_other_is_in_use() {
    let choice = Choice::InUse(Preference::Legacy);
    for (programs, expected) in
        [(&Variant::ALL[..], LEGACY), (&[Variant::Nft], NFT), (&[], BackendName::Nftables)]
    {
        let memory = Memory { programs: programs.to_vec(), ..Memory::default() };
        assert_eq!(choice.backend(&memory, &memory.snapshot, &OWNERSHIP), expected, "{programs:?}");
    }
    let memory = holding(&redirect(), NFT);
    assert_eq!(choice.backend(&memory, &memory.snapshot, &OWNERSHIP), NFT);
}

#[test]
fn the_steps_left_undone_are_named() {
    let mut broken = Memory { fails_after: Some(6), stays_broken: true, ..shared() };
    let printed = run(&mut broken, &transparent(), NFT).expect_err("the fault");
    let expected = "IPv6 rules (iptables-nft: mangle, nat) failed; rollback failed; run this \
                    again or clean; not undone:\n  IPv4 rules (iptables-nft: nat, mangle): ";
    assert!(printed.starts_with(expected), "{printed}");
    for object in
        ["address ::6/128 on lo", "policy rule fwmark 1337 lookup 133", "route -6 local default dev lo"]
    {
        assert!(printed.contains(&format!("\n  removing {object}")), "{printed}");
    }
}
