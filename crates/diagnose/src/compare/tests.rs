//! Typical changes in words; for random configurations, groups contain exactly the packets whose verdict differs.

use super::{ComparedSide, Comparison, MAX_WORK, changed, compare, compare_within, pod};
use crate::Subject;
use crate::explain::{PodContext, RuleView};
use crate::pod_packets::{PodPackets, samples};
use crate::random_tests::{any_of, configured};
use mesh::sources::{Host, NullHost, Raw};
use mesh::{Capture, Mesh};
use proptest::prelude::*;
use rules::Family;
use rules::simulate::{Direction, Packet, PacketSet, Verdict, Work, walk};

type Flags<'a> = &'a [(&'a str, &'a str)];

fn machine(_: &Raw) -> Box<dyn Host> {
    Box::new(NullHost)
}

fn the_pod() -> PodContext {
    let addresses = ["10.1.0.9", "fd00:1::9"].map(|text| text.parse().expect("an address"));
    pod(&[PodContext::new(addresses, None)])
}

fn side((raw, capture): &(Raw, Capture)) -> ComparedSide {
    ComparedSide::of_subject(&Subject::of_flags(raw.clone(), Vec::new(), machine), capture, &the_pod())
}

fn compared(mesh: Mesh, before: &[(&str, &str)], after: &[(&str, &str)]) -> Comparison {
    let [before, after] = [before, after].map(|flags| side(&configured(mesh, flags).expect("valid")));
    compare(&before, &after, &the_pod())
}

fn lines(comparison: &Comparison) -> Vec<String> {
    let line = |change: &super::Change| crate::plain(crate::painted(&[change.line()], usize::MAX).trim_end());
    comparison.shown().0.into_iter().map(line).collect()
}

fn check(mesh: Mesh, before: &[(&str, &str)], after: &[(&str, &str)], expected: &[&str]) {
    let comparison = compared(mesh, before, after);
    assert_eq!(lines(&comparison), expected, "{before:?} -> {after:?}");
    assert!(comparison.complete);
}

#[test]
fn a_changed_setting_is_described_by_its_packets() {
    let all = ("istio-service-cidr", "*");
    let cases: &[(Flags, Flags, &[&str])] = &[
        (
            &[],
            &[("istio-local-outbound-ports-exclude", "5432")],
            &[
                "outbound TCP to port 5432: captured -> not captured",
                "outbound TCP within the pod to port 5432 by the proxy's user 1337: captured -> not captured",
            ],
        ),
        (
            &[],
            &[("istio-service-exclude-cidr", "10.0.0.0/8,192.168.0.0/16")],
            &["outbound TCP to 10.0.0.0/8 and 192.168.0.0/16: captured -> not captured"],
        ),
        (
            &[("istio-inbound-ports", "80,443")],
            &[("istio-inbound-ports", "80,8443")],
            &[
                "inbound TCP to port 443: captured -> not captured",
                "inbound TCP to port 8443: not captured -> captured",
            ],
        ),
        (
            &[],
            &[("dual-stack", "true")],
            &[
                "outbound TCP over IPv6: not captured -> captured",
                "outbound TCP over IPv6 within the pod to ports other than 15008 by the proxy's user 1337: not captured \
                 -> captured",
            ],
        ),
        (&[], &[("envoy-port", "16001")], &["outbound TCP: captured at 15001 -> captured at 16001"]),
        (
            &[("istio-inbound-ports", "*")],
            &[("istio-inbound-ports", "*"), ("istio-inbound-interception-mode", "TPROXY")],
            &[
                "outbound TCP within the pod by the proxy's group 1337: not captured -> captured",
                "outbound TCP within the pod to port 15008 by the proxy's user 1337: not captured -> captured",
                "inbound TCP to ports other than 15008: captured at 15006 -> captured at 15006 (TPROXY)",
                "inbound TCP to port 15008: not captured -> captured",
            ],
        ),
        (
            &[],
            &[("istio-exclude-interfaces", "vm0")],
            &["outbound TCP leaving by vm0: captured -> not captured"],
        ),
    ];
    for (before, after, expected) in cases {
        let [before, after] = [before, after].map(|flags| [&[all], *flags].concat());
        check(Mesh::Istio, &before, &after, expected);
    }
    check(
        Mesh::Linkerd,
        &[],
        &[("subnets-to-ignore", "10.0.0.0/8")],
        &["inbound TCP from 10.0.0.0/8: captured -> not captured"],
    );
    check(
        Mesh::Kuma,
        &[],
        &[("exclude-outbound-ports-for-uids", "tcp:80-90:5-6")],
        &["outbound TCP to ports 80-90 by users 5-6: captured -> not captured"],
    );
    check(
        Mesh::Ambient,
        &[],
        &[("dns-capture", "false")],
        &[
            "outbound UDP to port 53: captured -> not captured",
            "outbound TCP to addresses other than 169.254.7.127 to port 53: captured at 15053 -> captured at 15001",
            "outbound TCP over IPv4 within the pod to port 53: captured -> not captured",
            "outbound TCP to addresses other than fd16:9254:7127:1337:ffff:ffff:ffff:ffff to port 53: captured at \
             15053 -> captured at 15001",
            "outbound TCP over IPv6 within the pod to port 53: captured -> not captured",
        ],
    );
}

#[test]
fn one_change_in_a_long_list_is_found_in_bounded_work() {
    let list = |more: &[u16]| {
        let ports = (1000..11_000u16).step_by(2).chain(more.iter().copied());
        ports.map(|port| port.to_string()).collect::<Vec<_>>().join(",")
    };
    let (before, after) = (list(&[]), list(&[33]));
    let before = ("istio-local-outbound-ports-exclude", before.as_str());
    let after = ("istio-local-outbound-ports-exclude", after.as_str());
    let all = ("istio-service-cidr", "*");
    check(
        Mesh::Istio,
        &[all, before],
        &[all, after],
        &[
            "outbound TCP to port 33: captured -> not captured",
            "outbound TCP within the pod to port 33 by the proxy's user 1337: captured -> not captured",
        ],
    );
    let [before, after] =
        [before, after].map(|list| side(&configured(Mesh::Istio, &[all, list]).expect("valid")));
    let little = compare_within(Work::new(1000), &before, &after, &the_pod());
    assert!(!little.complete, "an exhausted budget makes the answer incomplete");
    let none = compare_within(Work::new(0), &before, &after, &the_pod());
    assert_eq!((none.changes.len(), none.complete), (0, false));
    let text = crate::painted(&none.lines(), usize::MAX);
    assert!(text.ends_with(": no change was found, but some may exist.\n"), "{text}");
    assert!(!text.contains("No verdict changes"), "{text}");
}

fn verdict(rule_view: &RuleView, packet: &Packet) -> Verdict {
    walk(&rule_view.view, &rule_view.routing, packet).verdict
}

/// Returns the number of compared packets.
fn agrees(before: &(Raw, Capture), after: &(Raw, Capture)) -> Result<usize, TestCaseError> {
    let mut compared = 0;
    for family in Family::BOTH {
        let pod = the_pod();
        let rule_views = [before, after].map(|(_, capture)| RuleView::of_config(&**capture, family, &pod));
        let rule_views = [&rule_views[0], &rule_views[1]];
        let packets = PodPackets::of(&rule_views.map(|one| &one.view), &pod, true);
        let changed = changed(&packets, rule_views, &mut Work::new(10 * MAX_WORK));
        prop_assert!(changed.is_complete);
        let sets: Vec<PacketSet> =
            changed.groups.iter().flat_map(|group| group.sets(&packets.starts[group.start])).collect();
        for rule_view in rule_views {
            for packet in samples(rule_view, &pod) {
                let all = || packets.sets();
                let is_forwarded = matches!(packet.direction, Direction::Inbound { local: false, .. });
                if is_forwarded || !all().any(|set| set.contains(&packet)) {
                    continue;
                }
                compared += 1;
                let differs = verdict(rule_views[0], &packet) != verdict(rule_views[1], &packet);
                let is_described = sets.iter().any(|set| set.contains(&packet));
                prop_assert_eq!(differs, is_described, "{:?}", packet);
            }
        }
    }
    Ok(compared)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn equal_configurations_change_nothing(one in any_of(Mesh::ALL)) {
        let comparison = compare(&side(&one), &side(&one), &the_pod());
        prop_assert!(comparison.changes.is_empty() && comparison.complete);
    }

    #[test]
    fn exactly_the_packets_that_change_are_described(
        one in any_of(&[Mesh::Istio]),
        other in any_of(&[Mesh::Istio]),
    ) {
        prop_assert!(agrees(&one, &other)? > 10);
    }

    #[test]
    fn exactly_the_changed_packets_of_other_meshes_are_described(
        one in any_of(&[Mesh::Linkerd, Mesh::Kuma, Mesh::Ambient]),
        other in any_of(&[Mesh::Linkerd, Mesh::Kuma, Mesh::Ambient]),
    ) {
        prop_assert!(agrees(&one, &other)? > 10);
    }
}

/// Only a mark with the first two bits and without the third is dropped.
#[test]
fn marks_under_several_masks_are_combined() {
    let text = "*filter\n-A OUTPUT -m mark --mark 0x4/0x4 -j ACCEPT\n-A OUTPUT -m mark ! --mark 0x1/0x1 -j ACCEPT\n\
                -A OUTPUT -m mark --mark 0x2/0x2 -j DROP\nCOMMIT\n";
    let listing = rules::parse::listing(text, Family::V4).expect("a listing");
    let rules = ComparedSide::of_rules(vec![RuleView::of_listing(listing, &the_pod())], &the_pod());
    let none = ComparedSide::of_rules(Vec::new(), &the_pod());
    let comparison = compare(&none, &rules, &the_pod());
    let marks: Vec<u32> =
        comparison.changes.iter().map(|change| change.packet.as_ref().expect("a packet").mark & 7).collect();
    assert!(comparison.complete && !marks.is_empty() && marks.iter().all(|mark| *mark == 3), "{marks:?}");
}

#[test]
fn the_proxy_of_live_rules_is_that_of_the_family_that_names_one() {
    let (_, capture) =
        configured(Mesh::Istio, &[("pod-ips", "fd00:1::9"), ("istio-service-cidr", "*")]).expect("valid");
    let v6 = RuleView::of_config(&*capture, Family::V6, &the_pod());
    let none = RuleView::without_rules(Family::V4, &the_pod());
    let side = ComparedSide::of_rules(vec![none, v6], &the_pod());
    assert_eq!(side.proxy.uids, capture.proxy().uids);
}
