//! The installer, and commands in the node agent's container, make only system calls that the profiles of `docker/cni/seccomp`
//! allow.

use crate::cni::install::http::send;
use crate::cni::install::node::{LIST, Node, program};
use crate::cni::install::repair::Pod;
use crate::support::mounts::in_mount_namespace;
use crate::support::namespace::Namespace;
use crate::support::program::Run;
use crate::support::wait;
use std::{
    fs,
    os::unix::fs::chown,
    process::{Command, Stdio},
};
use testkit::running::Running;
use testkit::{seccomp::TracedPrograms, word};

const FILE: &str = "10-a.conflist";
const SINGLE: &str = r#"{"name":"n","cniVersion":"1.0.0","type":"a"}"#;
const READY: &str = "127.0.0.1:15071";
const METRICS: &str = "127.0.0.1:15072";

fn is_served(namespace: &Namespace, address: &str, page: &str) -> bool {
    let request = format!("GET {page} HTTP/1.1\r\nHost: node\r\n\r\n");
    send(namespace, address, request.as_bytes()).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}

#[test]
fn installer_profile_allows_its_calls() {
    let (node, namespace) = (Node::new(), Namespace::new());
    let programs = TracedPrograms::new("sidecar-cni", &node.path("calls"));
    let has_entry = |name: &str| node.read(name).contains("sidecar-cni");
    node.put(FILE, LIST);
    chown(node.configurations().join(FILE), Some(65534), None).expect("another owner");
    for verb in ["install", "uninstall"] {
        programs.command(program()).args(node.arguments(verb, &[])).outcome().with(0, verb);
    }

    let state = node.path("state");
    let flags = ["--watch", "--uninstall-on-exit", "--ready-address", READY, "--metrics", METRICS];
    let flags = [&flags[..], &["--state-dir", word(&state)]].concat();
    let mut command = programs.command(program());
    command.args(node.arguments("install", &flags)).stderr(Stdio::null());
    let mut running = Running(namespace.run(|| command.spawn()).expect("strace starts"));
    wait::until("readiness", || is_served(&namespace, READY, "/readyz"));
    assert!(is_served(&namespace, METRICS, "/metrics"));
    node.put(FILE, LIST);
    wait::until("the entry, in a new file", || has_entry(FILE));
    fs::remove_file(node.plugin()).expect("removed");
    wait::until("the program", || node.plugin().exists());
    node.put("05-a.conf", SINGLE);
    wait::until("the entry, in a list that was a single plugin", || has_entry("05-a.conflist"));
    let asked = Command::new("kill").args(["-TERM", &running.id().to_string()]).status();
    assert!(asked.expect("kill").success());
    assert!(running.wait().expect("the installer ends").success());
    assert!(!has_entry(FILE), "uninstalled on exit");
    programs.check();
}

/// Commands that `kubectl capture` and administrators run. Repairs are counted if the machine has the plugin's folder.
#[test]
fn agent_profile_allows_commands_in_its_container() {
    in_mount_namespace(commands_in_the_agents_container);
}

fn commands_in_the_agents_container() {
    const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/pod-istio.yaml");
    let (node, pod) = (Node::new(), Pod::new());
    let programs = TracedPrograms::new("sidecar-node", &node.path("calls"));
    let run = |words: &[&str]| programs.command(program()).args(words).outcome();
    let (path, id) = (pod.namespace.path(), pod.process.id().to_string());
    let capture = ["-u", "1337", "-i", "*", "-b", "*"];
    let repairs: [([&str; 2], &[&str]); 3] = [
        (["--netns", &path], &[]),
        // A mode change waits for packets in flight.
        (["--netns", &path], &["-m", "TPROXY"]),
        (["--pid", &id], &["--redirect-dns"]),
    ];
    for (container, more) in repairs {
        run(&[&["cni", "repair"][..], &container, &capture, more].concat()).success();
    }
    let commands: [&[&str]; 5] = [
        &["explain", "8080"],
        &["status"],
        &["diff", "-f", MANIFEST],
        &["trace", "--for=300ms"],
        &["trace", "--for=300ms", "--enable"],
    ];
    for command in commands {
        let output = run(&[command, &["--network-namespace", &path, "--output", "json"]].concat());
        // 3 reports a difference, 1 a missing listener.
        assert!(matches!(output.code, Some(0 | 1 | 3)), "{command:?}: {output:?}");
    }
    // With `hostUsers: false` another user namespace owns the pod's network, and its IDs are read from within.
    let holder =
        Running(Command::new("unshare").args(["--user", "--net", "sleep", "600"]).spawn().expect("unshare"));
    let folder = format!("/proc/{}", holder.id());
    let begins = || fs::read_to_string(format!("{folder}/comm")).is_ok_and(|name| name.trim() == "sleep");
    wait::until("the namespaces", begins);
    let output = run(&["status", "--network-namespace", &format!("{folder}/ns/net"), "--output", "json"]);
    assert_eq!(output.code, Some(3), "{output:?}");
    // Other tests create and remove namespaces meanwhile, so reading one of them may fail.
    let overview = run(&["status", "--all", "--output", "json"]);
    assert!(overview.stdout.contains("\"namespaces\""), "{overview:?}");
    programs.check();
}
