//! Properties of lint for meshes whose findings come only from their rules.

use super::change::{Configured, ItemsByCondition, Redundant};
use super::comparison::LintComparison;
use super::general::check_with_packets;
use super::tests::{is_martian, packet, parsed};
use super::{BRIEF_RULES, Code, Finding, Level, MAX_WORK, brief, lint};
use crate::explain::{PodContext, RuleView};
use crate::random_tests::{any_of, configured};
use mesh::{ListItem, Mesh};
use proptest::{collection::vec, prelude::*};
use rules::simulate::Work;
use rules::simulate::walk;

#[test]
fn rules_lead_to_the_items_that_make_them() {
    for (mesh, flags) in [
        (
            Mesh::Istio,
            &[
                ("istio-service-cidr", "10.0.0.0/8,fd00::/8"),
                ("istio-service-exclude-cidr", "10.1.0.0/16,10.2.0.1/32"),
                ("istio-inbound-ports", "80,8000-8999"),
                ("istio-outbound-ports", "443"),
                ("istio-local-outbound-ports-exclude", "5432,9000-9099"),
                ("istio-exclude-interfaces", "eth1,br+"),
                ("kube-virt-interfaces", "vm0"),
                ("dual-stack", "true"),
                ("pod-ips", "10.0.0.7,fd00::7"),
            ][..],
        ),
        (Mesh::Linkerd, &[("inbound-ports-to-ignore", "4190"), ("subnets-to-ignore", "10.0.0.0/8")]),
        (
            Mesh::Kuma,
            &[
                ("exclude-inbound-ips", "10.0.0.0/8"),
                ("exclude-outbound-ips", "10.9.0.0/16"),
                ("exclude-outbound-ports", "81,9000-9099"),
                ("exclude-outbound-ports-for-uids", "tcp:80:1000-2000"),
            ],
        ),
    ] {
        let (_, capture) = configured(mesh, flags).expect("valid");
        let lists = capture.lists();
        let items = ItemsByCondition::of(&lists);
        let mut found: Vec<&ListItem> = Vec::new();
        for rules in capture.families().map(|family| capture.rules(family)) {
            for statement in &rules.rules().statements {
                found.extend(items.that_makes(statement.origin.expect("a reason"), &statement.rule));
            }
        }
        for listed in &lists {
            assert!(found.contains(&listed), "{mesh}: no rule leads to {listed:?}");
        }
    }
}

fn check_given(mesh: Mesh, flags: &[(&str, &str)], expected: &[&str]) {
    let (raw, capture) = configured(mesh, flags).expect("valid");
    let found = lint(&raw, &capture, &[]).into_iter().filter(|finding| finding.level == Level::Warning);
    let reported: Vec<String> =
        found.map(|f| format!("{} {}: {} -> {}", f.code, f.subject, f.text, f.remedy)).collect();
    assert_eq!(reported, expected, "{flags:?}");
}

/// Ambient's golden file contains the limits' wording.
#[test]
fn limits_are_reported_for_rules_that_have_them() {
    let check = |mesh, flags: &[(&str, &str)], expected: &[&str]| {
        let (raw, capture) = configured(mesh, flags).expect("valid");
        let notes = lint(&raw, &capture, &[]).into_iter().filter(|finding| finding.level == Level::Note);
        let about = notes.map(|note| format!("{} {}", note.code, note.subject)).collect::<Vec<_>>();
        assert_eq!(about, expected, "{mesh} {flags:?}");
    };
    let probes = ["SI021 --probe-address", "SI022 --probe-address"];
    let (mark, dns) = (["SI023 all options"], ["SI024 --dns-capture"]);
    let machines = ["SI025 --reroute-virtual-interfaces", "SI026 --reroute-virtual-interfaces"];
    check(Mesh::Ambient, &[], &[&probes[..], &mark, &dns].concat());
    check(Mesh::Ambient, &[("ingress", "true"), ("dns-capture", "false")], &mark);
    let one = [("ipv6", "false"), ("probe-address", "10.1.0.9"), ("reroute-virtual-interfaces", "vm0,br+")];
    check(Mesh::Ambient, &one, &[&probes[..], &mark, &dns, &machines].concat());
    check(Mesh::Linkerd, &[], &[]);
    check(Mesh::Kuma, &[], &["SI013 --drop-invalid-packets"]);
    check(Mesh::Kuma, &[("drop-invalid-packets", "true")], &[]);
}

#[test]
fn settings_without_effect_are_reported_for_every_mesh() {
    type Case = (Mesh, &'static [(&'static str, &'static str)], &'static [&'static str]);
    use Mesh::{Ambient, Kuma, Linkerd};
    let cases: [Case; 18] = [
        (Linkerd, &[], &[]),
        (Kuma, &[], &[]),
        (Ambient, &[], &[]),
        (Linkerd, &[("inbound-ports-to-ignore", "4190,4191")], &[]),
        (
            Linkerd,
            &[("inbound-ports-to-ignore", "80,80-90,80")],
            &["SI008 --inbound-ports-to-ignore: lists 80, which 80:90 contains -> drop 80"],
        ),
        (
            Linkerd,
            &[("ports-to-redirect", "80,443"), ("inbound-ports-to-ignore", "443,9000")],
            &[
                "SI009 --ports-to-redirect: the rule `-p tcp --dport 443 -m comment --comment \"proxy-init/redirect-port-443-to-proxy-port\" -j REDIRECT --to-ports 4143` is never reached: `-p tcp -m multiport --dports 443,9000 -m comment --comment \"proxy-init/ignore-port-443,9000\" -j RETURN` (--inbound-ports-to-ignore) comes first -> drop 443, or remove it from --inbound-ports-to-ignore if it should take effect",
                "SI007 --inbound-ports-to-ignore: lists 9000, which has no effect with the other options -> drop 9000",
            ],
        ),
        (
            Linkerd,
            &[("ports-to-redirect", "80"), ("inbound-ports-to-ignore", "9000")],
            &[
                "SI007 --inbound-ports-to-ignore: has no effect: it excludes ports, but only the ports of --ports-to-redirect are captured -> drop the option",
            ],
        ),
        (
            Linkerd,
            &[("subnets-to-ignore", "0.0.0.0/0"), ("inbound-ports-to-ignore", "9000")],
            &[
                "SI009 --subnets-to-ignore: lists 0.0.0.0/0, so no later rule captures an inbound IPv4 connection -> remove the items that must be captured",
            ],
        ),
        (
            Linkerd,
            &[("subnets-to-ignore", "10.0.0.0/8,fd00::/8"), ("ipv6", "false")],
            &[
                "SI019 --subnets-to-ignore: lists fd00::/8, which has no effect: IPv6 is not captured (--ipv6) -> drop fd00::/8, or give --ipv6",
            ],
        ),
        (
            Linkerd,
            &[("proxy-uid", "-1")],
            &[
                "SI020 --proxy-uid: names no user, so the proxy's calls are captured again and loop back to it -> set --proxy-uid to the proxy's user",
            ],
        ),
        (Linkerd, &[("proxy-uid", "-1"), ("proxy-gid", "2102")], &[]),
        // DNS queries over UDP are captured even without the list.
        (Kuma, &[("redirect-dns", "true"), ("exclude-outbound-ports", "53")], &[]),
        (
            Linkerd,
            &[("proxy-uid", "0")],
            &[
                "SI011 --proxy-uid: root is the proxy's user, so no process that runs as root is captured -> run the proxy as a dedicated user",
            ],
        ),
        (
            Kuma,
            &[("redirect-inbound-port", "15001")],
            &[
                "SI004 --redirect-inbound-port: and --redirect-outbound-port share port 15001, where the proxy can't distinguish inbound from outbound -> give the listeners different ports",
            ],
        ),
        (
            Kuma,
            &[("redirect-inbound", "false"), ("redirect-outbound", "false")],
            &[
                "SI001 all options: nothing is captured: no outbound connection, no inbound port and no DNS query -> remove the exclusion that covers everything",
            ],
        ),
        (
            Kuma,
            &[("include-inbound-ports", "80"), ("exclude-inbound-ports", "443")],
            &[
                "SI007 --exclude-inbound-ports: has no effect: it excludes ports, but only the ports of --include-inbound-ports are captured -> drop the option",
            ],
        ),
        (
            Kuma,
            &[("exclude-outbound-ports-for-uids", "tcp:53:106;53:100-200")],
            &[
                "SI007 --exclude-outbound-ports-for-uids: lists 106, which has no effect with the other options -> drop 106",
            ],
        ),
        (
            Ambient,
            &[("ipv6", "false"), ("reroute-virtual-interfaces", "vm0,vm+")],
            &[
                "SI007 --reroute-virtual-interfaces: lists vm0, which has no effect with the other options -> drop vm0",
            ],
        ),
    ];
    for (mesh, flags, expected) in cases {
        check_given(mesh, flags, expected);
    }
}

#[test]
fn brief_reports_a_subset_of_lint_for_long_lists() {
    let list = |most: u32, item: fn(u32) -> String| (0..most).map(item).collect::<Vec<_>>().join(",");
    let ports = list(60, |n| (1000 + 2 * n).to_string());
    let interfaces = list(20, |n| format!("vm{n}"));
    let networks = list(120, |n| format!("10.{n}.0.0/16"));
    type Case<'a> = (Mesh, &'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: [Case<'_>; 4] = [
        (Mesh::Istio, &[("istio-service-cidr", &networks), ("envoy-port", "15006")], &["SI004"]),
        (Mesh::Linkerd, &[("ports-to-redirect", &ports)], &[]),
        (Mesh::Kuma, &[("exclude-outbound-ips", &networks), ("redirect-inbound-port", "15001")], &["SI004"]),
        (Mesh::Ambient, &[("reroute-virtual-interfaces", &interfaces)], &[]),
    ];
    for (mesh, flags, expected) in cases {
        let (raw, capture) = configured(mesh, flags).unwrap_or_else(|| panic!("{mesh}: {flags:?}"));
        let rules: usize =
            capture.families().map(|family| capture.rules(family).rules().statements.len()).sum();
        assert!(rules > BRIEF_RULES, "{mesh}: {rules}");
        let (few, all) = (brief(&raw, &capture, &[]), lint(&raw, &capture, &[]));
        let codes: Vec<&str> = few.iter().map(|finding| finding.code.name()).collect();
        assert_eq!(codes, expected, "{mesh}");
        assert!(few.iter().all(|finding| all.contains(finding)), "{mesh}: {few:?}\n{all:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn warnings_before_rules_are_set_are_those_of_lint((raw, capture) in any_of(Mesh::ALL)) {
        let warnings = |findings: Vec<Finding>| -> Vec<Finding> {
            findings.into_iter().filter(|finding| finding.level == Level::Warning).collect()
        };
        let rules: usize = capture.families().map(|family| capture.rules(family).rules().statements.len()).sum();
        let (reported, all) = (warnings(brief(&raw, &capture, &[])), warnings(lint(&raw, &capture, &[])));
        prop_assert!(reported.iter().all(|finding| all.contains(finding)), "{:?}\n{:?}", reported, all);
        if rules <= BRIEF_RULES {
            // Unsuspicious lists and items are not tried.
            let is_tried = |finding: &&Finding| finding.code != Code::NoEffect;
            let missing: Vec<&Finding> =
                all.iter().filter(|finding| !reported.contains(finding)).filter(is_tried).collect();
            prop_assert!(missing.is_empty(), "{:?}\n{:?}", reported, missing);
        }
    }

    #[test]
    fn advice_leaves_the_end_of_every_packet_unchanged(
        (raw, capture) in any_of(Mesh::ALL),
        packets in vec(packet(), 200),
    ) {
        let pod = PodContext::new([parsed("10.1.0.9"), parsed("fd00:1::9")], Some(&*capture));
        let idle = check_with_packets(&mut LintComparison::new(&raw, &capture, Work::new(MAX_WORK)), &[], true).1;
        let before = Configured::new(capture.clone(), raw.clone());
        let rule_views = |of: &mesh::Capture| {
            of.families().map(|family| RuleView::of_config(&**of, family, &pod)).collect::<Vec<_>>()
        };
        let follow = |printed: Configured, idle: &Redundant| idle.change.follow(&printed).expect("it was followed before");
        let each = idle.iter().map(|idle| (Some(&idle.finding), follow(before.clone(), idle)));
        let all = idle.iter().fold(before.clone(), follow);
        for (finding, changed) in each.chain([(None, all)]) {
            for (before, after) in rule_views(&capture).iter().zip(&rule_views(&changed.capture)) {
                for packet in packets.iter().filter(|packet| packet.family() == before.family && !is_martian(packet)) {
                    let then = walk(&before.view, &before.routing, packet).verdict;
                    let now = walk(&after.view, &after.routing, packet).verdict;
                    prop_assert_eq!(then, now, "{:?}: {:?}\n{:?}", finding, packet, changed);
                }
            }
        }
    }
}
