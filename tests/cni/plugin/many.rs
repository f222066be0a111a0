//! A node's containers, as many at once as a runtime starts, with an empty `PATH`: each is captured, checked and removed, even
//! while another program holds the lock that all iptables programs share. `CNI_CONTAINERS` is the number of containers (250; 40
//! in a short run).

use crate::cni::plugin::runtime::{Node, container, rules, run, variables};
use crate::support::namespace::Namespace;
use crate::support::random::number;
use crate::support::{mounts::in_mount_namespace, scope};
use nix::fcntl::{Flock, FlockArg};
use std::{
    fs::File,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

const AT_A_TIME: usize = 16;

fn for_each(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let (next, work) = (&next, &work);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    work(number);
                }
            });
        }
    });
}

fn attach(pods: &[Namespace]) {
    let node = Node::new();
    let input = node.capturing().to_string();
    let call = |verb: &str, number: usize| {
        let ended = run(verb, &variables(&format!("c{number}"), &pods[number].path()), &input);
        // On a busy machine a call may not be counted: no pod waits for counters.
        let is_whole =
            ended.stderr.is_empty() || ended.stderr.ends_with("the log or the counters: timed out\n");
        assert!(ended.code == Some(0) && is_whole, "{ended:?}");
    };
    for_each(pods.len(), |number| call("ADD", number));
    let made = rules(&pods[0]);
    assert!(made.contains("sidecar_init"));
    assert_eq!(node.attachments().len(), pods.len());
    for_each(pods.len(), |number| {
        assert_eq!(rules(&pods[number]), made, "container {number}");
        call("CHECK", number);
    });
    for_each(pods.len(), |number| call("DEL", number));
    for_each(pods.len(), |number| assert_eq!(rules(&pods[number]), "", "container {number}"));
    assert!(node.attachments().is_empty());
}

#[test]
fn all_are_captured_while_the_iptables_lock_is_held() {
    let count = number("CNI_CONTAINERS", scope::runs(250, 40));
    let pods: Vec<Namespace> = (0..count).map(|_| container()).collect();
    attach(&pods);
    in_mount_namespace(|| {
        let file = File::create("/run/xtables.lock").expect("the lock's file");
        let _held = Flock::lock(file, FlockArg::LockExclusive).expect("a free lock");
        // Control: iptables fails on the held lock.
        let listed = pods[0].output("iptables-legacy", &["-w", "1", "-t", "nat", "-L"], "");
        assert_eq!(listed.code, Some(4), "{listed:?}");
        attach(&pods);
    });
}
