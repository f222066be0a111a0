//! A call ends within its timeout, whatever it waits for.

use crate::cni::plugin::runtime::{Answer, Node, container, mentions, rules, start, variables};
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

/// iptables programs that never end: scripts that wait for a command, like wrappers.
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
fn held_lock_is_waited_for_until_the_timeout() {
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
        mentions(&error, &[&format!("process {} is changing", holder.id())]);
        assert!(start.elapsed() < Duration::from_secs(most), "{:?}", start.elapsed());
        assert_eq!(rules(&pod), "");
    }
    drop(holder);
    node.does("ADD", &node.capturing(), &pod.path());
}

#[test]
fn endless_input_times_out() {
    let pod = container();
    let path = pod.path();
    let begun = Instant::now();
    // In parallel, since each takes the default timeout.
    let mut calls: Vec<_> = ["ADD", "CHECK", "DEL", "GC", "STATUS", "VERSION"]
        .into_iter()
        .map(|verb| {
            let mut child = start(verb, &variables("c1", &path));
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin.write_all(br#"{"cniVersion":"1.1.0","timeout":"100ms","#).expect("the plugin reads");
            (child, stdin)
        })
        .collect();
    for (child, stdin) in &mut calls {
        let mut text = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("an end");
        let error: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((error["code"].as_u64(), child.wait().expect("an end").code()), (Some(11), Some(1)));
        mentions(&error, &["took longer than", "standard input"]);
        stdin.flush().expect("an open pipe");
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(60), "{took:?}");
    assert_eq!(rules(&pod), "");
}

/// A hanging iptables program is the kernel's or node's fault; the pod's error must come in time.
#[test]
fn hanging_program_times_out() {
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
    mentions(&error, &["took longer than", "1s"]);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(node.lines().last().expect("a line")["outcome"], "failed");
    node.does("DEL", &node.capturing(), &path);
    assert!(!is_running(&sleep), "{sleep} still runs");
}
