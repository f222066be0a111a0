//! Upstream's rules without comments: recognized, taken over and removed nonetheless.

use crate::meshes::kuma::case::{Case, Dns};
use crate::meshes::kuma::drop_in::call;
use crate::meshes::kuma::same_rules::{capture, listed};
use crate::meshes::kuma::upstream;
use crate::support::engine::apply;
use crate::support::namespace::Namespace;
use crate::support::random::Random;
use crate::support::setting::{Family, Variant};

/// Another owner's rules, some like upstream's and without a mark of ownership.
const FOREIGN: &str = "*nat\n-A OUTPUT -d 192.0.2.1/32 -j RETURN\n-A OUTPUT -p udp --dport 5353 -j REDIRECT --to-ports 9\n\
                       COMMIT\n*mangle\n-A PREROUTING -m conntrack --ctstate INVALID -j DROP\nCOMMIT\n";
const FOREIGN_V6: &str = "*nat\n-A OUTPUT -p udp --dport 5353 -j REDIRECT --to-ports 9\nCOMMIT\n";

/// Configurations with all kinds of rules that are recognized without a comment, for each kind of DNS capture.
fn cases() -> [Case; 2] {
    let mut random = Random::new(5);
    let mut found = |is_such: fn(&Dns) -> bool| {
        let is_full = |case: &Case| {
            let makes_more = case.logs && !case.networks.is_empty() && !case.users.is_empty();
            let is_left = case.drops_invalid || !case.outbound.networks.is_empty();
            is_such(&case.dns) && !case.skips_split && makes_more && !is_left
        };
        std::iter::repeat_with(|| Case::random(&mut random)).find(is_full).expect("such a case")
    };
    let both = |dns: &Dns| matches!(dns, Dns::Servers(servers) if servers.len() > 1);
    [found(|dns| matches!(dns, Dns::All)), found(both)]
}

fn namespace(case: Option<&Case>, variant: Variant) -> Namespace {
    let namespace = Namespace::new();
    for (family, foreign) in [(Family::V4, FOREIGN), (Family::V6, FOREIGN_V6)] {
        namespace.restore(variant, family, foreign);
        if let Some(case) = case {
            namespace.restore(variant, family, &upstream::restore(case, family));
        }
    }
    namespace
}

fn rules(namespace: &Namespace, variant: Variant) -> Vec<String> {
    let mut found = Vec::new();
    for family in Family::BOTH {
        for ((table, chain), mut rules) in listed(namespace, variant, family) {
            rules.sort();
            found.extend(rules.iter().map(|rule| format!("{family:?} {table} {chain} {rule}")));
        }
    }
    found
}

#[test]
fn uncommented_upstream_rules_are_removed_and_foreign_ones_stay() {
    for variant in [Variant::Nft, Variant::Legacy] {
        let untouched = rules(&namespace(None, variant), variant);
        for case in cases() {
            let there = namespace(Some(&case), variant);
            let fresh = namespace(None, variant);
            apply(&fresh, &capture(&case), variant);
            apply(&there, &capture(&case), variant);
            assert_eq!(rules(&there, variant), rules(&fresh, variant), "{variant:?} {case:#?}");
            let there = namespace(Some(&case), variant);
            let ended = call(&there, &["uninstall", "transparent-proxy"]);
            assert_eq!(ended.code, Some(0), "{variant:?}: {}", ended.stderr);
            assert_eq!(rules(&there, variant), untouched, "{variant:?} {case:#?}");
        }
    }
}
