//! Many runs at once, and the lock that iptables programs share, the file `/run/xtables.lock`. Tests hold it in a separate mount
//! namespace, so other programs do not wait.

use crate::support::mounts::in_mount_namespace;
use crate::support::program::{Outcome, Run, binary};
use std::fs::File;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nix::fcntl::{Flock, FlockArg};

use crate::apply::stage::{FULL, REDIRECT, VARIANTS, call};
use crate::support::namespace::{Namespace, run};
use crate::support::scope;
use crate::support::setting::Variant;

const AT_ONCE: usize = 8;

/// In CNI mode each namespace has its own lock. The machine's lock is held until all runs are done: a run that waited for it
/// would never end.
#[test]
fn namespaces_do_not_wait_for_each_other_in_cni_mode() {
    with_lock_held(|| {
        let namespaces: Vec<Namespace> = (0..scope::runs(100, 16)).map(|_| Namespace::new()).collect();
        let next = AtomicUsize::new(0);
        let apply = || {
            let mut failed = Vec::new();
            while let Some(namespace) = namespaces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let path = namespace.path();
                let cni = ["--cni-mode", "--network-namespace", &path];
                for command in ["apply", "diff"] {
                    let ended = binary(&[&call(command, Variant::Legacy, FULL)[..], &cni].concat()).outcome();
                    if ended.code != Some(0) {
                        failed.push(ended);
                    }
                }
            }
            failed
        };
        let failed: Vec<Outcome> = thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(apply)).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
        });
        assert!(failed.is_empty(), "{} failed: {:?}", failed.len(), failed.first());
    });
}

/// Outside CNI mode, runs wait up to `--lock-wait` for the shared lock and name its holder.
#[test]
fn the_holder_of_the_lock_is_named() {
    with_lock_held(|| {
        let namespace = Namespace::new();
        let path = namespace.path();
        // iptables programs read 0 as no limit.
        for seconds in ["1", "0"] {
            let flags = ["--lock-wait", seconds, "--network-namespace", &path];
            let arguments = call("apply", Variant::Legacy, &[REDIRECT, &flags].concat());
            let printed = binary(&arguments).outcome().with(1, "the lock is held").stderr;
            assert!(
                printed.contains(&format!("process {} holds the iptables lock", process::id())),
                "{printed}"
            );
        }
        // The nft variant takes no lock.
        let arguments = call("apply", Variant::Nft, &[REDIRECT, &["--network-namespace", &path]].concat());
        binary(&arguments).outcome().with(0, "the nft variant");
    });
}

/// Two runs with the same settings in one namespace, such as an init container and a CNI plugin.
#[test]
fn rivals_in_one_namespace_agree() {
    let mut wrong = Vec::new();
    for variant in VARIANTS {
        for round in 0..scope::runs(10, 3) {
            let namespace = Namespace::new();
            let arguments = call("apply", variant, FULL);
            let preceding_rules: Vec<Outcome> = thread::scope(|scope| {
                let preceding_rules: Vec<_> =
                    (0..3).map(|_| scope.spawn(|| run(&namespace, &arguments))).collect();
                preceding_rules.into_iter().map(|preceding| preceding.join().expect("a rival ends")).collect()
            });
            let failed = preceding_rules
                .iter()
                .filter(|preceding| preceding.code != Some(0))
                .map(|preceding| preceding.stderr.clone());
            wrong.extend(failed.map(|text| format!("{variant:?} {round}: {text}")));
            let checked = run(&namespace, &call("diff", variant, FULL));
            if checked.code != Some(0) {
                wrong.push(format!("{variant:?} {round}: all succeeded, but\n{}", checked.stdout));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn with_lock_held(work: impl FnOnce() + Send) {
    in_mount_namespace(|| {
        let file = File::create("/run/xtables.lock").expect("the lock's file");
        let _held = Flock::lock(file, FlockArg::LockExclusiveNonblock).expect("a free lock");
        work();
    });
}
