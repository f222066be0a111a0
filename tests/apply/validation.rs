//! `--run-validation`: real connections decide, and 126 says no.

use crate::support::namespace;

use namespace::Namespace;

const CAPTURE: [&str; 8] = ["-u", "1337", "-i", "*", "-b", "*", "--pod-ips", "10.0.0.1,fd00::1"];

fn run(pod: &Namespace, flags: &[&str]) -> (Option<i32>, String) {
    let arguments = [&["istio-iptables"], &CAPTURE[..], flags].concat();
    let output = pod.output(crate::support::program::BINARY, &arguments, "");
    (output.code, output.stderr.clone())
}

fn check(pod: &Namespace, flags: &[&str], expected: i32, says: &str) {
    let (code, stderr) = run(pod, flags);
    assert_eq!(code, Some(expected), "{flags:?}: {stderr}");
    assert!(stderr.contains(says), "{flags:?}: {stderr}");
}

#[test]
fn rules_that_were_just_set_are_proven() {
    for mode in ["REDIRECT", "TPROXY"] {
        for stack in ["--dual-stack=false", "--dual-stack"] {
            let pod = Namespace::new();
            check(&pod, &["-m", mode, stack, "--run-validation"], 0, "capture works");
        }
    }
}

#[test]
fn rules_of_somebody_else_are_proven_without_setting_any() {
    let pod = Namespace::new();
    check(&pod, &[], 0, "rules are in place");
    check(&pod, &["--skip-rule-apply", "--run-validation"], 0, "capture works");
}

#[test]
fn a_namespace_without_rules_fails_with_126_and_stays_empty() {
    let pod = Namespace::new();
    let flags = ["--skip-rule-apply", "--run-validation", "--probe-timeout", "100ms"];
    check(&pod, &flags, 126, "127.0.0.6:15002");
    assert_eq!(pod.stdout("nft", &["list", "ruleset"]), "");
}

#[test]
fn capture_of_ipv4_alone_does_not_prove_ipv6() {
    let pod = Namespace::new();
    check(&pod, &[], 0, "rules are in place");
    let flags = ["--dual-stack", "--skip-rule-apply", "--run-validation", "--probe-timeout", "100ms"];
    check(&pod, &flags, 126, "[::6]:15002");
}

/// Whatever leaves the probe port alone leaves another way to prove capture, or nothing to prove.
#[test]
fn flags_that_let_the_usual_call_pass_fail_nobody() {
    let pod = Namespace::new();
    check(&pod, &["-o", "15002", "--run-validation"], 0, "nothing to prove");
}
