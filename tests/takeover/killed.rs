//! `kill -9` at each writing system call of a run, under traffic: no connection bypasses the proxies, and the next run finishes.
//! `strace` lists the writing calls and kills the caller on entry: the run, or its iptables program. The calls are as many as the
//! planned commits, whose results `moves` checks, so no other writes occur.

use crate::support::engine::kernel;
use crate::support::folder::Folder;
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome};
use crate::support::rows::rows;
use crate::support::scope;
use crate::takeover::meshes::Goal;
use crate::takeover::packets::{By, LEGACY, NATIVE, NFT, set};
use crate::takeover::scene::{Scene, fresh, request};
use crate::takeover::states::State;
use crate::takeover::watched::commits;
use sidecar_init::backend::{BackendName, CommitStep};
use sidecar_init::engine;
use std::collections::{BTreeSet, HashMap};
use std::fs;

/// Each mesh is set and replaced once, and one is set again.
const CHANGES: [(Goal, Goal); 6] = [
    (Goal::REDIRECT, Goal::KUMA),
    (Goal::KUMA, Goal::KUMA),
    (Goal::KUMA, Goal::AMBIENT),
    (Goal::AMBIENT, Goal::TRANSPARENT),
    (Goal::TRANSPARENT, Goal::LINKERD),
    (Goal::LINKERD, Goal::REDIRECT),
];

const ATTEMPTS: usize = 5;

rows! {
    within_nf_tables_to_kuma_and_again: at_each_write(NATIVE, &CHANGES[..2]);
    within_nf_tables_to_ambient_and_on: at_each_write(NATIVE, &CHANGES[2..4]);
    within_nf_tables_to_linkerd_and_back: at_each_write(NATIVE, &CHANGES[4..]);
    within_iptables_nft: at_each_write(NFT, &CHANGES[2..3]);
    within_iptables_legacy: at_each_write(LEGACY, &CHANGES[2..3]);
}

fn at_each_write(backend: BackendName, changes: &[(Goal, Goal)]) {
    let scene = Scene::new();
    let folder = Folder::new("writes");
    let log = &folder.file("log");
    let of = |goal: Goal| State { backend, goal };
    let mut now = of(changes[0].0);
    set(&scene.inside, now.goal, By::Us(backend));
    scene.under_traffic(|| {
        for (old, new) in changes.iter().map(|(old, new)| (of(*old), of(*new))) {
            let (before, after) = (fresh(old), fresh(new));
            let back = || scene.reach(new, old);
            if now != old {
                scene.reach(now, old);
            }
            let planned = planned(&scene.inside, old, new);
            let output = traced(&scene.inside, old, new, &["-o", log]);
            assert!(output.succeeded(), "{output:?}");
            let written = writes(&fs::read_to_string(log).expect("a log"));
            assert_eq!(written.len(), planned, "from {old:?} to {new:?}: {written:#?}");
            scene.holds(new, &after, "the binary");
            let mut places = distinct(written);
            let number = places.len();
            for nth in scope::of((0..number).collect(), 3) {
                let killed = (0..ATTEMPTS).find_map(|_| {
                    back();
                    scene.holds(old, &before, "back");
                    let (name, count) = places.get(nth).or(places.last()).expect("a write");
                    let kill = format!("inject={name}:signal=KILL:when={count}");
                    let run = || traced(&scene.inside, old, new, &["-o", log, "-e", &kill]);
                    let output = scene.with_calls(run);
                    let what = format!("from {old:?} to {new:?}, killed at {name} {count}");
                    if !output.succeeded() {
                        return Some(what);
                    }
                    // An interrupted dump is requested again, so the numbers of two runs differ.
                    places = distinct(writes(&fs::read_to_string(log).expect("a log")));
                    None
                });
                let what = killed.expect("one of several runs is killed");
                scene.look(&[old.goal, new.goal], &what);
                let output = scene.with_calls(|| traced(&scene.inside, old, new, &["-o", "/dev/null"]));
                assert!(output.succeeded(), "{what}, the next run: {output:?}");
                scene.look(&[new.goal], &what);
                scene.holds(new, &after, &what);
            }
            now = new;
        }
    });
}

/// Distinct calls: several programs may have calls with equal numbers.
fn distinct(writes: Vec<(String, usize)>) -> Vec<(String, usize)> {
    writes.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

fn planned(namespace: &Namespace, old: State, new: State) -> usize {
    let (owner, options) = request(old, new);
    let plan = || engine::plan(&mut kernel(owner), &new.goal.desired(owner), &options);
    let plan = namespace.run(|| plan().map_err(|error| error.to_string())).expect("a plan");
    plan.steps.iter().flat_map(commits).filter(|commit| *commit != CommitStep::WaitForInFlight).count()
}

fn traced(namespace: &Namespace, old: State, new: State, options: &[&str]) -> Outcome {
    let flags = new.goal.flags();
    let how = if old == new { "--force-apply" } else { "--replace" };
    let calls = ["-f", "-qq", "-e", "trace=sendto,sendmsg,setsockopt"];
    let words = [BINARY, "apply", how, "--backend", new.choice()];
    let flags = flags.iter().map(String::as_str);
    let words: Vec<&str> = calls.iter().chain(options).chain(&words).copied().chain(flags).collect();
    namespace.output("strace", &words, "")
}

/// Calls that write rules or routing: the name, and its count within the thread.
fn writes(log: &str) -> Vec<(String, usize)> {
    const WRITES: [&str; 5] = [
        "type=NFNL_MSG_BATCH_BEGIN",
        "type=RTM_NEW",
        "type=RTM_DEL",
        "IPT_SO_SET_REPLACE",
        "IP6T_SO_SET_REPLACE",
    ];
    let mut counts: HashMap<(String, String), usize> = HashMap::new();
    let call = |line: &str| {
        let (thread, call) = line.trim().split_once(' ')?;
        let (name, arguments) = call.trim().split_once('(')?;
        let count = counts.entry((thread.to_owned(), name.to_owned())).or_default();
        *count += 1;
        WRITES.iter().any(|write| arguments.contains(write)).then_some((name.to_owned(), *count))
    };
    log.lines().filter_map(call).collect()
}
