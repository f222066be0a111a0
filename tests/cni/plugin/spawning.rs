//! With nftables the plugin is one process from its start to its end, whatever it does.

use crate::cni::plugin::runtime::{Node, container, variables};
use crate::support::program::BINARY;
use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

#[test]
fn no_verb_starts_a_process() {
    let (node, pod) = (Node::new(), container());
    let (path, log) = (pod.path(), node.folder.join("calls"));
    for verb in ["ADD", "CHECK", "DEL", "STATUS"] {
        let mut child = Command::new("strace")
            .args(["-f", "-qq", "-e", "trace=process", "-o"])
            .arg(&log)
            .arg(BINARY)
            .envs(variables("c1", &path))
            .env("CNI_COMMAND", verb)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("strace");
        let input = node.capturing().to_string();
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success(), "{verb}");
        let calls = fs::read_to_string(&log).expect("a log");
        let started = calls.lines().filter(|line| line.contains("exec")).count();
        assert_eq!(started, 1, "{verb}: {calls}");
        for line in calls.lines().filter(|line| line.contains("clone") || line.contains("fork(")) {
            assert!(line.contains("CLONE_THREAD") || line.contains("resumed"), "{verb}: {line}");
        }
    }
}
