//! The order of changes and their backend.

use super::{
    ADDRESS, Goal, LEGACY, NFT, V4_MARK, V4_ROUTE, holding, holds, redirect, run, shared, steps, transparent,
};
use mesh::istio::OWNERSHIP;
use rules::{Family, State, routing::RoutingEntry};
use sidecar_init::{
    backend::{BackendName, CommitStep, Variant},
    engine::{Choice, Preference},
};

#[test]
fn routes_are_added_before_their_rules_and_removed_after() {
    let tables = |step: &CommitStep| matches!(step, CommitStep::Iptables { .. });
    let made = steps(&shared(), &transparent(), NFT);
    assert_eq!(made.len(), 7);
    assert!(made[..5].iter().all(|step| matches!(step, CommitStep::Add(_))) && made[5..].iter().all(tables));
    let made = steps(&holding(&transparent(), NFT), &redirect(), NFT);
    let (rules, routes) = made.split_at(made.len() - 5);
    assert!(routes.iter().all(|step| matches!(step, CommitStep::Remove(_))));
    assert!(rules.iter().all(|step| tables(step) || *step == CommitStep::WaitForInFlight));
}

fn printed((old, from): (&Goal, BackendName), (new, to): (&Goal, BackendName)) -> Vec<String> {
    let made = steps(&holding(old, from), new, to);
    let rules = made.iter().filter(|step| !matches!(step, CommitStep::Add(_) | CommitStep::Remove(_)));
    rules.map(|step| step.to_string().replace("waiting for packets in flight", "wait")).collect()
}

#[test]
fn guard_exists_during_two_captures_and_is_removed_last() {
    let check = |from, to, expected: &[&str]| assert_eq!(printed(from, to), expected);
    let (redirect, transparent, native) = (&redirect(), &transparent(), BackendName::Nftables);
    check(
        (transparent, NFT),
        (redirect, NFT),
        &[
            "IPv4 rules (iptables-nft: nat)",
            "IPv6 rules (iptables-nft: mangle, nat)",
            "wait",
            "IPv4 rules (iptables-nft: mangle)",
            "wait",
            "IPv4 rules (iptables-nft: nat)",
        ],
    );
    check(
        (transparent, LEGACY),
        (transparent, NFT),
        &[
            "IPv4 rules (iptables-legacy: mangle)",
            "IPv6 rules (iptables-legacy: mangle)",
            "IPv4 rules (iptables-nft: mangle, nat)",
            "IPv6 rules (iptables-nft: mangle, nat)",
            "wait",
            "IPv4 rules (iptables-legacy: mangle, nat)",
            "IPv6 rules (iptables-legacy: mangle, nat)",
            "wait",
            "IPv4 rules (iptables-nft: mangle)",
            "IPv6 rules (iptables-nft: mangle)",
        ],
    );
    check(
        (redirect, native),
        (transparent, NFT),
        &[
            "replacing the nf_tables table sidecar_init",
            "IPv4 rules (iptables-nft: mangle, nat)",
            "IPv6 rules (iptables-nft: mangle, nat)",
            "wait",
            "removing the nf_tables table sidecar_init",
        ],
    );
    let [replace, wait] = ["replacing the nf_tables table sidecar_init", "wait"];
    check((redirect, native), (transparent, native), &[replace, replace, wait, replace]);
    check((transparent, native), (redirect, native), &[replace, wait, replace, wait, replace]);
    check(
        (redirect, LEGACY),
        (redirect, NFT),
        &["IPv4 rules (iptables-nft: nat)", "wait", "IPv4 rules (iptables-legacy: nat)"],
    );
    check((transparent, NFT), (transparent, NFT), &[]);
}

#[test]
fn objects_of_other_owners_are_neither_added_nor_removed() {
    let mut memory = shared();
    memory.snapshot.routes_of_others = [ADDRESS.into()].into();
    let made = run(&mut memory, &transparent(), NFT).expect("nothing breaks").steps;
    assert!(!made.contains(&CommitStep::Add(ADDRESS)), "{made:?}");
    let cleaned = run(&mut memory, &None, NFT).expect("nothing breaks");
    assert!(!cleaned.steps.contains(&CommitStep::Remove(ADDRESS)), "{cleaned:?}");
    assert_eq!(cleaned.left, [ADDRESS.to_string()]);
}

/// Policy rules may exist twice for a moment; a route changes its owner in place.
#[test]
fn routing_of_the_predecessor_is_adopted() {
    let theirs = [1, 2].map(|preference| RoutingEntry { preference, ..V4_MARK.into() });
    let mut memory = shared();
    memory.snapshot.routes_of_others = [V4_ROUTE.into(), theirs[0], theirs[1]].into();
    let made = run(&mut memory, &transparent(), NFT).expect("nothing breaks").steps;
    let at =
        |step: CommitStep| made.iter().position(|made| *made == step).unwrap_or_else(|| panic!("{made:?}"));
    assert!(at(CommitStep::Adopt(V4_ROUTE)) < at(CommitStep::Adopt(V4_MARK)));
    for theirs in theirs {
        assert!(at(CommitStep::Adopt(V4_MARK)) < at(CommitStep::RemoveInherited(theirs)));
    }
    assert!(holds(&memory.snapshot, &transparent(), NFT) && memory.snapshot.routes_of_others.is_empty());
    assert!(run(&mut memory, &transparent(), NFT).expect("nothing breaks").steps.is_empty());
}

#[test]
fn backend_is_forced_then_in_use_then_preferred() {
    use BackendName::Nftables;
    use Variant::{Legacy, Nft};
    let iptables = |variant| Choice::Iptables(variant);
    let (native, drop_in) = (Choice::InUse(Preference::Nftables), Choice::InUse(Preference::Iptables));
    for (choice, ours, foreign, programs, expected) in [
        (iptables(Some(Nft)), Some(LEGACY), true, &[Legacy][..], NFT),
        (iptables(Some(Legacy)), Some(NFT), false, &[Nft], LEGACY),
        (iptables(None), Some(NFT), true, &[Nft], NFT),
        (iptables(None), Some(LEGACY), true, &[Nft], LEGACY),
        (iptables(None), None, true, &[Nft], LEGACY),
        (iptables(None), None, false, &[Nft], NFT),
        (iptables(None), None, false, &[], LEGACY),
        (Choice::Nftables, Some(NFT), true, &[Nft], Nftables),
        (native, Some(LEGACY), true, &[Nft], LEGACY),
        (native, None, true, &[Nft], Nftables),
        (drop_in, None, true, &[Nft], LEGACY),
        (drop_in, None, false, &[Nft], NFT),
        (drop_in, None, true, &[], Nftables),
        (drop_in, Some(NFT), true, &[], NFT),
    ] {
        let mut memory = ours.map_or_else(shared, |ours| holding(&redirect(), ours));
        if !foreign && ours.is_none() {
            for variant in Variant::ALL {
                memory.snapshot.set_iptables(variant, Family::V4, State::default());
            }
        }
        memory.programs = programs.to_vec();
        let found = choice.backend(&memory, &memory.snapshot, &OWNERSHIP);
        assert_eq!(found, expected, "{choice:?} {ours:?} {foreign} {programs:?}");
    }
}
