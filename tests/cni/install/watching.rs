//! A watching install: restores overwritten files, sleeps while nothing changes, and reports readiness.

use crate::cni::install::node::{LIST, Node, shapes, types};
use crate::support::wait;
use std::time::Instant;
use std::{fs, thread, time::Duration};

const FILE: &str = "10-a.conflist";

fn has_entry(node: &Node, name: &str) -> bool {
    let text = node.read(name);
    text.ends_with('\n') | text.ends_with('}') && types(&text).iter().any(|name| name == "sidecar-cni")
}

#[test]
fn overwritten_files_are_restored() {
    let node = Node::new();
    let ready = node.path("ready");
    fs::write(&ready, "of another run").expect("written");
    let running = node.start(&["--watch", "--ready-file", ready.to_str().expect("UTF-8")]);
    running.until("the readiness file goes", || !ready.exists());
    node.put(FILE, LIST);
    running.until("the entry", || has_entry(&node, FILE) && ready.exists());
    for (name, text) in shapes().into_iter().filter(|(name, _)| name.ends_with("list")) {
        node.put(FILE, &text);
        running.until(&format!("the entry in {name}"), || node.read(FILE) != text && has_entry(&node, FILE));
    }
    fs::remove_file(node.plugin()).expect("removed");
    running.until("the program", || node.plugin().exists());
    let whole = fs::read(node.plugin()).expect("the program");
    fs::write(node.plugin(), &whole[..1000]).expect("written");
    running.until("the whole program", || fs::read(node.plugin()).is_ok_and(|plugin| plugin == whole));
    fs::remove_file(node.configurations().join(FILE)).expect("removed");
    running.until("no readiness", || !ready.exists());
    node.put("00-b.conf", &shapes().iter().find(|(name, _)| name == "00-multus.conf").expect("a shape").1);
    running.until("the entry in the other file", || has_entry(&node, "00-b.conflist") && ready.exists());
    // The agent is unaware of the renamed file.
    node.put("00-b.conf", r#"{"name":"m","cniVersion":"0.3.1","type":"other"}"#);
    running.until("the entry in the new file", || {
        let all = node.configurations_by_name();
        all.len() == 1 && types(&all["00-b.conflist"]) == ["other", "sidecar-cni"]
    });
}

#[test]
fn sigterm_keeps_the_entry_unless_uninstall_on_exit() {
    let node = Node::new();
    node.put(FILE, LIST);
    let ready = node.path("ready");
    let arguments = ["--watch", "--ready-file", ready.to_str().expect("UTF-8")];
    let mut running = node.start(&arguments);
    running.until("the entry", || ready.exists());
    assert_eq!(running.end(), Some(0));
    assert!(has_entry(&node, FILE) && node.plugin().exists() && !ready.exists());
    let mut running = node.start(&[&arguments[..], &["--uninstall-on-exit"]].concat());
    running.until("readiness", || ready.exists());
    assert_eq!(running.end(), Some(0));
    assert_eq!(node.all(), [(FILE.to_owned(), LIST.to_owned())].into());
    assert!(!node.plugin().exists() && !ready.exists());
}

#[test]
fn second_installer_waits_for_the_first() {
    let node = Node::new();
    node.put(FILE, LIST);
    let mut first = node.start(&["--watch", "--plugin-log", "none"]);
    first.until("the entry", || has_entry(&node, FILE));
    let second = node.start(&["--watch", "--plugin-log", "journal"]);
    second.until("waiting", || second.log().contains("another install is running"));
    assert!(node.read(FILE).contains(r#""log":"none""#));
    let refused = node.call("uninstall", &[]);
    assert!(refused.with(1, "uninstall").stderr.contains("stop it first"));
    first.end();
    second.until("its own entry", || node.read(FILE).contains(r#""log":"journal""#));
}

#[test]
fn idle_installer_sleeps() {
    let node = Node::new();
    fs::write(node.configurations().join(FILE), "{ half").expect("written");
    let running = node.start(&["--watch"]);
    running.until("waiting", || running.log().contains("is not complete JSON"));
    sleeps(running.id());
    node.put(FILE, LIST);
    running.until("the entry", || has_entry(&node, FILE));
    sleeps(running.id());
}

/// Waits for a second in which the process wakes at most once.
#[track_caller]
fn sleeps(id: u32) {
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).expect("a count")
    };
    wait::until("a sleeping process", || {
        let before = switches();
        thread::sleep(Duration::from_secs(1));
        switches() - before <= 1
    });
}

#[test]
fn repeated_removal_does_not_keep_the_node_busy() {
    let node = Node::new();
    node.put(FILE, LIST);
    let running = node.start(&["--watch"]);
    let start = Instant::now();
    for _ in 0..10 {
        running.until("the entry", || has_entry(&node, FILE));
        node.put(FILE, LIST);
    }
    let took = start.elapsed();
    assert!(took > Duration::from_secs(1), "undone 10 times in {took:?}\n{}", running.log());
    running.until("the entry in the end", || has_entry(&node, FILE));
}

#[test]
fn removed_folder_ends_the_installer_and_readiness() {
    let node = Node::new();
    node.put(FILE, LIST);
    let ready = node.path("ready");
    let mut running = node.start(&["--watch", "--ready-file", ready.to_str().expect("UTF-8")]);
    running.until("readiness", || ready.exists());
    fs::rename(node.configurations(), node.path("elsewhere")).expect("renamed");
    assert_eq!(running.ended(), Some(1));
    assert!(running.log().contains("was removed while it was watched"), "{}", running.log());
    assert!(!ready.exists());
}
