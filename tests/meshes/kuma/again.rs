//! What is there already: upstream's rules, our own of another time, and those of others.

use crate::meshes::kuma::case::Case;
use crate::meshes::kuma::same_rules::{apply, capture, listed, program, restore};
use crate::meshes::kuma::upstream;
use crate::support::namespace::Namespace;
use crate::support::random::Random;
use mesh::OWNERS;
use mesh::kuma::OWNERSHIP;
use sidecar_init::{
    backend::{Kernel, Variant, iptables::Lock},
    engine::{self, Choice},
    sys::namespace::within,
};
use std::path::Path;

const VARIANTS: [Variant; 2] = [Variant::Nft, Variant::Legacy];

/// Upstream's comments are prose of its own.
fn with_prose(text: &str) -> String {
    let comment = |line: &str| {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let (place, rule) = match words[..] {
            ["-A", chain, rule] => (format!("-A {chain}"), rule),
            ["-I", chain, rest] => {
                let (number, rule) = rest.split_once(' ').expect("a place");
                (format!("-I {chain} {number}"), rule)
            }
            _ => return line.to_owned(),
        };
        let prose =
            "say in many words, of which there are far more than sixty-three letters, what (a rule) is for";
        format!("{place} -m comment --comment \"kuma/mesh/transparent/proxy/{prose}\" {rule}")
    };
    text.lines().map(|line| comment(line) + "\n").collect()
}

fn clean(namespace: &Namespace) -> usize {
    let clean = || {
        let mut kernel =
            Kernel::open(Lock { wait: 30, ..Lock::default() }, OWNERSHIP).expect("it can be changed");
        engine::clean(&mut kernel, OWNERSHIP, OWNERS).map(|summary| summary.steps.len())
    };
    within(Path::new(&namespace.path()), clean).expect("it can be entered").expect("it is cleaned")
}

/// All rules of a family, comments included.
fn text(namespace: &Namespace, variant: Variant, v6: bool) -> String {
    let text = namespace.stdout(&program(variant, v6, "save"), &[]);
    text.lines().filter(|line| line.starts_with("-A")).map(|line| format!("{line}\n")).collect()
}

/// A configuration with all kinds of rules.
fn full() -> Case {
    let mut random = Random::new(3);
    let is_full = |case: &Case| {
        let dns = matches!(case.dns, crate::meshes::kuma::case::Dns::All) && !case.skips_split;
        dns && case.logs && case.drops_invalid && !case.networks.is_empty() && !case.users.is_empty()
    };
    std::iter::repeat_with(|| Case::random(&mut random)).find(is_full).expect("there is one")
}

const FOREIGN: &str = "*nat\n-N OTHERS\n-A OUTPUT -p tcp --dport 7 -j OTHERS\n-A OTHERS -m comment --comment KUMA_MESH -j RETURN\nCOMMIT\n";
const LEFT: &str =
    "-A OUTPUT -p tcp -m tcp --dport 7 -j OTHERS\n-A OTHERS -m comment --comment KUMA_MESH -j RETURN\n";

#[test]
fn what_upstream_has_set_is_taken_over_and_removed() {
    let case = full();
    for variant in VARIANTS {
        let namespace = Namespace::new();
        for v6 in [false, true] {
            restore(&namespace, variant, v6, FOREIGN);
            restore(&namespace, variant, v6, &with_prose(&upstream::restore(&case, v6)));
        }
        apply(&namespace, &capture(&case), Choice::Iptables(Some(variant)));
        for v6 in [false, true] {
            let rules = text(&namespace, variant, v6);
            assert!(!rules.contains("many words"), "{variant}: {rules}");
            let fresh = Namespace::new();
            restore(&fresh, variant, v6, FOREIGN);
            restore(&fresh, variant, v6, &upstream::restore(&case, v6));
            let count = |namespace: &Namespace| {
                listed(namespace, variant, v6).1.values().map(Vec::len).sum::<usize>()
            };
            assert_eq!(count(&namespace), count(&fresh), "{variant}: {rules}");
        }
        assert!(clean(&namespace) > 0);
        for v6 in [false, true] {
            assert_eq!(text(&namespace, variant, v6), LEFT, "{variant}");
        }
    }
}

#[test]
fn upstreams_rules_are_removed_without_ever_having_been_ours() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        for v6 in [false, true] {
            restore(&namespace, variant, v6, FOREIGN);
            restore(&namespace, variant, v6, &with_prose(&upstream::restore(&full(), v6)));
        }
        assert!(clean(&namespace) > 0);
        for v6 in [false, true] {
            assert_eq!(text(&namespace, variant, v6), LEFT, "{variant}");
        }
    }
}

#[test]
fn a_second_time_nothing_is_written_and_cleaning_leaves_nothing() {
    let capture = capture(&full());
    for choice in
        [Choice::Nftables, Choice::Iptables(Some(Variant::Nft)), Choice::Iptables(Some(Variant::Legacy))]
    {
        let namespace = Namespace::new();
        apply(&namespace, &capture, choice);
        let lines = || {
            let own = ["-s", "list", "ruleset"];
            let legacy = [false, true].map(|v6| text(&namespace, Variant::Legacy, v6)).concat();
            (namespace.stdout("nft", &own), legacy)
        };
        let before = lines();
        apply(&namespace, &capture, choice);
        assert_eq!(lines(), before, "{choice:?}");
        assert!(clean(&namespace) > 0);
        let (nft, legacy) = lines();
        assert_eq!(
            (nft.contains("kuma"), nft.contains("KUMA"), legacy.as_str()),
            (false, false, ""),
            "{nft}"
        );
        let addresses = namespace.stdout("ip", &["-6", "addr", "show", "dev", "lo"]);
        assert!(!addresses.contains("::6/"), "{addresses}");
    }
}

#[test]
fn dockers_dns_stays_reachable_for_the_proxy() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        let docker = "*nat\n-N DOCKER_OUTPUT\n-A OUTPUT -d 127.0.0.11/32 -j DOCKER_OUTPUT\n\
                      -A DOCKER_OUTPUT -d 127.0.0.11/32 -p udp --dport 53 -j DNAT --to-destination 127.0.0.11:5353\nCOMMIT\n";
        restore(&namespace, variant, false, docker);
        let words = ["install", "transparent-proxy", "--redirect-all-dns-traffic"];
        let ended = crate::meshes::kuma::drop_in::call(&namespace, &words, &[]);
        assert_eq!(ended.code, Some(0), "{variant}: {}", ended.stderr);
        let rules = text(&namespace, variant, false);
        let jump = "proxy-dns\" -j DOCKER_OUTPUT";
        assert!(rules.contains(jump) && !rules.contains("--zone"), "{variant}: {rules}\n{}", ended.stderr);
        let again = crate::meshes::kuma::drop_in::call(&namespace, &words, &[]);
        assert!(again.stderr.contains("changed=false"), "{variant}: {}", again.stderr);
        assert!(clean(&namespace) > 0);
        let left = text(&namespace, variant, false);
        assert_eq!(left.matches("DOCKER_OUTPUT").count(), 2, "{variant}: {left}");
    }
}
