//! Istio's own rules beside the tool's: the agent's input for `iptables-restore` and the tool's rules, listed by the same
//! program, are equal character by character.

use crate::meshes::ambient::agent::{Options, for_iptables};
use crate::meshes::ambient::scene::config;
use crate::support::engine::apply;
use crate::support::namespace::Namespace;
use crate::support::random::Random;
use crate::support::rows::rows;
use crate::support::scope;
use crate::support::setting::{Family, Variant};
use sidecar_init::backend::CommitStep;

fn saved(namespace: &Namespace, variant: Variant, family: Family) -> Vec<String> {
    let text = namespace.stdout(&variant.program(family, "-save"), &[]);
    let lines: String =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let tables = lines.split_inclusive("COMMIT\n").filter(|table| table.contains("ISTIO"));
    let mut tables: Vec<String> = tables.map(str::to_owned).collect();
    tables.sort();
    tables
}

/// Removes everything that the agent sets, with the programs that it uses.
fn emptied(namespace: &Namespace, variant: Variant) {
    for (family, ip) in Family::BOTH.into_iter().zip(["-4", "-6"]) {
        let tables = "*mangle\nCOMMIT\n*nat\nCOMMIT\n*raw\nCOMMIT\n";
        namespace.fed(&variant.program(family, "-restore"), &[], tables);
        let routing = "rule del pref 32764\nroute flush table 100\n";
        namespace.output("ip", &[ip, "-force", "-batch", "-"], routing);
    }
}

/// Tests a sample of `count` configurations in both families. All share two namespaces: creating one takes longer than its tests.
fn check(variant: Variant, seed: u64, count: u64) {
    let mut random = Random::new(seed);
    let (theirs, ours) = (Namespace::new(), Namespace::new());
    let all = (0..count).map(|_| Options::random(&mut random)).collect();
    for given in scope::of(all, 8) {
        for namespace in [&theirs, &ours] {
            emptied(namespace, variant);
        }
        for family in given.families() {
            let restore = variant.program(family, "-restore");
            let text = for_iptables(&given, family);
            theirs.fed(&restore, &["--noflush", "-v"], &text);
        }
        let config = config(&given.flags());
        apply(&ours, &config, variant);
        for family in Family::BOTH {
            let [theirs, ours] = [&theirs, &ours].map(|namespace| saved(namespace, variant, family));
            assert_eq!(ours, theirs, "seed {seed}: {given:?}, {family:?}");
        }
        // After the agent, the rules are in place and only the routing is missing.
        let steps = apply(&theirs, &config, variant).steps;
        let is_routing = |step: &CommitStep| matches!(step, CommitStep::Add(_));
        assert!(!steps.is_empty() && steps.iter().all(is_routing), "seed {seed}: {given:?}: {steps:?}");
        let steps = apply(&theirs, &config, variant).steps;
        assert!(steps.is_empty(), "seed {seed}: {given:?}: {steps:?}");
    }
}

rows! {
    rules_are_the_agents_letter_for_letter_by_nft: check(Variant::Nft, 1, crate::support::random::number("AMBIENT_LISTINGS", 50));
    rules_are_the_agents_letter_for_letter_by_legacy: check(Variant::Legacy, 2, crate::support::random::number("AMBIENT_LISTINGS", 50));
}

/// The agent sets routing without a routing protocol; apply adopts it for each family. In the agent itself, an existing IPv4
/// policy rule prevents the IPv6 rule.
#[test]
fn the_agents_routing_is_taken_over() {
    for there in [&["-4"][..], &["-6"], &["-4", "-6"]] {
        let pod = Namespace::new();
        for family in there {
            let rule = ["rule", "add", "fwmark", "0x111/0xfff", "pref", "32764", "lookup", "100"];
            pod.stdout("ip", &[&[*family], &rule[..]].concat());
            pod.stdout("ip", &[family, "route", "add", "local", "default", "dev", "lo", "table", "100"]);
        }
        let given = Options { ipv6: true, ..Options::random(&mut Random::new(3)) };
        apply(&pod, &config(&given.flags()), Variant::Native);
        for family in ["-4", "-6"] {
            let rules = pod.stdout("ip", &["-d", family, "rule"]);
            let such: Vec<&str> = rules.lines().filter(|line| line.contains("lookup 100")).collect();
            assert!(matches!(such[..], [one] if one.contains("proto 138")), "{there:?}: {rules}");
            let routes = pod.stdout("ip", &[family, "route", "show", "table", "100"]);
            assert!(routes.lines().count() == 1 && routes.contains("proto 138"), "{there:?}: {routes}");
        }
    }
}
