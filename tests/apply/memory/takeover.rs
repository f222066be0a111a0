//! Takeover from a predecessor, whose rules have no owner, with failures at any step.

use super::{ADDRESS, Goal, NFT, V4_MARK, V4_ROUTE, V6_MARK, V6_ROUTE, all, holds, run, same, shared, steps};
use crate::support::{memory::Memory, scope};
use mesh::istio::OWNERSHIP;
use rules::{Family, ListedRule, State, Table, inheritance, parse, routing::Object, routing::RoutingEntry};
use sidecar_init::backend::{Backend, BackendName, Snapshot, UnlistableTable, Variant};

/// Upstream's rules with TPROXY, beside rules of other owners.
fn upstream(variant: Variant) -> Memory {
    let mut memory = shared();
    for (family, text) in [
        (Family::V4, include_str!("../../../rules/scenarios/tproxy-dual-stack/v4.rules")),
        (Family::V6, include_str!("../../../rules/scenarios/tproxy-dual-stack/v6.rules")),
    ] {
        let text = text.replace("-m comment --comment \"sidecar-init\" ", "");
        let rules = State::of(&parse::restore(&text, family).expect("rules of the catalogue"));
        let mut state = memory.snapshot.iptables(variant, family);
        for (table, chains) in rules.tables {
            for (chain, made) in chains {
                let held = state.tables.entry(table).or_default().entry(chain).or_default();
                held.extend(made);
            }
        }
        inheritance::mark_inherited(&mut state, &OWNERSHIP);
        memory.snapshot.set_iptables(variant, family, state);
    }
    let again = RoutingEntry { preference: 1, ..V4_MARK.into() };
    let objects = [V4_MARK, V4_ROUTE, V6_MARK, V6_ROUTE, ADDRESS].map(RoutingEntry::from);
    memory.snapshot.routes_of_others = objects.into_iter().chain([again]).collect();
    memory
}

/// True if the rules are equal and each routing object exists, under any owner.
fn has_the_same_capture(before: &Snapshot, after: &Snapshot) -> bool {
    let objects = |snapshot: &Snapshot| -> Vec<Object> {
        let all = [V4_MARK, V4_ROUTE, V6_MARK, V6_ROUTE, ADDRESS];
        all.into_iter().filter(|object| snapshot.has(object)).collect()
    };
    let without_routing = |snapshot: &Snapshot| {
        let mut snapshot = snapshot.clone();
        snapshot.routes.clear();
        snapshot.routes_of_others.clear();
        snapshot
    };
    objects(before) == objects(after) && same(&without_routing(before), &without_routing(after))
}

/// Each variant of upstream's rules with each goal and backend, or a sample.
fn ways() -> Vec<(Variant, Goal, BackendName)> {
    let all = Variant::ALL.into_iter().flat_map(|variant| {
        let wanted = all().into_iter().flat_map(|new| BackendName::ALL.map(|to| (new.clone(), to)));
        wanted.map(move |(new, to)| (variant, new, to))
    });
    scope::of(all.collect(), 5)
}

#[test]
fn upstream_rules_are_inherited() {
    let state = upstream(Variant::Nft).snapshot.iptables(Variant::Nft, Family::V4);
    let inherited = state.chains(Table::Mangle).flat_map(|(_, held)| held);
    assert_eq!(inherited.filter(|line| matches!(line, ListedRule::Inherited(_))).count(), 6);
}

#[test]
fn failure_at_any_step_keeps_upstream_capture() {
    for (variant, new, to) in ways() {
        let (memory, new) = (upstream(variant), &new);
        for step in 0..steps(&memory, new, to).len() {
            for tables in 0..=3 {
                let mut memory =
                    Memory { fails_after: Some(step), tables_before_fault: tables, ..memory.clone() };
                let before = memory.snapshot.clone();
                let printed = run(&mut memory, new, to).expect_err("it was asked to fail");
                assert!(printed.ends_with("rolled back"), "{printed}");
                assert!(has_the_same_capture(&before, &memory.snapshot), "{printed}\n{:#?}", memory.snapshot);
            }
        }
    }
}

#[test]
fn killed_takeover_is_finished_by_the_next() {
    for (variant, new, to) in ways() {
        let (memory, new) = (upstream(variant), &new);
        let steps = steps(&memory, new, to);
        for step in 0..=steps.len() {
            let mut memory = memory.clone();
            for done in &steps[..step] {
                memory.commit(done).expect("nothing breaks");
            }
            run(&mut memory, new, to).expect("nothing breaks");
            let done = holds(&memory.snapshot, new, to) && memory.snapshot.routes_of_others.is_empty();
            assert!(
                done,
                "{variant:?} {to}: killed before step {step} of {steps:#?}\n{:#?}",
                memory.snapshot
            );
        }
    }
}

/// Inherited tables can't be restored, so they are removed last.
#[test]
fn tables_of_the_native_mode_are_removed_last() {
    let mut memory = shared();
    memory.snapshot.tables_of_others = ["istio-proxy-nat".to_owned(), "istio-ambient-nat".to_owned()].into();
    let made = steps(&memory, &None, NFT);
    assert_eq!(
        made.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["removing the nf_tables tables istio-proxy-nat (inherited)"]
    );
    memory.snapshot.tables_of_others.remove("istio-ambient-nat");
    for (new, to) in all().iter().flat_map(|new| BackendName::ALL.map(|to| (new, to))) {
        let last = steps(&memory, new, to).last().map(ToString::to_string);
        assert!(last.is_some_and(|last| last.contains("istio-proxy-nat")), "{to}");
    }
    let listing =
        parse::listing("*filter\n:ISTIO_REDIRECT - [0:0]\nCOMMIT\n", Family::V4).expect("a listing");
    let table = UnlistableTable { program: String::new(), why: String::new(), listing };
    memory.snapshot.unlistable.insert((Family::V4, Table::Filter), table);
    let made = steps(&memory, &None, NFT).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(made.len() == 2 && made[1].contains("istio-proxy-nat"), "{made:?}");
    // The first removal is not reverted when the second step fails.
    for (done, end) in [
        (0, "rolled back"),
        (1, "from tables that iptables-nft can't show (IPv4 filter); run this again or clean"),
    ] {
        let mut memory = Memory { fails_after: Some(done), ..memory.clone() };
        let printed = run(&mut memory, &None, NFT).expect_err("the fault");
        assert!(printed.ends_with(end), "{printed}");
        assert_eq!(memory.snapshot.unlistable.len(), 1 - done);
    }
}
