//! Signals to the command, and root directories that a sandbox can start in.

use crate::cli::sandbox::support::{Programs, RunAs, USER};
use crate::support::folder::Folder;
use crate::support::program::{BINARY, Run};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

#[test]
fn signals_reach_the_command() {
    let programs = Programs::get();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        let name = &signal.as_str()[3..];
        let script = format!("trap 'exit 5' {name}; echo ready; while :; do sleep 0.05; done");
        let mut call = programs.call(RunAs::Root);
        // SIGINT may be ignored for tests in the background, and a shell cannot trap an ignored signal.
        let mut child = call
            .args(["--", "env", "--default-signal", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the sandbox starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        kill(Pid::from_raw(child.id().cast_signed()), signal).expect("our child");
        assert_eq!(child.wait().expect("the sandbox ends").code(), Some(5), "{signal}");
    }
}

/// A root directory that is not a mount point, as made by debootstrap, cannot be made private.
#[test]
fn sandbox_works_in_a_chroot_and_leaves_no_mounts() {
    let folder = Folder::new("chroot");
    let script = "cd \"$1\" && mkdir bin dev etc lib lib64 proc sys usr mnt && cp /etc/passwd /etc/resolv.conf etc && \
        for name in bin dev lib lib64 proc sys usr; do mount --rbind /$name $name; done && cp \"$2\" tool && \
        before=$(cat /proc/self/mountinfo) && chroot . /tool sandbox && test \"$before\" = \"$(cat /proc/self/mountinfo)\"";
    let mut call = Command::new("unshare");
    call.args(["--mount", "--propagation=shared", "sh", "-c", script, "sh"]).arg(&*folder).arg(BINARY);
    let text = call.outcome().with(0, "a tour in a chroot").stdout;
    assert!(text.contains("All 7 connections matched the rules."), "{text}");
}

/// Cargo's runner isolates root from the machine's network; other users need no isolation.
#[test]
fn cargo_runner_isolates_only_root() {
    let programs = Programs::get();
    let script = programs.folder.join("apart");
    crate::support::program::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/apart"), &script);
    let namespace = |command: &mut Command| {
        let output = command.args(["readlink", "/proc/self/ns/net"]).outcome();
        assert!(output.succeeded(), "{output:?}");
        output.stdout
    };
    let own = namespace(&mut Command::new("env"));
    assert_ne!(namespace(&mut Command::new(&script)), own);
    let user = USER.to_string();
    let words = ["--reuid", &user, "--regid", &user, "--clear-groups"];
    assert_eq!(namespace(Command::new("setpriv").args(words).arg(&script)), own);
    // A user with capabilities counts as root.
    let caps = ["--inh-caps", "+net_admin", "--ambient-caps", "+net_admin"];
    let output = Command::new("setpriv").args(words).args(caps).arg(&script).arg("true").outcome();
    assert!(!output.succeeded(), "the runner must refuse without isolation: {output:?}");
}
