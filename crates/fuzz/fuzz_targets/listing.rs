//! Fuzzes the parser of `iptables-save` output: rules that the model can express survive a round trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::{Chains, Family, Ownership, PolicyRules, check, parse, render};

/// Owns every chain.
const OWNER: Ownership = Ownership {
    name: "the owner",
    mesh: "owner",
    chains: Chains::Prefix(""),
    conflicting_chains: &[],
    comment: "sidecar-init",
    comment_prefix: None,
    table: "sidecar_init",
    protocol: 137,
    policy_rules: PolicyRules::PLAIN,
    address: Some(std::net::Ipv6Addr::LOCALHOST),
    predecessor: None,
    opt_out: "nothing is known",
    joined: &[],
};

fuzz_target!(|text: &str| {
    for family in Family::BOTH {
        let _ = parse::save(text, family, &OWNER);
        let Ok(rules) = parse::restore(text, family) else { continue };
        let Ok(checked) = check::check(rules, &OWNER) else { continue };
        let again = parse::restore(&render::iptables::restore(&checked), family);
        let again = again.expect("rendered rules parse");
        for table in rules::Table::ALL {
            let of = |rules: &rules::RuleSet| rules.of_table(table).cloned().collect::<Vec<_>>();
            assert_eq!(of(&again), of(checked.rules()));
        }
    }
});
