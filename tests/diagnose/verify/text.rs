//! What people read, and how it ends.

use crate::diagnose::verify::pod::{DEFAULT, Pod};
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome};

fn run(pod: &Pod, words: &[&str]) -> Outcome {
    pod.inside.output(BINARY, words, "")
}

#[test]
fn a_failure_names_the_rule_and_the_option() {
    let pod = Pod::with(DEFAULT, "iptables-nft");
    pod.inside.stdout("iptables-nft", &["-t", "nat", "-D", "ISTIO_OUTPUT", "-j", "ISTIO_REDIRECT"]);
    let text = pod.run("verify", &[]).with(3, "a rule is missing").stdout;
    for part in [
        "fail tcp application      192.0.2.1:15002      not captured",
        "expected captured at 15001, because -i '*' redirects all other outbound traffic",
        "rule     nat ISTIO_OUTPUT -j ISTIO_REDIRECT, of --istio-service-cidr",
        "now      not captured: goes to 192.0.2.1:15002 as it was sent",
        "The rules differ: sidecar-init diff with the same flags shows how.",
        "1 not as expected",
    ] {
        // Lines may be broken anywhere.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&text).contains(&words(part)), "{part}\n{text}");
    }
    let mut table = text.lines();
    assert!(table.all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours where nobody sees them");
}

#[test]
fn a_packet_that_should_pass_and_is_captured_is_a_failure() {
    let pod = Pod::with(DEFAULT, "nftables");
    let verify = run(&pod, &["verify", "-i", "*", "-b", "*", "-x", "192.0.2.0/24"]);
    let text = verify.with(3, "captured by the rules, excluded by the flags").stdout;
    assert!(text.contains("expected not captured, because -x leaves 192.0.2.0/24 alone"), "{text}");
}

#[test]
fn a_manifest_says_it_as_well() {
    let pod = Pod::new(DEFAULT);
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/pod-istio.yaml");
    for command in ["apply", "verify", "diff"] {
        let ended = run(&pod, &[command, "-f", manifest]).with(0, command);
        assert!(!ended.stderr.contains("its addresses are not known"), "{command}: {}", ended.stderr);
    }
    let ended = run(&pod, &["render", "-f", manifest]).with(0, "render");
    assert!(ended.stderr.contains("its addresses are not known"), "{}", ended.stderr);
}

/// A reason for not trying is printed once, with its remedy, and does not count as a failure.
#[test]
fn a_reason_is_said_once() {
    let pod = Namespace::new();
    pod.stdout(BINARY, &["apply", "-i", "*", "-b", "*"]);
    pod.ip("link set lo down");
    let text = pod.output(BINARY, &["probe"], "").with(1, "by its former name").stdout;
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("not tried: ")).collect();
    assert!(lines.contains(&"4 connections not tried: lo is down: ip link set lo up"), "{text}");
    assert!(lines.len() <= 2 && !text.contains("fail"), "{text}");
}
