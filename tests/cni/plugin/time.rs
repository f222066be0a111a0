//! A call ends when its time is up, whatever it waits for.

use crate::cni::plugin::runtime::{Answer, Node, container, rules, says, start, variables};
use crate::support::program::{BINARY, is_running};
use crate::support::wait;
use serde_json::json;
use std::{
    fs,
    io::{Read, Write},
    path::PathBuf,
    process::{self, Command, Stdio},
    time::{Duration, Instant},
};
use testkit::running::Running;

/// Programs of iptables that never end: scripts that wait for a command, as wrappers do.
fn hanging(node: &Node, command: &str) -> PathBuf {
    let programs = node.folder.join("programs");
    fs::create_dir(&programs).expect("a folder");
    for family in ["iptables", "ip6tables"] {
        for verb in ["save", "restore"] {
            let file = programs.join(format!("{family}-nft-{verb}"));
            crate::support::program::script(&file, format!("#!/bin/sh\n{command}\n"));
        }
    }
    programs
}

#[test]
fn a_lock_that_somebody_holds_is_not_waited_for_longer_than_allowed() {
    let (node, pod) = (Node::new(), container());
    let sleep = format!("/bin/sleep 8{}", process::id());
    let programs = hanging(&node, &sleep);
    let mut command = Command::new(BINARY);
    command.args(["apply", "--backend", "iptables-nft", "--pod-ips", "10.0.0.2"]).env("PATH", &programs);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let holder = Running(pod.run(|| command.spawn()).expect("the binary starts"));
    wait::until(&sleep, || is_running(&sleep));
    for (timeout, most) in [("500ms", 20), ("2s", 20)] {
        let mut configuration = node.capturing();
        configuration["timeout"] = json!(timeout);
        let start = Instant::now();
        let error = node.call("ADD", &configuration, &pod.path()).refused(11);
        says(&error, &[&format!("process {} is changing", holder.id())]);
        assert!(start.elapsed() < Duration::from_secs(most), "{:?}", start.elapsed());
        assert_eq!(rules(&pod), "");
    }
    drop(holder);
    node.does("ADD", &node.capturing(), &pod.path());
}

#[test]
fn an_input_that_does_not_end_is_not_waited_for() {
    let pod = container();
    let path = pod.path();
    let begun = Instant::now();
    // At the same time, as each takes what is allowed when nobody says.
    let mut calls: Vec<_> = ["ADD", "CHECK", "DEL", "GC", "STATUS", "VERSION"]
        .into_iter()
        .map(|verb| {
            let mut child = start(verb, &variables("c1", &path));
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin.write_all(br#"{"cniVersion":"1.1.0","timeout":"100ms","#).expect("it reads");
            (child, stdin)
        })
        .collect();
    for (child, stdin) in &mut calls {
        let mut text = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("it ends");
        let error: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((error["code"].as_u64(), child.wait().expect("it ends").code()), (Some(11), Some(1)));
        says(&error, &["took longer than", "standard input"]);
        stdin.flush().expect("it is still open");
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(60), "{took:?}");
    assert_eq!(rules(&pod), "");
}

/// A program of iptables that never ends is the kernel's or the node's fault; the pod hears of it in time.
#[test]
fn a_program_that_hangs_is_not_waited_for() {
    let (node, pod) = (Node::new(), container());
    let path = pod.path();
    let sleep = format!("/bin/sleep 9{}", process::id());
    let programs = hanging(&node, &sleep);
    let mut configuration = node.capturing();
    (configuration["backend"], configuration["timeout"]) = (json!("iptables-nft"), json!("1s"));
    let mut variables = variables("c1", &path);
    variables.push(("PATH", crate::cni::plugin::runtime::text(&programs)));
    let start = Instant::now();
    let error = crate::cni::plugin::runtime::run("ADD", &variables, &configuration.to_string()).refused(11);
    says(&error, &["took longer than", "1s"]);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    // The call is in the log all the same.
    assert_eq!(node.lines().last().expect("a line")["outcome"], "failed");
    // Nothing is left that holds the lock.
    node.does("DEL", &node.capturing(), &path);
    assert!(!is_running(&sleep), "{sleep} is still there");
}
