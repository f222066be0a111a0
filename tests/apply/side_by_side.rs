//! The engine as a front end of a node uses it: several network namespaces from one process, side by side, without a
//! thread of the caller ending up anywhere else.

use crate::support::namespace;

use mesh::Setting;
use mesh::istio::OWNERSHIP;
use namespace::Namespace;

use mesh::sources::{NullHost, Raw};
use rules::desired::Desired;
use sidecar_init::{
    backend::{BackendName, Kernel, Variant, iptables::Lock},
    engine::{self, Choice, Differences, OnDrift, Options},
    sys::namespace::within,
};
use std::{fs, path::Path, thread};

fn desired(flags: &[(Setting, &str)]) -> Desired {
    let pod = [(Setting::PodIps, "10.0.0.1,fd00::1"), (Setting::DualStack, "true")];
    let flags = pod.iter().chain(flags).map(|(setting, value)| (*setting, (*value).to_owned()));
    let raw = Raw::new(flags, |_| true, |_| None);
    mesh::resolve(&raw, &NullHost, Vec::new()).expect("valid").capture.desired()
}

fn kernel() -> Kernel {
    Kernel::open(Lock { wait: 30, ..Lock::default() }, OWNERSHIP).expect("a namespace that can be changed")
}

fn here() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/thread-self/ns/net").expect("the thread's own namespace").ino()
}

/// What differs in a namespace from what is desired of it.
fn differences(namespace: &Namespace, desired: &Desired, choice: Choice) -> Differences {
    let check = || engine::check(&mut kernel(), desired, choice).expect("readable").differences;
    within(Path::new(&namespace.path()), check).expect("it can be entered")
}

#[test]
fn namespaces_are_changed_side_by_side_and_no_thread_moves() {
    let backends = [
        (Choice::Nftables, BackendName::Nftables),
        (Choice::Iptables(Some(Variant::Nft)), BackendName::Iptables(Variant::Nft)),
        (Choice::Iptables(Some(Variant::Legacy)), BackendName::Iptables(Variant::Legacy)),
    ];
    let wishes = [
        desired(&[(Setting::ServiceCidr, "*"), (Setting::InboundPorts, "*")]),
        desired(&[(Setting::InterceptionMode, "TPROXY"), (Setting::InboundPorts, "8080")]),
    ];
    let namespaces: Vec<Namespace> = (0..6).map(|_| Namespace::new()).collect();
    let jobs = || {
        let all = backends.iter().flat_map(|backend| wishes.iter().map(move |wish| (backend, wish)));
        namespaces.iter().zip(all)
    };
    thread::scope(|scope| {
        for (namespace, ((choice, expected), wish)) in jobs() {
            scope.spawn(move || {
                let before = here();
                let options = Options {
                    choice: *choice,
                    on_drift: OnDrift::Refuse,
                    force: false,
                    known_owners: mesh::OWNERS,
                };
                for steps_expected in [true, false] {
                    let apply = || engine::apply(&mut kernel(), wish, &options).expect("applied");
                    let summary = within(Path::new(&namespace.path()), apply).expect("it can be entered");
                    assert_eq!(summary.backend, Some(*expected));
                    assert_eq!(!summary.steps.is_empty(), steps_expected, "{expected}: {:?}", summary.steps);
                }
                assert_eq!(here(), before, "the thread has moved");
            });
        }
    });
    for (index, (namespace, ((choice, name), wish))) in jobs().enumerate() {
        assert!(differences(namespace, wish, *choice).is_empty(), "{name}");
        let other = &wishes[(index + 1) % 2];
        assert!(!differences(namespace, other, *choice).is_empty(), "{name} holds its neighbour's rules");
        let clean = || engine::clean(&mut kernel(), OWNERSHIP, &[]).expect("cleaned");
        let summary = within(Path::new(&namespace.path()), clean).expect("it can be entered");
        assert!(!summary.steps.is_empty());
        assert!(!differences(namespace, wish, *choice).is_empty());
    }
}

#[test]
fn a_panic_within_a_namespace_goes_on_outside() {
    let namespace = Namespace::new();
    let before = here();
    let caught = std::panic::catch_unwind(|| within(Path::new(&namespace.path()), || panic!("inside")));
    assert!(caught.is_err());
    assert_eq!(here(), before);
    assert!(within(Path::new("/proc/self/status"), || ()).is_err(), "no namespace at all");
}
