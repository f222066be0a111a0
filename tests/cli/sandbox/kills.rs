//! Killed at any moment, by any signal, a sandbox leaves no process, namespace, veth pair or rule.

use crate::cli::sandbox::support::{EVERYBODY, Programs, RunAs};
use crate::support::program::Run;
use crate::support::scope;
use crate::support::wait::{until, until_ok};
use nix::{
    net::if_::if_nameindex,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{collections::BTreeSet, fs, process, process::Stdio, thread, time::Duration};

const MARK: &str = "SIDECAR_INIT_TEST_MARK";

/// Processes with a mark in their environment, which children inherit.
fn marked(mark: &str) -> Vec<i32> {
    let desired = format!("{MARK}={mark}");
    let is_marked = |id: &i32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|one| one == desired.as_bytes())
    };
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_marked).collect()
}

fn namespaces(of: &[i32]) -> BTreeSet<String> {
    let namespace = |id: &i32| Some(fs::read_link(format!("/proc/{id}/ns/net")).ok()?.display().to_string());
    of.iter().filter_map(namespace).collect()
}

fn all_namespaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let ids: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    namespaces(&ids)
}

/// Waits until no process is in these namespaces. The kernel reuses a deleted namespace's number; a leaked namespace stays.
fn gone(made: &BTreeSet<String>, what: &str) {
    until_ok(|| match made & &all_namespaces() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{what}: {left:?} are left")),
    });
}

/// A field after the name in `/proc/PID/stat`; `None` for an ended process.
fn stat(id: i32, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(field).map(str::to_owned)
}

/// Start time of a process in ticks since boot; 0 for an ended one.
fn start(id: i32) -> u64 {
    stat(id, 19).and_then(|start| start.parse().ok()).unwrap_or(0)
}

fn links() -> Vec<String> {
    let links = if_nameindex().expect("links");
    links.into_iter().map(|link| link.name().to_string_lossy().into_owned()).collect()
}

/// Kills a process; returns true if the signal ended it. An ending process ignores the signal.
fn kill_running(id: i32) -> bool {
    let process = Pid::from_raw(id);
    let state = || stat(id, 0).and_then(|state| state.chars().next());
    // A stopped process cannot end by itself.
    let _ = kill(process, Signal::SIGSTOP);
    until("the process stops or ends", || matches!(state(), Some('T' | 'Z' | 'X') | None));
    let is_running = state() == Some('T');
    let _ = kill(process, Signal::SIGKILL);
    is_running
}

fn kill_after(who: RunAs, number: usize, words: &[&str], wait: Duration) {
    let mark = format!("{}-{who:?}-{number}-{}", process::id(), words.len());
    let own = namespaces(&[process::id().cast_signed()]);
    let before = links();
    let programs = Programs::get();
    let mut call = programs.call(who);
    call.args(words).env(MARK, &mark).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = call.spawn().expect("the sandbox starts");
    thread::sleep(wait);
    let mut made = BTreeSet::new();
    let mut there;
    let victim = loop {
        there = marked(&mark);
        // Process IDs wrap around.
        there.sort_by_cached_key(|id| (*id != child.id().cast_signed(), start(*id), *id));
        made.extend(&namespaces(&there) - &own);
        // The child itself, or the inner process, which is PID 1 inside.
        let victim = there.get(number % 2).or(there.first()).copied().unwrap_or(child.id().cast_signed());
        if kill_running(victim) || child.try_wait().expect("a child").is_some() {
            break victim;
        }
    };
    let end = format!("{who:?} after {wait:?}, {victim} of {there:?}: the caller ends");
    until(&end, || child.try_wait().expect("a child").is_some());
    until("its processes end", || marked(&mark).is_empty());
    gone(&made, &format!("{who:?} after {wait:?}"));
    assert_eq!(links(), before, "{who:?} after {wait:?}");
}

#[test]
fn nothing_is_left_after_a_kill_at_any_moment() {
    for who in EVERYBODY {
        for number in scope::of((0..14).collect(), 4) {
            // Denser at first, during the setup. The moments vary with the machine's load.
            let wait = Duration::from_millis(7 * (number * number) as u64 / 4 + number as u64);
            kill_after(who, number, &["--", "sleep", "300"], wait);
        }
    }
}

#[test]
fn nothing_is_left_of_a_killed_tour() {
    for number in 0..4 {
        kill_after(RunAs::Root, number, &["--redirect-dns"], Duration::from_millis(60 * (number as u64 + 1)));
    }
}

/// All descendants of the command end with it, even orphans.
#[test]
fn nothing_is_left_after_the_command() {
    for who in EVERYBODY {
        let mark = format!("{}-{who:?}-end", process::id());
        let programs = Programs::get();
        let mut call = programs.call(who);
        call.args(["--", "sh", "-c", "setsid sleep 300 & readlink /proc/self/ns/net; true"]).env(MARK, &mark);
        let output = call.stderr(Stdio::null()).outcome();
        assert!(output.succeeded(), "{output:?}");
        let namespace = output.stdout.trim().to_owned();
        assert!(namespace.starts_with("net:["), "{namespace}");
        until("its processes end", || marked(&mark).is_empty());
        gone(&BTreeSet::from([namespace]), &format!("{who:?}"));
    }
}
