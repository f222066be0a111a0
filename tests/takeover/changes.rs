//! Every change between two goals, in memory: from and to an empty state, between captures of a mesh and between meshes, from
//! every backend to every other. Each reaches the goal, traffic is captured at every moment, and a failure at any step restores
//! the old state or reports the remaining changes.

use crate::support::{memory::Memory, scope};
use crate::takeover::memory::{captures, foreign_rules, holding, read_by, same};
use crate::takeover::meshes::{Goal, options};
use mesh::{Mesh, OWNERS};
use rules::{Family, Ownership};
use sidecar_init::{
    backend::{Backend, BackendName, CommitStep, Snapshot, Variant},
    engine::{self, EngineError, Summary},
};

const NFT: BackendName = BackendName::Iptables(Variant::Nft);

const IPV4: Goal = Goal {
    mesh: Mesh::Istio,
    words: &[("proxy-uid", "1337"), ("istio-inbound-ports", "*"), ("istio-service-cidr", "*")],
    addresses: "10.77.0.2",
};

/// An old and a new goal; `None` is an empty state.
#[derive(Clone, Copy, Debug)]
struct Change {
    old: Option<Goal>,
    from: BackendName,
    new: Option<Goal>,
    to: BackendName,
}

impl Change {
    fn all(sample: usize) -> Vec<Self> {
        let goals = || Goal::ALL.into_iter().chain([IPV4]).map(Some).chain([None]);
        let goals = goals().flat_map(|old| goals().map(move |new| (old, new)));
        let backends = BackendName::ALL.into_iter().flat_map(|from| BackendName::ALL.map(|to| (from, to)));
        let all =
            backends.flat_map(|(from, to)| goals.clone().map(move |(old, new)| Self { old, from, new, to }));
        scope::of(all.collect(), sample)
    }

    fn owner(self) -> Ownership {
        let mesh = self.new.or(self.old).map_or(Mesh::default(), |goal| goal.mesh);
        let is_of_one = self.old.is_none_or(|old| old.mesh == mesh);
        if is_of_one { mesh.ownership() } else { mesh.ownership().union(OWNERS) }
    }

    fn held(self, goal: Option<Goal>, backend: BackendName) -> Memory {
        match goal {
            Some(goal) => holding(goal, backend, self.owner()),
            None => {
                let memory = foreign_rules();
                let snapshot = read_by(self.owner(), &memory.snapshot, self.owner());
                Memory { snapshot, ..memory }
            }
        }
    }

    fn before(self) -> Memory {
        self.held(self.old, self.from)
    }

    fn after(self) -> Snapshot {
        self.held(self.new, self.to).snapshot
    }

    fn run(self, memory: &mut Memory) -> Result<Summary, String> {
        let owner = self.owner();
        let done = match self.new {
            Some(goal) => engine::apply(memory, &goal.desired(owner), &options(self.to)),
            None => engine::clean(memory, owner, OWNERS),
        };
        done.map_err(|error| error.to_string())
    }

    fn steps(self) -> Vec<CommitStep> {
        self.run(&mut self.before()).expect("nothing breaks").steps
    }

    fn families(self) -> Vec<Family> {
        let (before, after) = (self.before().snapshot, self.after());
        let both = |family: &Family| captures(&before, *family) && captures(&after, *family);
        Family::BOTH.into_iter().filter(both).collect()
    }
}

/// Calls `check` for each point of failure: a step, and the number of its tables that take effect.
fn for_each_failure(mut check: impl FnMut(Change, &[CommitStep], Memory)) {
    for change in Change::all(48) {
        let (steps, memory) = (change.steps(), change.before());
        for (at, step) in steps.iter().enumerate() {
            let tables = step.changes().iter().map(|(.., changes)| changes.len()).sum();
            for tables in 0..=tables {
                let memory = Memory { fails_after: Some(at), tables_before_fault: tables, ..memory.clone() };
                check(change, &steps[..at], memory);
            }
        }
    }
}

#[track_caller]
fn assert_captured(change: Change, families: &[Family], memory: &Memory, when: &str) {
    for family in families {
        assert!(captures(&memory.snapshot, *family), "{change:?}, {when}: {family:?} is not captured");
    }
}

#[track_caller]
fn assert_same(change: Change, found: &Snapshot, expected: &Snapshot, when: &str) {
    assert!(same(found, expected), "{change:?}, {when}\n{found:#?}\n{expected:#?}");
}

#[test]
fn change_captures_at_every_moment_and_is_idempotent() {
    for change in Change::all(144) {
        let (mut memory, families) = (change.before(), change.families());
        for step in change.steps() {
            assert_captured(change, &families, &memory, &format!("before {step}"));
            memory.commit(&step).expect("nothing breaks");
        }
        assert_same(change, &memory.snapshot, &change.after(), "step by step");
        let mut memory = change.before();
        change.run(&mut memory).expect("nothing breaks");
        assert_same(change, &memory.snapshot, &change.after(), "at once");
        assert_eq!(change.run(&mut memory).expect("nothing breaks").steps, [], "{change:?}");
    }
}

#[test]
fn failure_at_any_step_restores_the_old_state() {
    let mut failures = 0;
    for_each_failure(|change, _, mut memory| {
        let before = memory.snapshot.clone();
        let printed = change.run(&mut memory).expect_err("the fault");
        assert!(printed.ends_with("rolled back"), "{change:?}: {printed}");
        assert_same(change, &memory.snapshot, &before, &printed);
        failures += 1;
    });
    assert!(failures > 200, "{failures}");
}

/// If reverting fails too, the error lists the remaining changes, and the next call repairs the state.
#[test]
fn unreverted_steps_are_reported_and_repaired() {
    let mut left = 0;
    for_each_failure(|change, _, memory| {
        let before = memory.snapshot.clone();
        let mut memory = Memory { stays_broken: true, ..memory };
        let printed = change.run(&mut memory).expect_err("the fault");
        match printed.split_once("not undone:") {
            Some((_, steps)) => {
                assert!(steps.lines().skip(1).count() > 0, "{change:?}: {printed}");
                let is_asked = |step: &str| step.contains("failed as asked");
                assert!(steps.lines().skip(1).all(is_asked), "{change:?}: {printed}");
                left += 1;
            }
            None => assert_same(change, &memory.snapshot, &before, &printed),
        }
        // A program's partial work before the total failure may leave no capture.
        if memory.tables_before_fault == 0 {
            assert_captured(change, &change.families(), &memory, &printed);
        }
        memory.fails_after = None;
        change.run(&mut memory).expect("nothing breaks");
        assert_same(change, &memory.snapshot, &change.after(), &printed);
    });
    assert!(left > 100, "{left}");
}

#[test]
fn a_killed_change_captures_and_is_finished_by_the_next() {
    for_each_failure(|change, done, memory| {
        let mut memory = Memory { fails_after: None, ..memory };
        for step in done {
            memory.commit(step).expect("nothing breaks");
        }
        let when = format!("killed after {} steps", done.len());
        assert_captured(change, &change.families(), &memory, &when);
        change.run(&mut memory).expect("nothing breaks");
        assert_same(change, &memory.snapshot, &change.after(), &when);
    });
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

fn printed(old: Goal, from: BackendName, new: Goal, to: BackendName) -> Vec<String> {
    let steps = Change { old: Some(old), from, new: Some(new), to }.steps();
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
        .map(|step| step.to_string().replace("waiting for packets in flight", "wait"))
        .collect()
}

#[test]
fn change_is_one_step_where_the_kernel_allows_it() {
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
    // A chain whose name both use changes its owner within the table's commit.
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
