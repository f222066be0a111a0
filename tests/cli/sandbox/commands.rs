//! Commands: their streams, signals and exit codes are the caller's; what is wrong with a call is told before anything is
//! made.

use crate::cli::sandbox::support::{EVERYBODY, Programs, RunAs, USER, sandbox};
use crate::support::program::{Outcome, Run};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

#[test]
fn streams_and_exit_codes_are_those_of_the_command() {
    for who in EVERYBODY {
        let programs = Programs::get();
        let mut call = programs.call(who);
        call.args(["--", "sh", "-c", "cat; id -u; echo oh >&2; exit 7"]);
        let mut child = call
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        child.stdin.take().expect("piped").write_all(b"said\n").expect("it reads");
        let ended = Outcome::from(child.wait_with_output().expect("it ends"));
        let uid = if who == RunAs::Root { 1000 } else { USER };
        assert_eq!(
            (ended.code, ended.stdout),
            (Some(7), format!("said\n{uid}\n")),
            "{who:?}: {}",
            ended.stderr
        );
        let lines: Vec<&str> = ended.stderr.lines().collect();
        match (who, lines.as_slice()) {
            (RunAs::One, [note, "oh"]) => assert!(note.contains("only one user is available here"), "{note}"),
            (RunAs::Root | RunAs::Many, ["oh"]) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn ends_are_told_as_shells_tell_them() {
    let code = |words: &[&str]| sandbox(RunAs::Root, words).code;
    assert_eq!(code(&["--", "true"]), Some(0));
    assert_eq!(code(&["--", "sh", "-c", "kill -9 $$"]), Some(137));
    // A real-time signal, which has no name.
    assert_eq!(code(&["--", "sh", "-c", "kill -64 $$"]), Some(192));
    assert_eq!(code(&["--", "/no/such/program"]), Some(127));
    assert_eq!(code(&["--", "/etc/passwd"]), Some(126));
    // A folder of PATH that the user may not enter hides nothing.
    let programs = Programs::get();
    let closed = programs.folder.join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
    std::fs::set_permissions(&closed, mode).expect("it is ours");
    let path = format!("{}:{}", closed.display(), std::env::var("PATH").unwrap_or_default());
    let ended = programs.call(RunAs::Root).env("PATH", path).args(["--", "no-such-program"]).outcome();
    assert_eq!(ended.code, Some(127), "{}", ended.stderr);
    assert!(ended.stderr.contains("user 1000 can start no program of this name"), "{}", ended.stderr);
    assert_eq!(code(&["--", "sh", "-c", "sleep 300 & exit 3"]), Some(3));
}

#[test]
fn signals_reach_the_command() {
    let programs = Programs::get();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        let name = &signal.as_str()[3..];
        let script = format!("trap 'exit 5' {name}; echo ready; while :; do sleep 0.05; done");
        let mut call = programs.call(RunAs::Root);
        // Whoever starts tests in the background has SIGINT ignored for all of them, and no shell can trap it then.
        let mut child = call
            .args(["--", "env", "--default-signal", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says so");
        assert_eq!(line, "ready\n");
        kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it is ours");
        assert_eq!(child.wait().expect("it ends").code(), Some(5), "{signal}");
    }
}

#[test]
fn whoever_runs_is_who_was_asked_for() {
    for who in [RunAs::Root, RunAs::Many] {
        for (as_whom, uid) in [("proxy", "1337"), ("root", "0")] {
            let ended = sandbox(who, &["--run-as", as_whom, "--", "id", "-u"]);
            assert_eq!(ended.stdout.trim(), uid, "{who:?}: {}", ended.stderr);
        }
        let ended = sandbox(who, &["--run-as", "proxy", "-u", "2000", "-g", "2001", "--", "id", "-g"]);
        assert_eq!(ended.stdout.trim(), "2001", "{who:?}: {}", ended.stderr);
    }
    let ended = sandbox(RunAs::One, &["--run-as", "proxy", "--", "id"]);
    assert!(
        ended.code == Some(1) && ended.stderr.contains("--run-as proxy needs several users"),
        "{ended:?}"
    );
}

#[test]
fn what_is_wrong_is_told_all_at_once() {
    let ended =
        sandbox(RunAs::Root, &["--proxy", "envoy", "--run-as", "me", "-b", "x", "curl", "--", "true"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for part in
        ["--proxy: \"envoy\"", "--run-as: \"me\"", "--istio-inbound-ports: \"x\"", "a command follows --"]
    {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    for words in [&["--proxy", "none"][..], &["--run-as", "app"], &["--run-as", "app", "--"]] {
        let ended = sandbox(RunAs::Root, words);
        assert!(ended.code == Some(2) && ended.stderr.contains("after --"), "{words:?}: {ended:?}");
    }
}

#[test]
fn what_can_t_be_had_is_said() {
    let ended = sandbox(RunAs::One, &["--backend", "iptables", "--", "true"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("only one user is available here"), "{ended:?}");
    // The agent has the port already.
    let ended = sandbox(RunAs::Root, &["-p", "15053", "--redirect-dns", "--", "true"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("the proxy does not start"), "{ended:?}");
    assert!(ended.stderr.contains("Address already in use"), "{ended:?}");
}

#[test]
fn names_have_addresses_there() {
    for who in EVERYBODY {
        let ended = sandbox(who, &["--", "getent", "ahosts", "reviews.example"]);
        assert!(ended.stdout.contains("10.9.0.2") && ended.stdout.contains("fd09::2"), "{who:?}: {ended:?}");
    }
    let ended = sandbox(RunAs::Root, &["--redirect-dns", "--", "getent", "ahosts", "reviews.example"]);
    assert!(ended.stdout.contains("10.9.0.2"), "{ended:?}");
    assert!(ended.stderr.contains("dns query for reviews.example -> 15053, from uid 1000\n"), "{ended:?}");
}

#[test]
fn it_is_process_1_of_its_own() {
    let ended = sandbox(RunAs::Root, &["--", "sh", "-c", "tr '\\0' ' ' </proc/1/cmdline"]);
    assert!(ended.stdout.contains("sidecar-init sandbox -- sh"), "{ended:?}");
}

/// What cargo runs everything by: root is kept from the machine's network, and nobody else needs to be.
#[test]
fn cargo_runs_root_apart_and_others_as_they_are() {
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
    // A right that the user has been given counts as root's.
    let caps = ["--inh-caps", "+net_admin", "--ambient-caps", "+net_admin"];
    let output = Command::new("setpriv").args(words).args(caps).arg(&script).arg("true").outcome();
    assert!(!output.succeeded(), "it can't leave the machine's network, and must not run there: {output:?}");
}
