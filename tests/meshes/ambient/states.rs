//! States in which Istio's agent stops half-way, fails, or leaves rules behind: existing rules, rules of other owners, missing
//! parts.

use crate::support::namespace::Namespace;
use crate::support::program::{Run, binary};
use crate::support::setting::{Family, Variant};

fn run(pod: &Namespace, words: &[&str], code: i32) -> String {
    let path = pod.path();
    let output = binary(words).args(["--mesh", "ambient", "--network-namespace", &path]).outcome();
    output.with(code, &words.join(" ")).text()
}

/// Rules of both families for the native table, which holds both.
fn rules(pod: &Namespace, variant: Variant, family: Family) -> String {
    match variant {
        Variant::Native => pod.stdout("nft", &["--stateless", "list", "ruleset"]),
        Variant::Nft | Variant::Legacy => pod.stdout(&variant.program(family, "-save"), &[]),
    }
}

fn routing(pod: &Namespace, family: Family) -> String {
    let ip = if family == Family::V4 { "-4" } else { "-6" };
    pod.stdout("ip", &[ip, "rule"]) + &pod.stdout("ip", &[ip, "route", "show", "table", "all"])
}

/// Istio's agent keeps its IPv6 rules and routing.
#[test]
fn ipv6_that_is_switched_off_goes_and_comes_back() {
    for &variant in Variant::tried() {
        let pod = Namespace::new();
        let apply = ["apply", "--backend", variant.backend()];
        run(&pod, &apply, 0);
        run(&pod, &[&apply[..], &["--ipv6=false"]].concat(), 0);
        let v6 = rules(&pod, variant, Family::V6);
        assert!(!v6.contains("fd16:9254:7127:1337"), "{}: {v6}", variant.name());
        assert!(variant == Variant::Native || !v6.contains("-j ISTIO"), "{}: {v6}", variant.name());
        for (family, stays) in Family::BOTH.into_iter().zip([true, false]) {
            let routing = routing(&pod, family);
            assert_eq!(routing.contains("lookup 100"), stays, "{}: {routing}", variant.name());
            assert_eq!(routing.contains("table 100"), stays, "{}: {routing}", variant.name());
        }
        run(&pod, &["diff", "--ipv6=false"], 0);
        run(&pod, &apply, 0);
        run(&pod, &["diff"], 0);
    }
}

/// The agent keeps chains with the right number of rules, and fails on existing chains.
#[test]
fn foreign_rules_in_mesh_chains_are_removed_and_others_stay() {
    for variant in [Variant::Nft, Variant::Legacy] {
        let pod = Namespace::new();
        for family in Family::BOTH {
            let program = variant.program(family, "");
            let iptables = |words: &str| pod.stdout(&program, &words.split(' ').collect::<Vec<_>>());
            iptables("-t nat -N ISTIO_PRERT");
            iptables("-t nat -A ISTIO_PRERT -p tcp --dport 22 -j ACCEPT");
            iptables("-t nat -N ISTIO_OUTPUT");
            iptables("-t nat -A OUTPUT -p tcp --dport 9999 -j ACCEPT");
            iptables("-t nat -N OTHERS");
            iptables("-t nat -A PREROUTING -j OTHERS");
            iptables("-t mangle -A OUTPUT -p tcp --dport 7 -j ACCEPT");
        }
        run(&pod, &["apply", "--backend", variant.backend()], 0);
        run(&pod, &["diff"], 0);
        for family in Family::BOTH {
            let saved = pod.stdout(&variant.program(family, "-save"), &[]);
            assert!(!saved.contains("--dport 22 "), "{saved}");
            for theirs in ["-A OUTPUT -p tcp -m tcp --dport 9999 -j ACCEPT", "-A PREROUTING -j OTHERS"] {
                let jump = saved.find("-A OUTPUT -j ISTIO_OUTPUT").expect("our jump");
                assert!(
                    saved.find(theirs).is_some_and(|at| theirs.contains("OTHERS") || at > jump),
                    "{saved}"
                );
            }
        }
        run(&pod, &["clean"], 0);
        for family in Family::BOTH {
            let saved = pod.stdout(&variant.program(family, "-save"), &[]);
            assert!(!saved.contains("ISTIO"), "{saved}");
            assert!(saved.contains("--dport 9999") && saved.contains("--dport 7 "), "{saved}");
            assert!(saved.contains("-A PREROUTING -j OTHERS"), "{saved}");
        }
    }
}

/// The agent's removal stops at the first missing part, and its retry keeps the rules.
#[test]
fn clean_succeeds_with_missing_parts() {
    type Loss = (&'static str, &'static [&'static str]);
    let losses: [Loss; 5] = [
        ("ip", &["-4", "rule", "del", "pref", "32764"]),
        ("ip", &["-6", "rule", "del", "pref", "32764"]),
        ("ip", &["-4", "route", "flush", "table", "100"]),
        ("ip", &["-6", "route", "flush", "table", "100"]),
        ("nft", &["flush", "ruleset"]),
    ];
    let pod = Namespace::new();
    for variant in [Variant::Native, Variant::Nft] {
        for lost in 0..losses.len() {
            run(&pod, &["apply", "--backend", variant.backend()], 0);
            for (program, words) in &losses[..=lost] {
                pod.stdout(program, words);
            }
            run(&pod, &["clean"], 0);
            for family in Family::BOTH {
                let left = rules(&pod, Variant::Nft, family) + &routing(&pod, family);
                assert!(!left.contains("ISTIO") && !left.contains("table 100"), "{left}");
                assert!(!left.contains("32764:"), "{left}");
            }
            assert!(!rules(&pod, Variant::Native, Family::V4).contains("sidecar_init"));
            run(&pod, &["clean"], 0);
        }
    }
}
