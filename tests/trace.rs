//! `trace` against the kernel: connections are made, and the rules they meet are told.

#[path = "kernel/support/namespace.rs"]
mod namespace;

use namespace::{Namespace, join};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

const BINARY: &str = env!("CARGO_BIN_EXE_sidecar-init");

/// A pod and a peer at 10.77.0.3 and fd77::3.
fn pods() -> (Namespace, Namespace) {
    let (pod, peer) = (Namespace::new(), Namespace::new());
    join((&pod, "eth0", ["10.77.0.2/24", "fd77::2/64"]), (&peer, "eth0", ["10.77.0.3/24", "fd77::3/64"]));
    (pod, peer)
}

/// A trace that listens already.
fn start(pod: &Namespace, more: &[&str]) -> (Child, impl BufRead + use<>) {
    let mut command = Command::new(BINARY);
    command.args(["trace", "--network-namespace", &pod.path()]).args(more);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut told = BufReader::new(child.stderr.take().expect("standard error is piped"));
    let mut line = String::new();
    told.read_line(&mut line).expect("a line");
    assert!(line.contains("listening to NFLOG group 1337"), "{line}");
    (child, told)
}

/// What it printed until it ended well.
fn finish(mut child: Child, mut told: impl BufRead) -> String {
    let (mut text, mut rest) = (String::new(), String::new());
    child.stdout.take().expect("standard output is piped").read_to_string(&mut text).expect("UTF-8");
    told.read_to_string(&mut rest).expect("UTF-8");
    let status = child.wait().expect("it ends");
    assert!(status.success() && rest.is_empty(), "{status}: {rest}{text}");
    text
}

fn apply(pod: &Namespace, more: &[&str]) {
    let flags = ["apply", "-i", "*", "-b", "*", "--dual-stack", "--iptables-trace-logging"];
    pod.stdout(BINARY, &[&flags[..], more].concat());
}

/// Whoever answers: the rules have been met by then. Nobody listens at the proxy's port.
fn call(from: &Namespace, to: &str) {
    from.run(|| TcpStream::connect(to).expect_err("nobody listens"));
}

#[test]
fn rules_that_a_connection_meets_are_told() {
    let backends: [&[&str]; 3] = [
        &["--backend", "nftables"],
        &["--force-iptables-binary", "nft"],
        &["--force-iptables-binary", "legacy"],
    ];
    for backend in backends {
        for (to, source) in [("10.77.0.3:443", "10.77.0.2"), ("[fd77::3]:443", "fd77::2")] {
            let (pod, _peer) = pods();
            apply(&pod, backend);
            let filters = ["--destination", to, "--proto", "tcp", "--count", "3", "--format", "json"];
            let (child, told) = start(&pod, &filters);
            call(&pod, "127.0.0.1:9");
            call(&pod, to);
            let text = finish(child, told);
            let events: Vec<Value> =
                text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            let rules: Vec<&Value> = events.iter().map(|event| &event["rule"]).collect();
            assert_eq!(
                rules,
                ["outbound", "outbound-network", "to-outbound-listener"],
                "{backend:?}: {text}"
            );
            for event in &events {
                assert_eq!(event["source"], source, "{text}");
                assert_eq!((&event["hook"], &event["out_interface"]), (&"OUTPUT".into(), &"eth0".into()));
                assert_eq!((&event["uid"], &event["in_interface"]), (&0.into(), &Value::Null));
                assert_eq!((&event["protocol"], &event["destination_port"]), (&"tcp".into(), &443.into()));
            }
            assert_eq!(events[1]["options"][0], "--istio-service-cidr");
        }
    }
}

#[test]
fn inbound_lines_are_for_people() {
    let (pod, peer) = pods();
    apply(&pod, &[]);
    let (child, told) = start(&pod, &["--rule", "to-inbound-listener", "--count=1"]);
    call(&peer, "10.77.0.2:8080");
    let text = finish(child, told);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(
        words[1..6],
        ["to-inbound-listener", "(--inbound-capture-port)", "in", "eth0", "tcp"],
        "{text}"
    );
    assert!(words[6].starts_with("10.77.0.3:") && words[7..] == ["->", "10.77.0.2:8080"], "{text}");
}

#[test]
fn it_ends_when_asked_and_when_its_time_is_up() {
    let pod = Namespace::new();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (child, told) = start(&pod, &[]);
        kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it is there");
        assert_eq!(finish(child, told), "");
    }
    let (child, told) = start(&pod, &["--for", "1ms"]);
    assert_eq!(finish(child, told), "");
}

#[test]
fn a_second_listener_is_refused() {
    let pod = Namespace::new();
    let (child, told) = start(&pod, &[]);
    let output = pod.output(BINARY, &["trace"], "");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("another program may do so"), "{text}");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).expect("it is there");
    finish(child, told);
}

#[test]
fn all_problems_are_told_at_once() {
    let pod = Namespace::new();
    let asked =
        ["trace", "--rule", "no", "--proto", "sctp", "--destination", "x", "--count", "0", "--for", "1"];
    let output = pod.output(BINARY, &asked, "");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("error: 5 problems in the input"), "{text}");
}
