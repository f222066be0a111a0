//! `status --watch`: blocks in a pipe, redrawn in place on a terminal, and a clean end.

use crate::support::namespace::{Namespace, succeed};
use crate::support::program::binary;
use crate::support::terminal::terminal;
use crate::support::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus, Stdio};
use testkit::running::Running;

fn pod() -> Namespace {
    let pod = Namespace::new();
    let flags = ["apply", "--backend", "nftables", "--pod-ips", "10.77.0.2", "-i", "*", "-b", "*"];
    succeed(&pod, &flags);
    pod
}

fn end(child: Child, signal: Signal) -> ExitStatus {
    let mut child = Running(child);
    kill(Pid::from_raw(child.id().cast_signed()), signal).expect("the program runs");
    wait::until_ok(|| child.try_wait().expect("our child").ok_or_else(|| "its end".to_owned()))
}

#[test]
fn a_pipe_gets_block_after_block() {
    let pod = pod();
    let mut command = binary(&["status", "--watch", "--interval", "100ms"]);
    let mut child = pod.run(|| command.stdout(Stdio::piped()).spawn()).expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut heads = 0;
    let mut text = String::new();
    while heads < 3 {
        let line = lines.next().expect("another line").expect("UTF-8");
        heads += usize::from(line.ends_with(", every 100ms"));
        text.push_str(&line);
        text.push('\n');
    }
    assert!(text.contains("Traffic") || text.contains("traffic is captured"), "{text}");
    assert!(text.contains("0.0/s"), "rates from the second reading on: {text}");
    assert!(!text.contains('\x1b'), "a pipe gets no colours and no cursor: {text:?}");
    assert_eq!(end(child, Signal::SIGTERM).code(), Some(0));
}

#[test]
fn json_has_a_line_per_reading_with_rates() {
    let pod = pod();
    let mut command = binary(&["status", "--watch", "--interval", "100ms", "--output", "json"]);
    let mut child = pod.run(|| command.stdout(Stdio::piped()).spawn()).expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut look = || -> Value {
        let line = lines.next().expect("another line").expect("UTF-8");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let first = look();
    assert_eq!(first["version"], 1);
    assert!(first["hits"][0]["per_second"].is_null(), "the first reading has no rates");
    assert_eq!(look()["hits"][0]["per_second"], 0.0);
    assert_eq!(end(child, Signal::SIGINT).code(), Some(0));
}

/// A pipe closed by its reader is not a failure.
#[test]
fn closed_pipe_is_not_a_failure() {
    let pod = pod();
    let mut command = binary(&["status", "--watch", "--interval", "100ms"]);
    let mut child = pod.run(|| command.stdout(Stdio::piped()).spawn()).expect("the program starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("the program ends").code(), Some(0));
}

#[test]
fn terminal_is_redrawn_and_restored() {
    let pod = pod();
    let (mut screen, slave) = terminal(100);
    let mut command = binary(&["status", "--watch", "--interval", "100ms"]);
    command.env("TERM", "xterm").stdout(slave);
    let child = pod.run(|| command.spawn()).expect("the program starts");
    drop(command);
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    let redraw = b"\x1b[H\x1b[J";
    let redraws = |seen: &[u8]| seen.windows(redraw.len()).filter(|window| window == redraw).count();
    while redraws(&seen) < 3 {
        let length = screen.read(&mut buffer).expect("a redraw");
        seen.extend(&buffer[..length]);
    }
    assert!(seen.starts_with(b"\x1b[?1049h\x1b[?25l"), "{:?}", String::from_utf8_lossy(&seen));
    let status = end(child, Signal::SIGINT);
    // Reading fails once the terminal's last program has ended.
    while let Ok(length @ 1..) = screen.read(&mut buffer) {
        seen.extend(&buffer[..length]);
    }
    let text = String::from_utf8_lossy(&seen);
    assert_eq!(status.code(), Some(0), "{text}");
    let (_, after) = text.rsplit_once("\x1b[?25h\x1b[?1049l").expect("the terminal is restored");
    assert!(after.contains("Into the pod"), "the last output stays: {after}");
    assert!(text.contains("\x1b[1m"), "a terminal gets colours");
}
