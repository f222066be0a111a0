//! No window: while one state replaces another, no connection that both capture gets past the proxy.
//!
//! Threads connect without pause, from the pod to a service and from outside to the pod, while two states
//! are applied in turn. A listener stands at the very address that is called, so that a connection that
//! gets past is seen as an arrival there. One that fails, at whatever moment, counts as well.

use crate::support::rows::rows;
use crate::support::wait;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::apply::stage::call;
use crate::support::address::Place;
use crate::support::namespace::{Namespace, succeed};
use crate::support::pod::{APP, Answerer, Pod};
use crate::support::random::number;
use crate::support::setting::{Family, Mode, Setting, Variant};
use crate::support::traffic::{Call, Protocol};
use crate::takeover::upstream;

/// Both capture all inbound and outbound TCP.
const COMMON: [&str; 11] = [
    "--dual-stack",
    "-u",
    "1337",
    "-g",
    "1337",
    "-i",
    "*",
    "-b",
    "*",
    "--dns-servers",
    crate::support::configurations::RESOLVERS,
];
const REDIRECT: &[&str] = &["-m", "REDIRECT"];
const REDIRECT_WITH_MORE: &[&str] =
    &["-m", "REDIRECT", "--redirect-dns", "--drop-invalid", "-x", "10.98.0.0/16,fd98::/16", "-d", "15090"];
const TPROXY: &[&str] = &["-m", "TPROXY"];
const TPROXY_WITH_MORE: &[&str] =
    &["-m", "TPROXY", "--redirect-dns", "-d", "15090", "-t", "1400", "-r", "140"];

/// Pairs of states.
const PAIRS: [[&[&str]; 2]; 4] = [
    [REDIRECT, REDIRECT_WITH_MORE],
    [REDIRECT, TPROXY],
    [REDIRECT_WITH_MORE, TPROXY_WITH_MORE],
    [TPROXY, TPROXY_WITH_MORE],
];

rows! {
    legacy_v4: every_pair(Variant::Legacy, Family::V4);
    legacy_v6: every_pair(Variant::Legacy, Family::V6);
    nft_v4: every_pair(Variant::Nft, Family::V4);
    nft_v6: every_pair(Variant::Nft, Family::V6);
    native_v4: every_pair(Variant::Native, Family::V4);
    native_v6: every_pair(Variant::Native, Family::V6);
    /// Moving to another variant, and back.
    from_legacy_to_nft: from_one_to_other([Variant::Legacy, Variant::Nft]);
    from_legacy_to_native: from_one_to_other([Variant::Legacy, Variant::Native]);
    from_nft_to_native: from_one_to_other([Variant::Nft, Variant::Native]);
}

/// Pairs of states that the one and the other hold.
const MOVES: [[&[&str]; 2]; 5] = [
    [REDIRECT, REDIRECT],
    [TPROXY, TPROXY],
    [TPROXY, TPROXY_WITH_MORE],
    [REDIRECT, TPROXY],
    [TPROXY, REDIRECT],
];

fn from_one_to_other([one, other]: [Variant; 2]) {
    for family in Family::BOTH {
        for [old, new] in MOVES {
            let setting = Setting { variant: other, family, mode: Mode::Tproxy };
            check(setting, [(one, old), (other, new)], runs());
        }
    }
}

fn every_pair(variant: Variant, family: Family) {
    for [one, other] in PAIRS {
        // The proxy's listener for inbound traffic is transparent throughout: it outlives both states.
        let setting = Setting { variant, family, mode: Mode::Tproxy };
        check(setting, [(variant, one), (variant, other)], runs());
    }
}

/// What upstream has made gives way to ours, of the same variant or of another.
#[test]
fn from_upstream_redirect() {
    for (from, to) in [
        (Variant::Legacy, Variant::Legacy),
        (Variant::Nft, Variant::Nft),
        (Variant::Legacy, Variant::Native),
        (Variant::Nft, Variant::Native),
    ] {
        for family in Family::BOTH {
            let flags = [&COMMON, REDIRECT_WITH_MORE, &["-c", "eth9", "-k", "virt9"]].concat();
            from_upstream(to, family, &flags, |home| upstream::set(home, from, &flags));
        }
    }
}

#[test]
fn from_upstream_tproxy() {
    for (from, to) in [
        (Variant::Legacy, Variant::Legacy),
        (Variant::Nft, Variant::Nft),
        (Variant::Legacy, Variant::Nft),
        (Variant::Nft, Variant::Native),
    ] {
        for family in Family::BOTH {
            for flags in [TPROXY, TPROXY_WITH_MORE] {
                let flags = [&COMMON, flags, &["-c", "eth9"]].concat();
                from_upstream(to, family, &flags, |home| upstream::set(home, from, &flags));
            }
        }
    }
}

#[test]
fn from_upstreams_native_mode() {
    for variant in [Variant::Native, Variant::Nft, Variant::Legacy] {
        for family in Family::BOTH {
            from_upstream(variant, family, &[&COMMON, REDIRECT].concat(), upstream::set_native);
        }
    }
}

fn from_upstream(variant: Variant, family: Family, flags: &[&str], set: impl FnOnce(&Namespace)) {
    let setting = Setting { variant, family, mode: Mode::Tproxy };
    under_traffic(setting, set, &[(variant, flags)]);
}

/// Changes for each pair: six settings of four pairs, and three moves of five pairs in both families.
fn runs() -> usize {
    number("LIFE_WINDOW_RUNS", 200_usize).div_ceil(54)
}

/// What the connecting threads saw.
#[derive(Default)]
struct Seen {
    placed: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

fn check(setting: Setting, states: [(Variant, &[&str]); 2], runs: usize) {
    let states = states.map(|(variant, flags)| (variant, [&COMMON, flags].concat()));
    let [first, other] = states.each_ref().map(|(variant, flags)| (*variant, flags.as_slice()));
    // Two changes at least: there and back.
    let changes: Vec<_> = [other, first].into_iter().cycle().take(runs.max(2)).collect();
    under_traffic(setting, |home| apply(home, first), &changes);
}

fn apply(home: &Namespace, (variant, flags): (Variant, &[&str])) {
    succeed(home, &call("apply", variant, flags));
}

/// Makes changes one after the other while connections are made all the time, from the first state on.
fn under_traffic(setting: Setting, first: impl FnOnce(&Namespace), changes: &[(Variant, &[&str])]) {
    let pod = Pod::new(setting);
    // Few ports outside, and none kept by TIME_WAIT there: each comes again while the pod has its last connection in
    // TIME_WAIT.
    pod.outside.set("ipv4/ip_local_port_range", "20000 20063");
    pod.outside.set("ipv4/tcp_max_tw_buckets", "0");
    pod.listen(Protocol::Tcp, Place::Service, 9080);
    pod.listen(Protocol::Tcp, Place::Neighbour, 9081);
    pod.listen(Protocol::Tcp, Place::Pod, 8080);
    first(&pod.inside);
    let calls = [
        (&pod.inside, Place::Service.at(setting.family, 9080)),
        (&pod.inside, Place::Neighbour.at(setting.family, 9081)),
        (&pod.outside, Place::Pod.at(setting.family, 8080)),
    ];
    let (seen, done, round) = (Seen::default(), AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for (home, to) in calls {
            let (seen, done, round) = (&seen, &done, &round);
            scope.spawn(move || {
                let call = Call { protocol: Protocol::Tcp, identity: APP, from: None, mark: None, to };
                while !done.load(Ordering::Relaxed) {
                    connect(home, call, seen, round);
                }
            });
        }
        let made = thread::Builder::new().spawn_scoped(scope, || {
            let _done = Done(&done);
            for (index, change) in changes.iter().enumerate() {
                round.store(index + 1, Ordering::Relaxed);
                wait_for_calls(&seen);
                apply(&pod.inside, *change);
            }
            wait_for_calls(&seen);
        });
        made.expect("a thread can be made").join().expect("every change works");
    });
    report(&pod, &seen, changes);
}

/// Tells the others to end, however the changes end.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn connect(home: &Namespace, call: Call, seen: &Seen, round: &AtomicUsize) {
    let before = round.load(Ordering::Relaxed);
    if let Err(error) = call.place(home) {
        let text = format!("to {} in round {before} to {}: {error}", call.to, round.load(Ordering::Relaxed));
        seen.failed.lock().expect("no thread panics with it").push(text);
    }
    seen.placed.fetch_add(1, Ordering::Relaxed);
}

/// Some connections in each state, so that no change comes before the last one was used.
fn wait_for_calls(seen: &Seen) {
    let target = seen.placed.load(Ordering::Relaxed) + 10;
    wait::until("calls are answered", || seen.placed.load(Ordering::Relaxed) >= target);
}

fn report(pod: &Pod, seen: &Seen, changes: &[(Variant, &[&str])]) {
    let arrivals = pod.arrivals();
    let past: Vec<_> = arrivals.iter().filter(|arrival| arrival.listener == Answerer::Destination).collect();
    let failed = seen.failed.lock().expect("no thread panicked with it");
    assert!(
        past.is_empty() && failed.is_empty(),
        "{} {changes:?}: of {} connections {} got past the proxy and {} failed\n{past:?}\n{}",
        pod.setting,
        seen.placed.load(Ordering::Relaxed),
        past.len(),
        failed.len(),
        failed.join("\n"),
    );
}
