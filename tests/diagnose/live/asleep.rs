//! Tables of nf_tables that are not what their rules say: dormant ones, those that a process holds for itself, and those of
//! bridges.

use super::{bare, explained_live, namespace::Namespace, pod_with};
use crate::support::program::{Outcome, Run, binary};
use crate::support::wait;
use std::{
    io::Write,
    process::{Command, Stdio},
};
use testkit::running::Running;

const REDIRECT: [&str; 4] = ["-i", "*", "-b", "*"];
const QUESTION: [&str; 3] = ["--uid", "1000", "10.0.0.5:443"];
const CAPTURED: &str = "captured: goes to the proxy's outbound port 15001";
const WAKE: &str = "add table ip nat";

fn ended(pod: &Namespace, arguments: &[&str]) -> Outcome {
    binary(&[arguments, &["--network-namespace", &pod.path()]].concat()).outcome()
}

fn expect(pod: &Namespace, arguments: &[&str], code: i32, words: &str) {
    let ended = ended(pod, arguments).with(code, &arguments.join(" "));
    // Text is folded to the width of a line.
    let printed = ended.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains(words), "{arguments:?} says nothing of {words:?}: {ended:?}");
}

fn of(verb: &'static str, backend: &'static str) -> Vec<&'static str> {
    let rules: &[&str] = if verb == "diff" { &["--rules"] } else { &[] };
    [&[verb, "--backend", backend][..], rules, &REDIRECT].concat()
}

/// To wake the table that all programs of iptables share would put rules of others into force.
#[test]
fn rules_are_not_set_in_a_dormant_table_of_iptables() {
    let pod = bare();
    pod.load("add table ip nat { flags dormant; }");
    let before = pod.stdout("nft", &["list", "ruleset"]);
    expect(&pod, &of("apply", "iptables-nft"), 1, &format!("nft {WAKE} wakes it"));
    assert_eq!(before, pod.stdout("nft", &["list", "ruleset"]), "a refused change left something");
    // It is none of ours where our own table captures.
    expect(&pod, &of("apply", "nftables"), 0, "");
    expect(&pod, &of("diff", "nftables"), 0, "");
    expect(&pod, &["clean"], 0, "");
    pod.load(WAKE);
    expect(&pod, &of("apply", "iptables-nft"), 0, "");
    expect(&pod, &of("diff", "iptables-nft"), 0, "");
}

#[test]
fn a_table_of_iptables_that_falls_asleep_captures_no_more() {
    let pod = pod_with("iptables-nft", &REDIRECT);
    assert!(explained_live(&pod, &QUESTION).starts_with(CAPTURED));
    pod.load("add table ip nat { flags dormant; }");
    let dormant = "table ip nat is dormant";
    assert!(explained_live(&pod, &QUESTION).starts_with("not captured"));
    expect(&pod, &[&["explain", "--live"][..], &QUESTION].concat(), 0, dormant);
    expect(&pod, &of("diff", "iptables-nft"), 3, "-table ip nat # flags dormant");
    expect(&pod, &of("apply", "iptables-nft"), 1, dormant);
    let status = ended(&pod, &["status"]).stdout;
    assert!(status.contains(dormant) && !status.contains("traffic is captured"), "{status}");
    expect(&pod, &["clean"], 0, "");
    assert!(!pod.stdout("nft", &["list", "ruleset"]).contains("ISTIO"), "clean leaves nothing of ours");
}

#[test]
fn our_own_table_is_woken() {
    let pod = pod_with("nftables", &REDIRECT);
    pod.load("add table inet sidecar_init { flags dormant; }");
    let dormant = "table inet sidecar_init is dormant";
    assert!(explained_live(&pod, &QUESTION).starts_with("not captured"));
    expect(&pod, &of("diff", "nftables"), 3, "-table inet sidecar_init # flags dormant");
    let status = ended(&pod, &["status"]).stdout;
    assert!(status.contains(dormant) && !status.contains("traffic is captured"), "{status}");
    expect(&pod, &of("apply", "nftables"), 0, "");
    assert!(explained_live(&pod, &QUESTION).starts_with(CAPTURED));
    assert!(!pod.stdout("nft", &["list", "table", "inet", "sidecar_init"]).contains("dormant"));
    expect(&pod, &of("diff", "nftables"), 0, "");
}

#[test]
fn dormant_tables_of_others_meet_no_packet() {
    for backend in ["nftables", "iptables-nft"] {
        let pod = pod_with(backend, &REDIRECT);
        for (table, chain) in [
            ("inet wall", "type filter hook output priority -310; drop;"),
            ("ip other", "type nat hook output priority -150; tcp dport 443 redirect to :9999;"),
            ("ip mangle", "type route hook output priority -150; drop;"),
            ("netdev front", "type filter hook ingress device lo priority 0; drop;"),
        ] {
            pod.load(&format!("table {table} {{ flags dormant; chain OUTPUT {{ {chain} }}; }}"));
        }
        assert!(explained_live(&pod, &QUESTION).starts_with(CAPTURED), "{backend}");
        expect(&pod, &of("diff", backend), 0, "");
        expect(&pod, &of("apply", backend), 0, "");
        expect(&pod, &["status"], 1, "table inet wall is dormant: no packet meets its rules");
    }
}

/// A process that has a table for itself, until this goes.
fn holder(pod: &Namespace, table: &str) -> Running {
    let mut child = pod.run(|| {
        let pipes = Command::new("nft").arg("-i").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        pipes.expect("nft is installed")
    });
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "add table {table} {{ flags owner; }}").expect("nft reads");
    // It ends with its input.
    child.stdin = Some(input);
    let line = format!("table {table}\n");
    wait::until(&line, || pod.stdout("nft", &["list", "tables"]).contains(&line));
    Running(child)
}

#[test]
fn a_table_that_a_process_holds_is_named_before_anything_changes() {
    let pod = bare();
    let owner = holder(&pod, "inet sidecar_init");
    let owned = "table inet sidecar_init has an owner, the process with netlink port";
    expect(&pod, &of("apply", "nftables"), 1, owned);
    expect(&pod, &of("diff", "nftables"), 3, "-table inet sidecar_init # flags owner");
    expect(&pod, &["clean"], 1, owned);
    expect(&pod, &["status"], 3, owned);
    drop(owner);
    expect(&pod, &of("apply", "nftables"), 0, "");

    let pod = bare();
    let _holder = holder(&pod, "ip nat");
    expect(&pod, &of("apply", "iptables-nft"), 1, "table ip nat has an owner");
    expect(&pod, &of("apply", "nftables"), 0, "");
    // One that is somebody's alone disturbs nobody.
    let _lock = holder(&pod, "inet lock");
    for arguments in [of("apply", "nftables"), of("diff", "nftables"), vec!["status"]] {
        let printed = ended(&pod, &arguments).text();
        assert!(!printed.contains("inet lock"), "{arguments:?}: {printed}");
    }
}

#[test]
fn a_table_of_bridges_is_a_reported_limit() {
    let pod = pod_with("nftables", &REDIRECT);
    pod.load("table bridge crossing { chain c { type filter hook prerouting priority 0; policy drop; }; }");
    let limit = "table bridge crossing sees packets that cross a bridge, which is not followed here";
    expect(&pod, &[&["explain", "--live"][..], &QUESTION].concat(), 0, limit);
    expect(&pod, &["status"], 1, limit);
    expect(&pod, &of("diff", "nftables"), 0, "");
}
