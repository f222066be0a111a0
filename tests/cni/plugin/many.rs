//! As many containers as a node holds, as many at a time as a runtime starts, with nothing on `PATH`: each is captured,
//! checked and removed: while another agent rewrites the node's network configuration again and again, and again while
//! somebody holds the lock that all programs of iptables share.
//!
//! `CNI_CONTAINERS` sets how many there are (default 250, of which a short run takes 40).

use crate::cni::plugin::runtime::{Node, container, rules, run, variables};
use crate::support::namespace::Namespace;
use crate::support::program::BINARY;
use crate::support::random::number;
use crate::support::{mounts::in_mount_namespace, scope, wait::until};
use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};
use testkit::running::Running;

const AT_A_TIME: usize = 16;

/// Does `work` for each number, as many at a time as allowed.
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
        // On a machine that is busy with other things a call may go uncounted: no pod waits for numbers.
        let is_whole = ended.stderr.is_empty() || ended.stderr.ends_with("no trace can be left: timed out\n");
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

/// Does `work` while an agent rewrites the network configuration that the plugin is installed into.
fn while_rewritten(work: impl FnOnce()) {
    let node = Node::new();
    let [configurations, programs] = ["net.d", "bin"].map(|name| node.folder.join(name));
    for folder in [&configurations, &programs] {
        fs::create_dir(folder).expect("a folder");
    }
    let file = configurations.join("10-bridge.conflist");
    let written = |number: usize| {
        let plugins = json!([{"type": "bridge", "bridge": format!("cni{number}")}]);
        let text = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}).to_string();
        fs::write(&file, text).expect("the file can be written");
    };
    written(0);
    let mut install = Command::new(BINARY);
    install
        .args(["cni", "install", "--watch", "--conf-dir"])
        .arg(&configurations)
        .arg("--bin-dir")
        .arg(&programs);
    let watcher = Running(install.stderr(Stdio::null()).spawn().expect("the program starts"));
    let rewrites = scope::runs(500, 100);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=rewrites {
                written(number);
                thread::sleep(Duration::from_millis(5));
            }
        });
        work();
    });
    let holds_all = || {
        let text = fs::read_to_string(&file).expect("the file is there");
        let conflist: Value = serde_json::from_str(&text).unwrap_or_default();
        conflist["plugins"][0]["bridge"] == format!("cni{rewrites}")
            && conflist["plugins"][1]["type"] == "sidecar-cni"
    };
    until("both agents' last words are in the file", holds_all);
    drop(watcher);
}

#[test]
fn all_are_captured_whoever_holds_the_lock_of_iptables() {
    let count = number("CNI_CONTAINERS", scope::runs(250, 40));
    let pods: Vec<Namespace> = (0..count).map(|_| container()).collect();
    while_rewritten(|| attach(&pods));
    in_mount_namespace(|| {
        let file = File::create("/run/xtables.lock").expect("the lock's file");
        let _held = Flock::lock(file, FlockArg::LockExclusive).expect("nobody else has it");
        // It is the one that matters: iptables gives up.
        let listed = pods[0].output("iptables-legacy", &["-w", "1", "-t", "nat", "-L"], "");
        assert_eq!(listed.code, Some(4), "{listed:?}");
        attach(&pods);
    });
}
