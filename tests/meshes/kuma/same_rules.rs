//! Upstream's rules and the tool's, set by the real programs in separate namespaces, are equal character by character.

use crate::meshes::kuma::case::Case;
use crate::meshes::kuma::upstream;
use crate::support::engine;
use crate::support::namespace::Namespace;
use crate::support::random::{Random, number};
use crate::support::scope;
use crate::support::setting::{Family, Variant};
use mesh::Capture;
use std::collections::BTreeMap;

pub(crate) fn capture(case: &Case) -> Capture {
    engine::capture(case.settings())
}

/// Each chain's rules in each table of the program's listing, without comments and counters. Empty tables are omitted: listing
/// creates them.
pub(crate) fn listed(
    namespace: &Namespace,
    variant: Variant,
    family: Family,
) -> BTreeMap<(String, String), Vec<String>> {
    let text = namespace.stdout(&variant.program(family, "-save"), &[]);
    let mut chains: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut table = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            name.clone_into(&mut table);
        } else if let Some(rest) = line.strip_prefix(':') {
            let name = rest.split(' ').next().unwrap_or_default().to_owned();
            if name.starts_with("KUMA_") {
                chains.entry((table.clone(), name)).or_default();
            }
        } else if let Some(rest) = line.strip_prefix("-A ") {
            let (chain, rule) = rest.split_once(' ').unwrap_or((rest, ""));
            chains.entry((table.clone(), chain.to_owned())).or_default().push(without_comment(rule));
        }
    }
    chains
}

fn without_comment(rule: &str) -> String {
    let words: Vec<&str> = rule.split(' ').collect();
    let at = words.windows(3).position(|three| three[..2] == ["-m", "comment"] && three[2] == "--comment");
    match at {
        Some(at) => [&words[..at], &words[at + 4..]].concat().join(" "),
        None => rule.to_owned(),
    }
}

fn check(random: &mut Random, variant: Variant) {
    let case = Case::random(random);
    let capture = capture(&case);
    let (ours, theirs) = (Namespace::new(), Namespace::new());
    engine::apply(&ours, &capture, variant);
    for family in Family::BOTH {
        theirs.restore(variant, family, &upstream::restore(&case, family));
        let [mine, expected] = [&ours, &theirs].map(|namespace| listed(namespace, variant, family));
        assert_eq!(mine, expected, "{variant:?} {case:#?}");
    }
}

#[test]
fn any_configuration_has_upstream_rules() {
    let seed: u64 = number("KUMA_SEED", 1);
    for turn in scope::of((0..number("KUMA_CASES", 300)).collect(), 15) {
        let mut random = Random::new(seed ^ turn << 32);
        let variant = random.of(&[Variant::Nft, Variant::Legacy]);
        check(&mut random, variant);
    }
}
