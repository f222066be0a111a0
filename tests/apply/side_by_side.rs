//! The engine on a node: one process handles several network namespaces in parallel, without moving the caller's threads.

use crate::support::engine::kernel;
use crate::support::namespace::Namespace;
use crate::takeover::meshes::options;
use crate::takeover::states::{State, states};
use sidecar_init::engine;
use sidecar_init::sys::namespace::within;
use std::{fs, path::Path, thread};

fn here() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/thread-self/ns/net").expect("the thread's own namespace").ino()
}

fn holds(namespace: &Namespace, State { goal, backend }: State) -> bool {
    let owner = goal.owner();
    let check = || {
        engine::check(&mut kernel(owner), &goal.desired(owner), options(backend).choice).expect("readable")
    };
    within(Path::new(&namespace.path()), check).expect("the namespace can be entered").differences.is_empty()
}

#[test]
fn namespaces_are_changed_side_by_side_and_no_thread_moves() {
    let jobs: Vec<(Namespace, State)> = states().into_iter().map(|state| (Namespace::new(), state)).collect();
    thread::scope(|scope| {
        for (namespace, state) in &jobs {
            scope.spawn(move || {
                let (before, owner) = (here(), state.goal.owner());
                let options = options(state.backend);
                for steps_expected in [true, false] {
                    let desired = state.goal.desired(owner);
                    let apply = || engine::apply(&mut kernel(owner), &desired, &options).expect("applied");
                    let summary =
                        within(Path::new(&namespace.path()), apply).expect("the namespace can be entered");
                    assert_eq!(summary.backend, Some(state.backend));
                    assert_eq!(!summary.steps.is_empty(), steps_expected, "{state:?}: {:?}", summary.steps);
                }
                assert_eq!(here(), before, "the thread has moved");
            });
        }
    });
    for (index, (namespace, state)) in jobs.iter().enumerate() {
        let (_, other) = jobs[(index + 1) % jobs.len()];
        assert!(holds(namespace, *state), "{state:?}");
        assert!(!holds(namespace, other), "{state:?}: rules of its neighbour");
        let owner = state.goal.owner();
        let clean = || engine::clean(&mut kernel(owner), owner, &[]).expect("cleaned");
        let summary = within(Path::new(&namespace.path()), clean).expect("the namespace can be entered");
        assert!(!summary.steps.is_empty() && !holds(namespace, *state), "{state:?}");
    }
}

#[test]
fn panic_within_a_namespace_propagates() {
    let namespace = Namespace::new();
    let before = here();
    let caught = std::panic::catch_unwind(|| within(Path::new(&namespace.path()), || panic!("inside")));
    assert!(caught.is_err());
    assert_eq!(here(), before);
    assert!(within(Path::new("/proc/self/status"), || ()).is_err(), "not a namespace");
}
