//! A running container without its rules gets them from the node.

use crate::cni::install::node::{Node, program};
use crate::support::namespace::Namespace;
use crate::support::program::{Outcome, Run};
use crate::support::wait;
use std::{
    fs,
    process::{Command, Stdio},
};
use testkit::running::Running;

pub(crate) struct Pod {
    pub(crate) namespace: Namespace,
    pub(crate) process: Running,
}

impl Pod {
    pub(crate) fn new() -> Self {
        let namespace = Namespace::new();
        namespace.eth0("10.77.0.2/24");
        let script =
            "mount -t tmpfs none /etc && echo nameserver 10.9.8.7 >/etc/resolv.conf && exec sleep 600";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).stdout(Stdio::null());
        let process = Running(namespace.run(|| command.spawn()).expect("unshare starts"));
        let name = || fs::read_to_string(format!("/proc/{}/comm", process.id())).unwrap_or_default();
        wait::until("the pod starts", || name() == "sleep\n");
        Self { namespace, process }
    }

    fn rules(&self) -> String {
        crate::cni::plugin::runtime::rules(&self.namespace)
    }
}

const FLAGS: [&str; 6] = ["-u", "1337", "-i", "*", "-b", "*"];

fn repair(container: &[&str], more: &[&str]) -> Outcome {
    let arguments = [&["cni", "repair"], container, &FLAGS, more].concat();
    Command::new(program()).args(arguments).outcome()
}

#[track_caller]
fn succeed(container: &[&str], more: &[&str]) -> String {
    repair(container, more).with(0, &container.join(" ")).text()
}

#[test]
fn namespace_is_repaired_by_its_path() {
    let (pod, node) = (Pod::new(), Node::new());
    let state = node.path("state");
    fs::create_dir(&state).expect("a folder");
    let state = state.to_str().expect("UTF-8");
    let path = pod.namespace.path();
    succeed(&["--netns", &path], &["--run-validation", "--state-dir", state]);
    let rules = pod.rules();
    assert!(rules.contains("table inet sidecar_init"), "{rules}");
    let check = [&["diff", "--cni-mode"], &FLAGS[..]].concat();
    pod.namespace.stdout(program().to_str().expect("UTF-8"), &check);
    // A second repair changes nothing; a repair after a change sets the rules again.
    let printed = succeed(&["--netns", &path], &["--output", "json", "--state-dir", state]);
    assert!(printed.contains("\"changed\": false"), "{printed}");
    pod.namespace.stdout("nft", &["flush", "chain", "inet", "sidecar_init", first_chain(&rules)]);
    assert_ne!(pod.rules(), rules);
    succeed(&["--netns", &path], &["--state-dir", state]);
    assert_eq!(pod.rules(), rules);
    let counters = fs::read_to_string(node.path("state/counters.json")).expect("counters");
    assert!(counters.contains(r#""repair":{"outcomes":{"repaired":3}"#), "{counters}");
}

fn first_chain(rules: &str) -> &str {
    rules.split("chain ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a chain")
}

#[test]
fn process_provides_the_name_servers() {
    let pod = Pod::new();
    let id = pod.process.id().to_string();
    succeed(&["--pid", &id], &["--redirect-dns"]);
    assert!(pod.rules().contains("10.9.8.7"), "{}", pod.rules());
    let output = repair(&["--netns", &pod.namespace.path()], &["--redirect-dns"]);
    assert!(output.with(2, "no name server").stderr.contains("--dns-servers"));
}

#[test]
fn all_errors_are_reported_together() {
    for (container, part) in [
        (&["--netns", "/nowhere"][..], "--netns: \"/nowhere\" can't be entered"),
        (&["--pid", "0"], "--pid: \"0\" is not a process"),
        (&["--pid", "x"], "--pid: \"x\" is not a process"),
        (&["--pid", "1", "--netns", "/x"], "--netns: contradicts --pid"),
        (&[], "--netns: is missing; identify"),
    ] {
        let printed = repair(container, &["-p", "0"]).with(2, part).stderr;
        assert!(printed.contains(part) && printed.contains("--envoy-port"), "{container:?}: {printed}");
    }
}
