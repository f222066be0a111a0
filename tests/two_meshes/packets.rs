//! With the kernel: rules of one mesh, set by a program that is none of ours or by us, and another mesh that is asked for.

use crate::meshes::{ALL, Goal, options};
use crate::support::address::Place;
use crate::support::namespace::Namespace;
use crate::support::pod::{APP, Answerer, Pod};
use crate::support::setting::{self, Mode, Setting};
use crate::support::traffic::{Call, Protocol};
use rules::{Family, Ownership};
use sidecar_init::{
    backend::{BackendName, Kernel, Variant, iptables::Lock},
    engine::{self, Error, Options},
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Who has set what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Somebody with `iptables-restore`.
    Program(Variant),
    Us(BackendName),
}

const NFT: BackendName = BackendName::Iptables(Variant::Nft);
const LEGACY: BackendName = BackendName::Iptables(Variant::Legacy);
const NATIVE: BackendName = BackendName::Nftables;

/// Every way to hold rules.
const WAYS: [By; 5] =
    [By::Program(Variant::Legacy), By::Program(Variant::Nft), By::Us(LEGACY), By::Us(NFT), By::Us(NATIVE)];

fn kernel(owner: Ownership) -> Kernel {
    Kernel::open(Lock { wait: 60, ..Lock::default() }, owner).expect("a namespace that can be changed")
}

/// Sets what a mesh wants, whatever else is there.
fn set(namespace: &Namespace, goal: Goal, by: By) {
    match by {
        By::Program(variant) => {
            for (family, of) in Family::BOTH.into_iter().zip(setting::Family::BOTH) {
                let variant = match variant {
                    Variant::Legacy => setting::Variant::Legacy,
                    Variant::Nft => setting::Variant::Nft,
                };
                let words: &[&str] = if variant == setting::Variant::Legacy {
                    &["--noflush", "--wait=60"]
                } else {
                    &["--noflush"]
                };
                let output = namespace.output(&variant.program(of, "-restore"), words, &goal.text(family));
                assert!(output.status.success(), "{goal:?} {by:?}: {output:?}");
            }
        }
        By::Us(backend) => {
            let alone = Options { others: &[], ..options(backend) };
            let desired = goal.desired(goal.owner());
            namespace
                .run(|| engine::apply(&mut kernel(goal.owner()), &desired, &alone))
                .unwrap_or_else(|error| panic!("{goal:?} {by:?}: {error}"));
        }
    }
}

fn replace(namespace: &Namespace, goal: Goal, backend: BackendName) {
    let owner = goal.owner().joined_with(ALL);
    let done = namespace.run(|| {
        engine::apply(&mut kernel(owner), &goal.desired(owner), &options(backend)).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error}: {cause:?}")
        })
    });
    done.unwrap_or_else(|error| panic!("{goal:?} by {backend}: {error}"));
}

/// All rules and all routing of a namespace, without what they have counted.
fn everything(namespace: &Namespace) -> String {
    let mut text = String::new();
    for program in ["iptables-legacy-save", "ip6tables-legacy-save"] {
        let saved = namespace.stdout(program, &[]);
        let lines = saved.lines().filter(|line| !line.starts_with('#'));
        // Tables without rules are there or not, as it happens.
        let lines = lines.filter(|line| line.starts_with("-A") || line.contains(" - ["));
        text.extend(lines.map(|line| line.split(" [").next().unwrap_or(line).to_owned() + "\n"));
    }
    text += &namespace.stdout("nft", &["-s", "list", "ruleset"]);
    for words in [["-4", "rule"], ["-6", "rule"]] {
        text += &namespace.stdout("ip", &[words[0], words[1], "list"]);
    }
    text + &namespace.stdout("ip", &["-6", "addr", "show", "dev", "lo"])
}

#[test]
fn whoever_captures_is_named_and_nothing_is_touched() {
    for (old, new) in Goal::pairs() {
        for by in WAYS {
            let namespace = Namespace::new();
            set(&namespace, old, by);
            let before = everything(&namespace);
            for to in BackendName::ALL {
                let refused = namespace.run(|| {
                    let mut kernel = kernel(new.owner());
                    engine::apply(&mut kernel, &new.desired(new.owner()), &options(to))
                });
                let told = match refused {
                    Err(error @ Error::Captured { .. }) => error.to_string(),
                    other => panic!("{old:?} {by:?}, {new:?} {to}: {other:?}"),
                };
                let is_named = told.contains(old.owner().name) && told.contains(new.owner().name);
                assert!(is_named, "{told}");
            }
            assert_eq!(everything(&namespace), before, "{old:?} {by:?}, {new:?}");
        }
    }
}

#[test]
fn one_takes_the_place_of_the_other_and_nothing_is_left_of_it() {
    for (old, new) in Goal::pairs() {
        for by in WAYS {
            for to in [LEGACY, NFT, NATIVE] {
                let (namespace, fresh) = (Namespace::new(), Namespace::new());
                set(&namespace, old, by);
                replace(&namespace, new, to);
                set(&fresh, new, By::Us(to));
                let (found, wanted) = (everything(&namespace), everything(&fresh));
                assert_eq!(said(&found), said(&wanted), "{old:?} {by:?}, {new:?} {to}");
            }
        }
    }
}

/// What lines say of rules and routing. Which tables and base chains of iptables stand, and in which order, is no rule of
/// anybody's; neither is the place that the kernel gives to a policy rule.
fn said(text: &str) -> Vec<String> {
    let says = |line: &&str| {
        let frames = line.is_empty() || line.contains("hook ") || line.ends_with('{') || *line == "}";
        !frames && !line.starts_with("# Warning")
    };
    let unplaced = |line: &str| match line.split_once(':') {
        Some((place, rule)) if place.parse::<u32>().is_ok() => rule.to_owned(),
        _ => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().map(str::trim).filter(says).map(unplaced).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn cleaning_one_leaves_the_other() {
    for (one, other) in
        [(Goal::Redirect, Goal::Other), (Goal::Other, Goal::Redirect), (Goal::Namesake, Goal::Other)]
    {
        for (by, beside) in [
            (By::Us(NFT), By::Program(Variant::Nft)),
            (By::Us(NATIVE), By::Us(NFT)),
            (By::Us(LEGACY), By::Us(NATIVE)),
            (By::Us(NATIVE), By::Us(NATIVE)),
        ] {
            let (namespace, fresh) = (Namespace::new(), Namespace::new());
            set(&fresh, other, beside);
            set(&namespace, other, beside);
            set(&namespace, one, by);
            namespace
                .run(|| engine::clean(&mut kernel(one.owner()), one.owner(), ALL))
                .expect("it is removed");
            let (found, wanted) = (everything(&namespace), everything(&fresh));
            assert_eq!(said(&found), said(&wanted), "{one:?} {by:?} beside {other:?} {beside:?}");
        }
    }
}

#[test]
fn cleaning_without_a_name_removes_all() {
    for (one, other) in [(Goal::Redirect, Goal::Other), (Goal::Namesake, Goal::Other)] {
        for (by, beside) in
            [(By::Us(NFT), By::Us(NFT)), (By::Us(NATIVE), By::Us(NATIVE)), (By::Us(LEGACY), By::Us(NATIVE))]
        {
            let namespace = Namespace::new();
            let before = everything(&namespace);
            set(&namespace, one, by);
            set(&namespace, other, beside);
            let owner = one.owner().joined_with(ALL);
            namespace.run(|| engine::clean(&mut kernel(owner), owner, ALL)).expect("all is removed");
            assert_eq!(everything(&namespace), before, "{one:?} {by:?} beside {other:?} {beside:?}");
        }
    }
}

#[test]
fn no_connection_passes_both_within_iptables() {
    under_traffic(By::Program(Variant::Nft), &[NFT; 6]);
    under_traffic(By::Program(Variant::Legacy), &[LEGACY; 6]);
}

#[test]
fn no_connection_passes_both_within_nf_tables() {
    under_traffic(By::Us(NATIVE), &[NATIVE; 8]);
}

#[test]
fn no_connection_passes_both_where_the_backend_changes_too() {
    under_traffic(By::Program(Variant::Nft), &[NATIVE, NFT, NATIVE, LEGACY, NATIVE, NFT]);
}

/// Meshes in the order in which they take each other's place, round and round.
const ROUND: [Goal; 6] =
    [Goal::Other, Goal::Redirect, Goal::Namesake, Goal::Transparent, Goal::Other, Goal::Transparent];

/// Connects without pause while one mesh takes the place of another by these backends.
fn under_traffic(first: By, changes: &[BackendName]) {
    for family in setting::Family::BOTH {
        // The proxy's listener for inbound traffic is transparent throughout.
        let pod = Pod::new(Setting { variant: setting::Variant::Nft, family, mode: Mode::Tproxy });
        pod.outside.set("ipv4/ip_local_port_range", "20000 20063");
        pod.outside.set("ipv4/tcp_max_tw_buckets", "0");
        pod.listen(Protocol::Tcp, Place::Service, 9080);
        pod.listen(Protocol::Tcp, Place::Pod, 8080);
        set(&pod.inside, ROUND[0], first);
        let calls =
            [(&pod.inside, Place::Service.at(family, 9080)), (&pod.outside, Place::Pod.at(family, 8080))];
        let (placed, failed, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicBool::new(false));
        let wait = || {
            let target = placed.load(Ordering::Relaxed) + 10;
            while placed.load(Ordering::Relaxed) < target {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            for (home, to) in calls {
                let (placed, failed, done) = (&placed, &failed, &done);
                scope.spawn(move || {
                    let call = Call { protocol: Protocol::Tcp, identity: APP, from: None, mark: None, to };
                    while !done.load(Ordering::Relaxed) {
                        if let Err(error) = call.place(home) {
                            failed
                                .lock()
                                .expect("no thread panics with it")
                                .push(format!("to {to}: {error}"));
                        }
                        placed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let _done = Done(&done);
            for (backend, goal) in changes.iter().zip(ROUND.into_iter().cycle().skip(1)) {
                wait();
                replace(&pod.inside, goal, *backend);
            }
            wait();
        });
        let arrivals = pod.arrivals();
        let past = arrivals.iter().filter(|arrival| arrival.listener == Answerer::Destination).count();
        let failed = failed.into_inner().expect("no thread panicked with it");
        assert!(
            past == 0 && failed.is_empty(),
            "{first:?} {changes:?}, {family:?}: {past} past the proxies, {failed:?}"
        );
        assert!(placed.into_inner() > 20 && arrivals.len() > 20, "connections are made");
    }
}

/// Tells the others to end, however the changes end.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
