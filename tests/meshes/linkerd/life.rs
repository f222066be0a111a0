//! What the drop-in does beside setting rules, and by which names it is called.

use crate::meshes::linkerd::{Namespace, call, listed};
use crate::support::folder::Folder;
use crate::support::program::{BINARY, Run};
use std::os::unix::fs::symlink;
use std::process::Command;

const GOOD: [&str; 7] = ["linkerd-init", "-p", "4143", "-o", "4140", "-u", "2102"];
const CLOSE_WAIT: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";

#[test]
fn upstreams_names_call_it() {
    let folder = Folder::new("linkerd-names");
    for name in ["proxy-init", "linkerd2-proxy-init"] {
        let program = folder.join(name);
        symlink(BINARY, &program).expect("a link");
        let mut command = Command::new(&program);
        let output = command.args(["-p", "4143", "-o", "4140", "--simulate"]).outcome().with(0, name);
        assert!(output.stdout.contains("-N PROXY_INIT_REDIRECT"), "{name}");
    }
}

#[test]
fn how_long_closed_connections_are_remembered_is_set_in_the_pod_and_only_there() {
    let (pod, host) = (Namespace::new(), Namespace::new());
    let read =
        |space: &Namespace| space.run(|| std::fs::read_to_string(CLOSE_WAIT)).expect("conntrack is there");
    let before = read(&host);
    let path = pod.path();
    let flags = ["--netns", &path, "--timeout-close-wait-secs", "77"];
    // A simulation sets nothing.
    call(Some(&host), &[&GOOD[..], &flags, &["--simulate"]].concat()).with(0, "linkerd");
    assert_eq!(read(&pod), before);
    call(Some(&host), &[&GOOD[..], &flags].concat()).with(0, "linkerd");
    assert_eq!((read(&pod).trim(), read(&host)), ("77", before.clone()));
    assert!(!listed(&host, "iptables-nft").concat().contains("PROXY_INIT"));
    // What the kernel does not take leaves everything as it was.
    let fresh = Namespace::new();
    let far = ["--timeout-close-wait-secs", "2147483647"];
    let ended = call(Some(&fresh), &[&GOOD[..], &far].concat()).with(1, "linkerd");
    assert!(
        ended.stderr.contains("--timeout-close-wait-secs can't be set to 2147483647"),
        "{}",
        ended.stderr
    );
    assert_eq!(read(&fresh), before);
    assert!(!listed(&fresh, "iptables-nft").concat().contains("PROXY_INIT"));
}
