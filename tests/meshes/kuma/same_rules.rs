//! Upstream's rules and ours, each in a namespace of its own by the real programs: equal letter for letter.

use crate::meshes::kuma::case::Case;
use crate::meshes::kuma::upstream;
use crate::support::namespace::Namespace;
use crate::support::random::{Random, number};
use crate::support::scope;
use mesh::kuma::OWNERSHIP;
use mesh::sources::{NullHost, Raw};
use mesh::{Capture, CapturePolicy, OWNERS};
use sidecar_init::{
    backend::{Kernel, Variant, iptables::Lock},
    engine::{self, Choice, Options},
    sys::namespace::within,
};
use std::{collections::BTreeMap, path::Path};

pub(crate) fn capture(case: &Case) -> Capture {
    let raw = Raw::new(case.settings(), |_| true, |_| None);
    mesh::resolve(&raw, &NullHost, Vec::new())
        .unwrap_or_else(|problems| panic!("{case:?}: {problems}"))
        .capture
}

/// Sets our rules.
pub(crate) fn apply(namespace: &Namespace, capture: &Capture, choice: Choice) {
    let options = Options::replacing(choice, OWNERS);
    let policy: &dyn CapturePolicy = &**capture;
    let desired = policy.desired();
    let set = || {
        let mut kernel =
            Kernel::open(Lock { wait: 30, ..Lock::default() }, OWNERSHIP).expect("it can be changed");
        engine::apply(&mut kernel, &desired, &options).map(|_| ())
    };
    within(Path::new(&namespace.path()), set).expect("it can be entered").expect("the rules are set");
}

/// A program of a variant and a family.
pub(crate) fn program(variant: Variant, v6: bool, verb: &str) -> String {
    let infix = match variant {
        Variant::Nft => "nft",
        Variant::Legacy => "legacy",
    };
    format!("{}-{infix}-{verb}", if v6 { "ip6tables" } else { "iptables" })
}

/// Puts a text in as upstream does.
pub(crate) fn restore(namespace: &Namespace, variant: Variant, v6: bool, text: &str) {
    namespace.fed(&program(variant, v6, "restore"), &["--noflush"], text);
}

/// The rules of each chain of each table, as the program lists them, without comments and counters. Chains of tables that
/// nothing is in are left out: who lists them has made them.
pub(crate) fn listed(
    namespace: &Namespace,
    variant: Variant,
    v6: bool,
) -> (String, BTreeMap<(String, String), Vec<String>>) {
    let text = namespace.stdout(&program(variant, v6, "save"), &[]);
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
    (text, chains)
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
    apply(&ours, &capture, Choice::Iptables(Some(variant)));
    for v6 in [false, true] {
        restore(&theirs, variant, v6, &upstream::restore(&case, v6));
        let (_, mine) = listed(&ours, variant, v6);
        let (_, expected) = listed(&theirs, variant, v6);
        assert_eq!(mine, expected, "{variant} {case:#?}");
    }
}

#[test]
fn any_configuration_makes_upstreams_rules() {
    let seed: u64 = number("KUMA_SEED", 1);
    for turn in scope::of((0..number("KUMA_CASES", 300)).collect(), 15) {
        let mut random = Random::new(seed ^ turn << 32);
        let variant = random.of(&[Variant::Nft, Variant::Legacy]);
        check(&mut random, variant);
    }
}
