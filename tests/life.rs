//! Applying to a backend in memory that breaks wherever it is asked to: every call ends in the new state or
//! in the old one, or says what is left.

use policy::istio::OWNERSHIP;
use rules::{Chain, Family, Hook, Line, State, Table, Target, parse, routing::Object};
use sidecar_init::{
    backend::{Backend, Snapshot, Step, Variant, memory::Memory},
    operations::{Applied, Wanted, apply, choose},
};

const V4_MARK: Object = Object::Rule { family: Family::V4, mark: 1337, table: 133 };
const V4_ROUTE: Object = Object::Route { family: Family::V4, table: 133 };
const V6_MARK: Object = Object::Rule { family: Family::V6, mark: 1337, table: 133 };
const V6_ROUTE: Object = Object::Route { family: Family::V6, table: 133 };
const ADDRESS: Object = Object::Address(OWNERSHIP.address);

fn wanted(v4: &str, v6: Option<&str>, routes: &[Object]) -> Wanted {
    let state = |text, family| State::of(&parse::restore(text, family).expect("a text of the catalogue"));
    let v4 = [(Family::V4, state(v4, Family::V4))];
    let v6 = v6.map(|text| (Family::V6, state(text, Family::V6)));
    Wanted {
        owner: OWNERSHIP,
        tables: v4.into_iter().chain(v6).collect(),
        routes: routes.iter().copied().collect(),
        native: None,
    }
}

macro_rules! text {
    ($file:literal) => {
        include_str!(concat!("../rules/scenarios/", $file, ".rules"))
    };
}

fn redirect() -> Wanted {
    wanted(text!("istio-init-container/v4"), None, &[])
}

fn transparent() -> Wanted {
    let routes = [V4_MARK, V4_ROUTE, V6_MARK, V6_ROUTE, ADDRESS];
    wanted(text!("tproxy-dual-stack/v4"), Some(text!("tproxy-dual-stack/v6")), &routes)
}

fn dns() -> Wanted {
    wanted(text!("dns-both-families/v4"), Some(text!("dns-both-families/v6")), &[ADDRESS])
}

/// Everything that a pod may want, nothing included.
fn all() -> [Wanted; 4] {
    [Wanted::nothing(OWNERSHIP), redirect(), transparent(), dns()]
}

const STRANGERS: &str = "*nat
:PREROUTING ACCEPT [0:0]
:KUBE-HOSTPORTS - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-HOSTPORTS
-A KUBE-HOSTPORTS -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.9:80
COMMIT
";

/// Tables of both variants that hold rules of others.
fn shared() -> Memory {
    let strangers = parse::save(STRANGERS, Family::V4, &OWNERSHIP).expect("a listing");
    let tables = Variant::ALL.map(|variant| ((variant, Family::V4), strangers.clone()));
    Memory { snapshot: Snapshot { tables: tables.into(), ..Snapshot::default() }, ..Memory::default() }
}

/// A memory that holds this already.
fn holding(wanted: &Wanted, variant: Variant) -> Memory {
    let mut memory = shared();
    run(&mut memory, wanted, variant).expect("nothing breaks");
    memory.committed.clear();
    memory
}

fn run(memory: &mut Memory, wanted: &Wanted, variant: Variant) -> Result<Applied, String> {
    let before = memory.read().expect("memory can be read");
    apply(memory, &before, wanted, variant, false).map_err(|failure| failure.to_string())
}

/// Whether both hold the same rules, foreign ones included, and the same routes.
fn same(one: &Snapshot, other: &Snapshot) -> bool {
    let places = Variant::ALL.into_iter().flat_map(|variant| Family::BOTH.map(|family| (variant, family)));
    let tables = places.into_iter().all(|(variant, family)| {
        let (one, other) = (one.state(variant, family), other.state(variant, family));
        Table::ALL.into_iter().all(|table| one.same_table(&other, table))
    });
    tables && one.routes == other.routes && one.duplicates == other.duplicates
}

/// Whether it holds what is wanted in this variant, nothing of ours in the other, and all of others'.
fn holds(snapshot: &Snapshot, wanted: &Wanted, variant: Variant) -> bool {
    same(snapshot, &holding(wanted, variant).snapshot)
}

/// Calls `check` for every change from one thing wanted to another, and every point of failure in it.
fn for_each_failure(mut check: impl FnMut(&Wanted, &Memory, &Wanted, usize, usize)) {
    for old in all() {
        for variant in Variant::ALL {
            let memory = holding(&old, variant);
            for new in all() {
                let steps = run(&mut memory.clone(), &new, Variant::Nft).expect("nothing breaks").steps;
                for step in 0..steps.len() {
                    (0..=3).for_each(|tables| check(&old, &memory, &new, step, tables));
                }
            }
        }
    }
}

#[test]
fn a_second_call_finds_nothing_to_do() {
    for old in all() {
        for new in all() {
            for variant in Variant::ALL {
                let mut memory = holding(&old, Variant::Legacy);
                run(&mut memory, &new, variant).expect("nothing breaks");
                assert!(holds(&memory.snapshot, &new, variant));
                assert_eq!(run(&mut memory, &new, variant), Ok(Applied { steps: Vec::new() }));
            }
        }
    }
}

#[test]
fn what_is_in_place_is_made_anew_on_demand() {
    let mut memory = holding(&transparent(), Variant::Nft);
    let before = memory.snapshot.clone();
    let applied = apply(&mut memory, &before, &transparent(), Variant::Nft, true).expect("nothing breaks");
    assert_eq!(applied.steps.len(), 2, "both families");
    assert!(same(&memory.snapshot, &before));
}

#[test]
fn a_failure_anywhere_brings_the_old_state_back() {
    let mut failures = 0;
    for_each_failure(|_, memory, new, step, tables| {
        let mut memory = Memory { fails_after: Some(step), tables_before_fault: tables, ..memory.clone() };
        let before = memory.snapshot.clone();
        let told = run(&mut memory, new, Variant::Nft).expect_err("it was asked to fail");
        assert!(told.ends_with("the old state is back in place"), "{told}");
        assert!(same(&memory.snapshot, &before), "{told}\n{before:#?}\n{:#?}", memory.snapshot);
        failures += 1;
    });
    assert!(failures > 100, "{failures}");
}

#[test]
fn what_can_not_be_taken_back_is_told() {
    let mut left = 0;
    for_each_failure(|_, memory, new, step, tables| {
        let mut memory = Memory {
            fails_after: Some(step),
            tables_before_fault: tables,
            stays_broken: true,
            ..memory.clone()
        };
        let before = memory.snapshot.clone();
        let told = run(&mut memory, new, Variant::Nft).expect_err("it was asked to fail");
        match told.split_once("left undone:") {
            Some((_, steps)) => {
                assert!(steps.lines().skip(1).count() > 0, "{told}");
                assert!(steps.lines().skip(1).all(|step| step.contains("failed as asked")), "{told}");
                left += 1;
            }
            None => assert!(same(&memory.snapshot, &before), "{told}"),
        }
    });
    assert!(left > 50, "{left}");
}

#[test]
fn the_steps_left_undone_are_named() {
    let mut memory = Memory { fails_after: Some(6), stays_broken: true, ..shared() };
    let told = run(&mut memory, &transparent(), Variant::Nft).expect_err("it was asked to fail");
    let expected = "IPv6 rules (nft: mangle, nat) failed; it could not be taken back in full, so run this again \
                    or clean; left undone:\n  IPv4 rules (nft: nat, mangle): ";
    assert!(told.starts_with(expected), "{told}");
    for object in
        ["address ::6/128 on lo", "policy rule fwmark 1337 lookup 133", "route -6 local default dev lo"]
    {
        assert!(told.contains(&format!("\n  removing {object}")), "{told}");
    }
}

#[test]
fn a_call_after_a_broken_one_mends_everything() {
    for_each_failure(|_, memory, new, step, tables| {
        let mut memory = Memory {
            fails_after: Some(step),
            tables_before_fault: tables,
            stays_broken: true,
            ..memory.clone()
        };
        run(&mut memory, new, Variant::Nft).expect_err("it was asked to fail");
        memory.fails_after = None;
        run(&mut memory, new, Variant::Nft).expect("nothing breaks any more");
        assert!(holds(&memory.snapshot, new, Variant::Nft), "step {step}, {tables} tables");
    });
}

#[test]
fn a_killed_call_is_finished_by_the_next() {
    for_each_failure(|_, memory, new, step, _| {
        let steps = run(&mut memory.clone(), new, Variant::Nft).expect("nothing breaks").steps;
        let mut memory = memory.clone();
        for done in &steps[..step] {
            memory.commit(done).expect("nothing breaks");
        }
        run(&mut memory, new, Variant::Nft).expect("nothing breaks");
        assert!(holds(&memory.snapshot, new, Variant::Nft), "killed before step {step}");
    });
}

/// Whether a connection that the pod makes is redirected by one variant or the other.
fn captures_outbound(snapshot: &Snapshot) -> bool {
    let output = Chain::Base(Hook::Output);
    Variant::ALL.into_iter().any(|variant| {
        let state = snapshot.state(variant, Family::V4);
        let to = |line: &Line, to: &str| {
            matches!(line, Line::Typed(rule) if matches!(&rule.target, Target::Jump(name) if name.as_str() == to))
        };
        let inner: Chain = "ISTIO_OUTPUT".parse().expect("valid");
        state.lines(Table::Nat, &output).iter().any(|line| to(line, "ISTIO_OUTPUT"))
            && state.lines(Table::Nat, &inner).iter().any(|line| to(line, "ISTIO_REDIRECT"))
    })
}

#[test]
fn capture_has_no_gap_when_the_variant_changes() {
    for (from, to) in [(Variant::Legacy, Variant::Nft), (Variant::Nft, Variant::Legacy)] {
        let mut memory = holding(&redirect(), from);
        let steps = run(&mut memory.clone(), &redirect(), to).expect("nothing breaks").steps;
        assert_eq!(steps.len(), 2, "the new rules, then the old ones");
        for step in &steps {
            assert!(captures_outbound(&memory.snapshot), "before {step}");
            memory.commit(step).expect("nothing breaks");
        }
        assert!(captures_outbound(&memory.snapshot));
        assert!(!memory.snapshot.state(from, Family::V4).holds_any_of(&OWNERSHIP));
        assert!(memory.snapshot.state(from, Family::V4).holds_rules(), "rules of others stay");
    }
}

#[test]
fn routes_come_before_the_rules_that_need_them_and_go_after() {
    let tables = |step: &Step| matches!(step, Step::Tables { .. });
    let steps = run(&mut shared(), &transparent(), Variant::Nft).expect("nothing breaks").steps;
    assert_eq!(steps.len(), 7);
    assert!(steps[..5].iter().all(|step| matches!(step, Step::Add(_))) && steps[5..].iter().all(tables));
    let mut memory = holding(&transparent(), Variant::Nft);
    let steps = run(&mut memory, &redirect(), Variant::Nft).expect("nothing breaks").steps;
    assert_eq!(steps.len(), 7);
    assert!(steps[..2].iter().all(tables) && steps[2..].iter().all(|step| matches!(step, Step::Remove(_))));
}

#[test]
fn an_address_of_somebody_else_is_neither_added_nor_removed() {
    let mut memory = shared();
    memory.snapshot.foreign_address = true;
    let steps = run(&mut memory, &transparent(), Variant::Nft).expect("nothing breaks").steps;
    assert!(!steps.contains(&Step::Add(ADDRESS)));
    let steps = run(&mut memory, &Wanted::nothing(OWNERSHIP), Variant::Nft).expect("nothing breaks").steps;
    assert!(!steps.contains(&Step::Remove(ADDRESS)));
}

#[test]
fn copies_of_policy_rules_go() {
    let mut memory = holding(&transparent(), Variant::Nft);
    memory.snapshot.duplicates = vec![V4_MARK, V4_MARK];
    run(&mut memory, &transparent(), Variant::Nft).expect("nothing breaks");
    assert!(holds(&memory.snapshot, &transparent(), Variant::Nft));
}

#[test]
fn the_variant_follows_what_is_forced_then_in_use_then_there() {
    use Variant::{Legacy, Nft};
    for (forced, ours, legacy_in_use, nft_is_there, expected) in [
        (Some(Nft), Some(Legacy), true, false, Nft),
        (Some(Legacy), Some(Nft), false, true, Legacy),
        (None, Some(Nft), true, true, Nft),
        (None, Some(Legacy), true, true, Legacy),
        (None, None, true, true, Legacy),
        (None, None, false, true, Nft),
        (None, None, false, false, Legacy),
    ] {
        let mut snapshot = ours.map_or_else(|| shared().snapshot, |ours| holding(&redirect(), ours).snapshot);
        snapshot.legacy_in_use = legacy_in_use;
        assert_eq!(choose(&snapshot, &OWNERSHIP, forced, || nft_is_there), expected, "{forced:?} {ours:?}");
    }
}
