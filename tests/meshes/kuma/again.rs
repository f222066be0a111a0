//! Existing rules of upstream and of other owners.

use crate::meshes::kuma::case::Case;
use crate::meshes::kuma::same_rules::{capture, listed};
use crate::meshes::kuma::upstream;
use crate::support::engine::{apply, clean};
use crate::support::namespace::Namespace;
use crate::support::random::Random;
use crate::support::setting::{Family, Variant};
use mesh::Mesh;

const VARIANTS: [Variant; 2] = [Variant::Nft, Variant::Legacy];

/// Adds prose comments like upstream's.
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

fn text(namespace: &Namespace, variant: Variant, family: Family) -> String {
    let text = namespace.stdout(&variant.program(family, "-save"), &[]);
    text.lines().filter(|line| line.starts_with("-A")).map(|line| format!("{line}\n")).collect()
}

fn full() -> Case {
    let mut random = Random::new(3);
    let is_full = |case: &Case| {
        let dns = matches!(case.dns, crate::meshes::kuma::case::Dns::All) && !case.skips_split;
        dns && case.logs && case.drops_invalid && !case.networks.is_empty() && !case.users.is_empty()
    };
    std::iter::repeat_with(|| Case::random(&mut random)).find(is_full).expect("such a case")
}

const FOREIGN: &str = "*nat\n-N OTHERS\n-A OUTPUT -p tcp --dport 7 -j OTHERS\n-A OTHERS -m comment --comment KUMA_MESH -j RETURN\nCOMMIT\n";
const LEFT: &str =
    "-A OUTPUT -p tcp -m tcp --dport 7 -j OTHERS\n-A OTHERS -m comment --comment KUMA_MESH -j RETURN\n";

/// `clean` removes upstream's rules with or without a takeover.
#[test]
fn upstream_rules_are_taken_over_and_removed() {
    let case = full();
    for (variant, is_ours) in VARIANTS.into_iter().flat_map(|variant| [(variant, true), (variant, false)]) {
        let namespace = Namespace::new();
        for family in Family::BOTH {
            namespace.restore(variant, family, FOREIGN);
            namespace.restore(variant, family, &with_prose(&upstream::restore(&case, family)));
        }
        if is_ours {
            apply(&namespace, &capture(&case), variant);
        }
        for family in Family::BOTH.into_iter().filter(|_| is_ours) {
            let rules = text(&namespace, variant, family);
            assert!(!rules.contains("many words"), "{variant:?}: {rules}");
            let fresh = Namespace::new();
            fresh.restore(variant, family, FOREIGN);
            fresh.restore(variant, family, &upstream::restore(&case, family));
            let count = |namespace: &Namespace| {
                listed(namespace, variant, family).values().map(Vec::len).sum::<usize>()
            };
            assert_eq!(count(&namespace), count(&fresh), "{variant:?}: {rules}");
        }
        assert!(clean(&namespace, Mesh::Kuma) > 0);
        for family in Family::BOTH {
            assert_eq!(text(&namespace, variant, family), LEFT, "{variant:?}");
        }
    }
}

#[test]
fn dockers_dns_stays_reachable_for_the_proxy() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        let docker = "*nat\n-N DOCKER_OUTPUT\n-A OUTPUT -d 127.0.0.11/32 -j DOCKER_OUTPUT\n\
                      -A DOCKER_OUTPUT -d 127.0.0.11/32 -p udp --dport 53 -j DNAT --to-destination 127.0.0.11:5353\nCOMMIT\n";
        namespace.restore(variant, Family::V4, docker);
        let words = ["install", "transparent-proxy", "--redirect-all-dns-traffic"];
        let ended = crate::meshes::kuma::drop_in::call(&namespace, &words);
        assert_eq!(ended.code, Some(0), "{variant:?}: {}", ended.stderr);
        let rules = text(&namespace, variant, Family::V4);
        let jump = "proxy-dns\" -j DOCKER_OUTPUT";
        assert!(rules.contains(jump) && !rules.contains("--zone"), "{variant:?}: {rules}\n{}", ended.stderr);
        let again = crate::meshes::kuma::drop_in::call(&namespace, &words);
        assert!(again.stderr.contains("changed=false"), "{variant:?}: {}", again.stderr);
        assert!(clean(&namespace, Mesh::Kuma) > 0);
        let left = text(&namespace, variant, Family::V4);
        assert_eq!(left.matches("DOCKER_OUTPUT").count(), 2, "{variant:?}: {left}");
    }
}
