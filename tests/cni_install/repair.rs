//! A container that runs without its rules gets them from the node.

use crate::cni_install::node::{Node, program};
use crate::support::namespace::Namespace;
use std::{
    fs,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A pod: a network namespace, and a process in it that sees files of its own.
struct Pod {
    namespace: Namespace,
    process: Child,
}

impl Pod {
    fn new() -> Self {
        let namespace = Namespace::new();
        namespace
            .ip("link add eth0 type veth peer name far\naddr add 10.77.0.2/24 dev eth0\nlink set eth0 up");
        let script =
            "mount -t tmpfs none /etc && echo nameserver 10.9.8.7 >/etc/resolv.conf && exec sleep 600";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).stdout(Stdio::null());
        let process = namespace.run(|| command.spawn()).expect("unshare starts");
        let end = Instant::now() + Duration::from_secs(20);
        let name = || fs::read_to_string(format!("/proc/{}/comm", process.id())).unwrap_or_default();
        while name() != "sleep\n" {
            assert!(Instant::now() < end, "the pod does not start");
            thread::sleep(Duration::from_millis(5));
        }
        Self { namespace, process }
    }

    fn rules(&self) -> String {
        crate::support::note::without_note(&self.namespace.stdout("nft", &["--stateless", "list", "ruleset"]))
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const FLAGS: [&str; 6] = ["-u", "1337", "-i", "*", "-b", "*"];

fn repair(container: &[&str], more: &[&str]) -> Output {
    let arguments = [&["cni", "repair"], container, &FLAGS, more].concat();
    Command::new(program()).args(arguments).output().expect("the program starts")
}

#[track_caller]
fn succeed(container: &[&str], more: &[&str]) -> String {
    let output = repair(container, more);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    told + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn a_namespace_by_its_path() {
    let (pod, node) = (Pod::new(), Node::new());
    let state = node.path("state");
    fs::create_dir(&state).expect("a folder");
    let state = state.to_str().expect("UTF-8");
    let path = pod.namespace.path();
    succeed(&["--netns", &path], &["--run-validation", "--state-dir", state]);
    let rules = pod.rules();
    assert!(rules.contains("table inet sidecar_init"), "{rules}");
    let check = [&["check", "--cni-mode"], &FLAGS[..]].concat();
    let compared = pod.namespace.output(program().to_str().expect("UTF-8"), &check, "");
    assert_eq!(compared.status.code(), Some(0), "{compared:?}");
    // Again there is nothing to do, and after somebody's change there is.
    let told = succeed(&["--netns", &path], &["--format", "json", "--state-dir", state]);
    assert!(told.contains("\"changed\": false"), "{told}");
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
fn a_process_whose_files_say_what_the_namespace_does_not() {
    let pod = Pod::new();
    let id = pod.process.id().to_string();
    succeed(&["--pid", &id], &["--redirect-dns"]);
    assert!(pod.rules().contains("10.9.8.7"), "{}", pod.rules());
    let output = repair(&["--netns", &pod.namespace.path()], &["--redirect-dns"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--dns-servers"), "{output:?}");
}

#[test]
fn what_can_not_be_entered_is_told_with_all_else() {
    for (container, part) in [
        (&["--netns", "/nowhere"][..], "--netns: \"/nowhere\" can't be entered"),
        (&["--pid", "0"], "--pid: \"0\" is no process"),
        (&["--pid", "x"], "--pid: \"x\" is no process"),
        (&["--pid", "1", "--netns", "/x"], "--netns: contradicts --pid"),
        (&[], "--netns: is not given, nor --pid"),
    ] {
        let output = repair(container, &["-p", "0"]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(part) && told.contains("--envoy-port"), "{container:?}: {told}");
    }
}
