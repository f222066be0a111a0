//! A namespace by its name, by a process in it, and by neither.

use crate::support::folder::Folder;
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::program::{Outcome, Run, binary};
use crate::support::wait;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = crate::support::program::BINARY;
const CAPTURE: [&str; 6] = ["--pod-ips", "10.77.0.2", "-i", "*", "-b", "*"];

/// In a mount namespace of its own, so that the machine's names stay as they are.
#[test]
fn a_name_of_ip_netns_is_enough() {
    let script = format!(
        "mount -t tmpfs none /run && ip netns add payments && ip netns add db && \
         {PROGRAM} apply --network-namespace payments --pod-ips 10.77.0.2 -i '*' -b '*' && \
         ip netns exec payments nft list tables && ip netns exec db nft list tables && \
         {PROGRAM} clean --network-namespace paymnets"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-c", &script]);
    let output = command.outcome();
    let stderr = &output.stderr;
    assert_eq!(output.code, Some(2), "{stderr}");
    // One of the two has it.
    assert_eq!(output.stdout.trim(), "table inet sidecar_init", "{stderr}");
    assert!(stderr.contains("known names: db, payments"), "{stderr}");
    assert!(stderr.contains("did you mean payments?"), "{stderr}");
}

/// In a mount namespace of its own, as above.
#[test]
fn names_are_completed() {
    for (flag, start, expected) in [
        ("status --network-namespace", "", "db\npayments\n"),
        ("status --network-namespace", "p", "payments\n"),
        ("cni repair --netns", "d", "db\n"),
        ("status --network-namespace", "/run/ne", ""),
    ] {
        let line = format!("sidecar-init {flag} '{start}'");
        // Containers of the machine are proposed as well.
        let script = format!(
            "mount -t tmpfs none /run && ip netns add payments && ip netns add db && \
             {PROGRAM} completions bash -- {line} | grep -vxE 'words|files|[0-9a-f]{{12}}' || true"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-c", &script]);
        assert_eq!(command.outcome().with(0, &line).stdout, expected, "{line}");
    }
}

#[test]
fn a_process_names_its_namespace() {
    let (namespace, elsewhere) = (Namespace::new(), Namespace::new());
    let start = || Command::new("sleep").arg("600").stdin(Stdio::null()).spawn();
    let mut child = namespace.run(start).expect("sleep starts");
    let name = format!("pid:{}", child.id());
    let within = [&["apply", "--network-namespace", &name], &CAPTURE[..]].concat();
    let ended = run(&elsewhere, &within);
    let compared = run(&namespace, &[&["diff"], &CAPTURE[..]].concat());
    let there =
        run(&elsewhere, &["cni", "repair", "--netns", &name, "-i", "*", "-b", "*", "--pod-ips", "10.77.0.2"]);
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    ended.with(0, "apply by a process");
    compared.with(0, "check inside");
    there.with(0, "repair by a process");
    let gone = run(&elsewhere, &within).with(2, "a process that has ended").stderr;
    assert!(gone.contains(&format!("--network-namespace: {name:?} is not there: no process")), "{gone}");
    assert_eq!(elsewhere.stdout("nft", &["list", "tables"]), "", "only where it was asked for");
    succeed(&namespace, &["clean"]);
}

/// A process with files of its own, in a user namespace of its own: its user 1337 is user 101337 here (`hostUsers: false`).
struct Pod {
    process: Child,
    _files: Folder,
}

impl Pod {
    fn new() -> Self {
        let files = Folder::new("pod");
        let write = |name: &str, text: &str| std::fs::write(files.join(name), text).expect("written");
        write("resolv.conf", "nameserver 10.9.8.7\n");
        write("passwd", "root:x:0:0::/:/bin/sh\nmesh-proxy:x:1337:1337::/:/bin/sh\n");
        write("hosts", "10.77.0.9 payments.test payments\n");
        let bind = |name: &str| format!("mount --bind {}/{name} /etc/{name} && ", files.display());
        let script = format!(
            "read go && {} ip link set lo up && ip addr add 10.77.0.2/32 dev lo && echo ready && exec sleep 600",
            ["resolv.conf", "passwd", "hosts"].map(bind).concat()
        );
        let mut command = Command::new("unshare");
        command.args(["--user", "--mount", "--net", "sh", "-c", &script]);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare starts");
        let mut pod = Self { process, _files: files };
        let own = std::fs::read_link("/proc/self/ns/user").expect("a link");
        wait::until("a user namespace", || {
            std::fs::read_link(pod.file("ns/user")).is_ok_and(|there| there != own)
        });
        for map in ["uid_map", "gid_map"] {
            std::fs::write(pod.file(map), "0 0 1\n1 100001 65534\n").expect("root may map");
        }
        pod.process.stdin.take().expect("a pipe").write_all(b"go\n").expect("the shell waits");
        let mut answer = [0; 6];
        pod.process.stdout.take().expect("a pipe").read_exact(&mut answer).expect("the pod is ready");
        pod
    }

    fn file(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.process.id())
    }

    fn rules(&self) -> String {
        let target = self.process.id().to_string();
        Command::new("nsenter")
            .args(["--target", &target, "--net", "nft", "list", "ruleset"])
            .outcome()
            .success()
            .stdout
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn called(words: &[&str]) -> Outcome {
    binary(words).outcome()
}

#[test]
fn facts_are_those_of_the_pod() {
    let pod = Pod::new();
    let name = format!("pid:{}", pod.process.id());
    let capture = ["-i", "*", "-b", "*", "--redirect-dns", "--proxy-uid", "mesh-proxy"];
    let there = |words: &[&str]| called(&[words, &["--network-namespace", &name]].concat());
    there(&[&["apply", "--backend", "nftables"], &capture[..]].concat()).success();
    let rules = pod.rules();
    assert!(rules.contains("10.9.8.7") && rules.contains("skuid 1337"), "{rules}");
    let explained =
        there(&[&["explain", "payments:80", "--backend", "nftables"], &capture[..]].concat()).success();
    assert!(explained.stdout.contains("10.77.0.9"), "{}", explained.stdout);
    // A namespace alone has no files.
    let elsewhere = Namespace::new();
    elsewhere.ip("addr add 10.77.0.2/32 dev lo");
    let path = elsewhere.path();
    let words = [&["apply", "--network-namespace", &path], &capture[..]].concat();
    for words in [words.clone(), [&words[..], &["--dry-run", "--pod-ips", "10.77.0.2"]].concat()] {
        let refused = called(&words).with(2, "what is the pod's is not known");
        for part in [
            "--proxy-uid: \"mesh-proxy\" can't be looked up: ",
            "--dns-servers: resolv.conf can't be read: a namespace's name",
        ] {
            assert!(refused.stderr.contains(part), "{}", refused.stderr);
        }
    }
    let declared = ["--network-namespace", &path, "-i", "*", "--redirect-dns", "--dns-servers", "10.9.8.7"];
    called(&[&["apply"], &declared[..]].concat()).success();
}

/// The kernel compares users as the owner of the network namespace numbers them.
#[test]
fn users_are_numbered_as_in_the_pod() {
    let pod = Pod::new();
    let id = pod.process.id().to_string();
    let (name, capture) = (format!("pid:{id}"), ["-i", "*", "-b", "*"]);
    called(&[&["apply", "--network-namespace", &name], &capture[..]].concat()).success();
    let tried = called(&[&["verify", "--network-namespace", &name], &capture[..]].concat());
    tried.with(0, "the rules work");
    called(&[&["cni", "repair", "--pid", &id], &capture[..]].concat()).with(0, "the rules work");
    called(&["clean", "--network-namespace", &name]).success();
    let tried = called(&[&["verify", "--network-namespace", &name], &capture[..]].concat());
    tried.with(3, "no rules are there");
}
