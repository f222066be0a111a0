//! Rules without comments are recognized with the meaning that the policy gave them, for every mesh.

use crate::random_tests::any_of;
use mesh::recognition::recognized;
use mesh::{Capture, Mesh, RuleReason};
use proptest::{strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use rules::simulate::{At, View};
use rules::{Family, parse, render};
use std::collections::BTreeMap;
use testkit::scope;

type Place = (String, String, usize);

/// Reason and text of each deciding rule, by its place.
fn places(view: &View) -> BTreeMap<Place, (Option<RuleReason>, Option<&str>)> {
    let decides = |at: At| view.rule(at).is_some_and(|rule| !rule.action.surely_continues());
    let place = |at: At| {
        let chain = &view.chains()[at.chain];
        (chain.table.to_string(), chain.chain.clone(), at.rule)
    };
    let words = |at: At| view.rule(at).and_then(|rule| rule.text.as_deref());
    let rules = recognized(view).into_iter().filter(|rule| decides(rule.at));
    rules.map(|rule| (place(rule.at), (rule.reason, words(rule.at)))).collect()
}

/// Returns the number of compared rules.
fn compare(capture: &Capture, family: Family) -> usize {
    let rules = capture.rules(family);
    let made = View::of_rules(rules.rules());
    let intended = places(&made);
    let text = render::iptables::restore(&rules);
    // Our rules with their comment, and upstream's without any.
    for text in [text.clone(), text.replace("-m comment --comment \"sidecar-init\" ", "")] {
        let view = View::of_listing(parse::listing(&text, family).expect("our own text"));
        let found = places(&view);
        for (place, (reason, words)) in &found {
            // Equal rules in a chain may have each other's reason.
            let is_alike = |(other, (_, said)): &(&Place, &(_, Option<&str>))| {
                (&other.0, &other.1) == (&place.0, &place.1) && said == words
            };
            let mut alike = found.iter().filter(is_alike).filter_map(|(other, _)| intended.get(other));
            assert!(
                alike.any(|(expected, _)| expected == reason),
                "{capture:?}: {place:?} is {reason:?}, not {:?}, in\n{text}",
                intended.get(place)
            );
        }
        // Without a jump to a mesh's chain in the table, an interface rule without a comment may be another program's.
        let mangle = text.split("* mangle").nth(1).and_then(|rest| rest.split("COMMIT").next()).unwrap_or("");
        let is_anybodys = |place: &Place, reason: Option<RuleReason>| {
            place.0 == "mangle"
                && reason.map(RuleReason::name) == Some("excluded-interface")
                && !mangle.contains("-j ISTIO_")
        };
        for (place, (reason, _)) in intended.iter().filter(|(place, _)| !found.contains_key(*place)) {
            assert!(is_anybodys(place, *reason), "{capture:?}: {place:?} is passed over in\n{text}");
        }
    }
    intended.len()
}

#[test]
fn rules_of_iptables_are_recognized_with_their_meaning() {
    let (mut runner, turns) = (TestRunner::deterministic(), scope::runs(800, 200));
    let configurations =
        (0..turns).map(|_| any_of(Mesh::ALL).new_tree(&mut runner).expect("valid").current());
    let compared: usize = configurations
        .map(|(_, capture)| capture.families().map(|family| compare(&capture, family)).sum::<usize>())
        .sum();
    assert!(compared > 12 * turns, "only {compared} rules");
}

#[test]
fn counters_of_a_listing_are_read() {
    let text = "*nat\n:OUTPUT ACCEPT [7:8]\n:ISTIO_OUTPUT - [0:0]\n[12:720] -A OUTPUT -j ISTIO_OUTPUT\n\
                [18446744073709551615:1] -A ISTIO_OUTPUT -j RETURN\n-A ISTIO_OUTPUT -j RETURN\nCOMMIT\n";
    let listing = parse::listing(text, Family::V4).expect("a listing");
    let hits: Vec<_> = listing.chains.values().flat_map(|chain| &chain.rules).map(|rule| rule.hits).collect();
    let packets: Vec<_> = hits.iter().map(|hits| hits.map(|hits| (hits.packets, hits.bytes))).collect();
    assert_eq!(packets, [Some((12, 720)), Some((u64::MAX, 1)), None]);
}
