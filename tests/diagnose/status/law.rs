//! Rules that say nothing about themselves are read as what the policy meant by them.

use crate::support::configurations::{self, Configuration};
use crate::support::random::Random;
use crate::support::scope;
use mesh::RuleReason;
use mesh::istio::OWNERSHIP;
use mesh::recognition::recognized;
use rules::simulate::View;
use rules::{Family, RuleSet, check::check, parse, render};
use std::collections::BTreeMap;

/// The reason of each rule that decides something, by its place.
fn places(view: &View) -> BTreeMap<(String, String, usize), Option<RuleReason>> {
    let reasons = recognized(view).into_iter().map(|rule| (rule.at, rule.reason));
    let decides = |at| view.rule(at).is_some_and(|rule| !rule.action.surely_continues());
    let place = |at: rules::simulate::At| {
        let chain = &view.chains()[at.chain];
        (chain.table.to_string(), chain.chain.clone(), at.rule)
    };
    reasons.filter(|(at, _)| decides(*at)).map(|(at, reason)| (place(at), reason)).collect()
}

fn compare(rules: &RuleSet, printed: &str) -> usize {
    let family = rules.family;
    let intended = places(&View::of_rules(rules));
    let checked = check(rules.clone(), &OWNERSHIP).expect("the policy makes valid rules");
    let text = render::iptables::restore(&checked);
    // Ours by their comment, and upstream's without any.
    for text in [text.clone(), text.replace("-m comment --comment \"sidecar-init\" ", "")] {
        let view = View::of_listing(parse::listing(&text, family).expect("our own text"));
        for (place, reason) in places(&view) {
            let expected = intended.get(&place).copied().flatten();
            // A group of the proxy's that is excluded as well has two rules that say the same.
            let is_both = printed.contains(",2000\")") || printed.contains("\"2000,");
            let is_ambiguous = (reason.map(RuleReason::name), expected.map(RuleReason::name))
                == (Some("proxy-outbound"), Some("excluded-group"));
            assert!(
                reason == expected || (is_both && is_ambiguous),
                "{printed}: {place:?} is {reason:?}, not {expected:?}, in\n{text}"
            );
        }
        // Where nothing of a table leads to chains of ours, an interface's rule without a comment may be anybody's.
        let found = places(&view);
        let mangle = text.split("* mangle").nth(1).and_then(|rest| rest.split("COMMIT").next()).unwrap_or("");
        let is_anybodys = |place: &(String, String, usize), reason: Option<RuleReason>| {
            place.0 == "mangle"
                && reason.map(RuleReason::name) == Some("excluded-interface")
                && !mangle.contains("-j ISTIO_")
        };
        for (place, reason) in intended.iter().filter(|(place, _)| !found.contains_key(place)) {
            assert!(is_anybodys(place, *reason), "{printed}: {place:?} is passed over in\n{text}");
        }
    }
    intended.len()
}

#[test]
fn rules_of_iptables_are_read_as_they_were_meant() {
    let mut random = Random::new(21);
    let mut compared = 0;
    let turns = scope::runs(400, 60);
    for turn in 0..turns {
        let configuration = Configuration::random(&mut random);
        let config = configuration.resolve(random.of(&["REDIRECT", "TPROXY"]));
        let printed = format!("{turn}: {:?}", configuration.parts);
        for family in Family::BOTH {
            compared += compare(&configurations::rules(&config, family), &printed);
        }
    }
    assert!(compared > 25 * turns, "only {compared} rules");
}

/// Whatever is before a listing's rules, the numbers that they have counted are read.
#[test]
fn counters_of_a_listing_are_read() {
    let text = "*nat\n:OUTPUT ACCEPT [7:8]\n:ISTIO_OUTPUT - [0:0]\n[12:720] -A OUTPUT -j ISTIO_OUTPUT\n\
                [18446744073709551615:1] -A ISTIO_OUTPUT -j RETURN\n-A ISTIO_OUTPUT -j RETURN\nCOMMIT\n";
    let listing = parse::listing(text, Family::V4).expect("a listing");
    let hits: Vec<_> = listing.chains.values().flat_map(|chain| &chain.rules).map(|rule| rule.hits).collect();
    let packets: Vec<_> = hits.iter().map(|hits| hits.map(|hits| (hits.packets, hits.bytes))).collect();
    assert_eq!(packets, [Some((12, 720)), Some((u64::MAX, 1)), None]);
}
