//! Answers about live rules: with counters, with rules of other programs, and with the record of the command that made them.

use super::{ADDRESSES, Example, ExampleFlags, WIDTH, address, check, held, record};
use crate::explain::{PodContext, RuleView, Sender, explain};
use crate::finding::reports;
use crate::probe::{ProbeContext, calls_by_rules};
use crate::status::{CaptureStatus, InstalledRules, Observation, Record, status};
use crate::{Basis, compare, lint, painted, plain};
use mesh::Mesh;
use mesh::sources::Dialect;
use rules::finding::{Code, Finding};
use rules::simulate::{Routing, View};
use rules::{ByFamily, Family, Gid, Port, Protocol, Uid, parse, render};
use std::fmt::Write;

const FLAGS: ExampleFlags = &[
    ("istio-inbound-ports", "*"),
    ("istio-service-cidr", "*"),
    ("istio-local-exclude-ports", "22"),
    ("drop-invalid", "true"),
    ("redirect-dns", "true"),
    ("capture-all-dns", "true"),
];

const CHANGES: &[(&str, &[(&str, &str)])] = &[
    ("as they were made", &[]),
    (
        "another program's exclusion comes first",
        &[(
            "-A OUTPUT -j ISTIO_OUTPUT",
            "-A OUTPUT -p tcp -m tcp --dport 443 -j ACCEPT\n-A OUTPUT -j ISTIO_OUTPUT",
        )],
    ),
    (
        "a condition that is not known comes first",
        &[(
            "-A OUTPUT -j ISTIO_OUTPUT",
            "-A OUTPUT -m strange --like this -j ACCEPT\n-A OUTPUT -j ISTIO_OUTPUT",
        )],
    ),
    (
        "another program's chain comes first",
        &[("-A OUTPUT -j ISTIO_OUTPUT", "-A OUTPUT -j OTHER\n-A OUTPUT -j ISTIO_OUTPUT")],
    ),
    ("nothing leads to a chain", &[("-A OUTPUT -j ISTIO_OUTPUT\n", "")]),
    ("the policy drops", &[("* nat\n", "* nat\n:OUTPUT DROP [0:0]\n")]),
    (
        "another program redirects",
        &[(
            "-A PREROUTING -p tcp -j ISTIO_INBOUND",
            "-A PREROUTING -p tcp -m tcp --dport 8080 -j REDIRECT --to-ports 9999\n-A PREROUTING -p tcp -j ISTIO_INBOUND",
        )],
    ),
    (
        "another program sends elsewhere",
        &[(
            "-A OUTPUT -j ISTIO_OUTPUT",
            "-A OUTPUT -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.9.9.9:1000-1010\n-A OUTPUT -j ISTIO_OUTPUT",
        )],
    ),
];

fn counted(listing: &str) -> String {
    let mut number = 0_usize;
    let line = |line: &str| {
        if !line.starts_with("-A") {
            return format!("{line}\n");
        }
        number += 1;
        let packets = [0_u64, 1, 1_234_567][number % 3];
        format!("[{packets}:{}] {line}\n", packets * 60)
    };
    listing.lines().map(line).collect()
}

fn example() -> Example {
    Example::of(Mesh::Istio, FLAGS)
}

fn changed(example: &Example, changes: &[(&str, &str)]) -> RuleView {
    let mut listing = render::iptables::restore(&example.capture.rules(Family::V4));
    for (old, new) in changes {
        assert!(listing.contains(old), "no {old} in\n{listing}");
        listing = listing.replace(old, new);
    }
    if listing.contains("-j OTHER") {
        listing = listing.replace("* nat\n", "* nat\n:OTHER - [0:0]\n-A OTHER -m strange -j ACCEPT\n");
    }
    let listing = parse::listing(&counted(&listing), Family::V4).expect("a listing");
    RuleView::of_listing(listing, &example.pod)
}

fn observed(rules: &RuleView, held: Vec<InstalledRules>, only: Option<Mesh>) -> CaptureStatus {
    let v6 = RuleView { family: Family::V6, view: View::empty(Family::V6), routing: Routing::default() };
    let rules = ByFamily { v4: rules.clone(), v6 };
    let addresses = ADDRESSES.map(address);
    let fail = Finding::failure(Code::MissingRouting, "", "no", "yes");
    let (sockets, findings) = (Some(&[][..]), vec![fail]);
    let seen =
        Observation { rules: &rules, addresses: &addresses, sockets, processes: &[], held, only, findings };
    status(&seen)
}

#[test]
fn live_rules_are_reported_with_changes_by_other_programs() {
    let example = example();
    let own = (Uid::new(1000).expect("a user"), Gid::new(1000).expect("a group"));
    let facts = ProbeContext {
        pod: example.pod.clone(),
        own,
        port: Port::new(8888).expect("a port"),
        route: &|_| None,
        dialect: Dialect::default(),
    };
    let mut text = String::new();
    for (name, changes) in CHANGES {
        let rules = changed(&example, changes);
        let _ =
            writeln!(text, "==== {name}\n{}", plain(&observed(&rules, Vec::new(), None).text(WIDTH, true)));
        for (sender, protocol, to) in [
            (Sender::App, Protocol::Tcp, "192.0.2.1:443"),
            (Sender::App, Protocol::Tcp, "192.0.2.1:80"),
            (Sender::App, Protocol::Udp, "192.0.2.1:53"),
            (Sender::App, Protocol::Udp, "192.0.2.1:123"),
            (Sender::Proxy, Protocol::Tcp, "10.1.0.9:80"),
            (Sender::External, Protocol::Tcp, "10.1.0.9:8080"),
            (Sender::External, Protocol::Tcp, "10.1.0.9:22"),
        ] {
            let packet = example.packet(sender, protocol, to);
            let explained = explain(&rules.view, &rules.routing, &packet);
            let rule = explained.deciding_rule().map(|rule| rule.decision());
            let captured = explained.is_captured();
            let _ = writeln!(
                text,
                "{sender:?} {protocol} {to}: {}\n  {captured:?} {rule:?}",
                explained.sentence()
            );
        }
        for call in calls_by_rules(&[rules], &facts) {
            let _ = writeln!(text, "{} {} -> {}: {}", call.caller, call.protocol, call.to, call.because);
        }
    }
    check("live.txt", &text);
}

#[test]
fn live_rules_are_reported_with_the_record_of_their_command() {
    let record = |settings: Option<&str>, changed_since| Record {
        command: "istio-iptables".to_owned(),
        settings: settings.map(str::to_owned),
        settings_digest: "0123".to_owned(),
        changed_since,
        ..record()
    };
    let held = |backend: &str, made: Option<Record>| InstalledRules {
        backend: backend.to_owned(),
        families: vec!["ipv4".into(), "ipv6".into()],
        made,
        ..held()
    };
    let rules = changed(&example(), &[]);
    let mut text = String::new();
    for held in [
        vec![held("nftables", Some(record(Some(""), false)))],
        vec![held("nftables", Some(record(Some("--dual-stack"), true)))],
        vec![held("nftables", Some(record(None, false)))],
        vec![held("nftables", None), held("iptables-nft", None)],
        vec![held("iptables-legacy", None)],
    ] {
        let status = observed(&rules, held, Some(Mesh::Istio));
        let _ = writeln!(text, "----\n{}{:?}", plain(&status.text(WIDTH, true)), status.findings);
    }
    let of_other = observed(&rules, vec![held("nftables", None)], Some(Mesh::Kuma));
    let _ = writeln!(text, "---- of another mesh\n{}", plain(&of_other.text(WIDTH, false)));
    check("made.txt", &text);
}

#[test]
fn packets_a_second_are_counted_from_an_earlier_reading() {
    let later = observed(&changed(&example(), &[]), Vec::new(), None);
    let mut earlier = later.clone();
    earlier.hits.remove(0);
    // The rules have been applied again since, so this counter restarted.
    let at = |status: &CaptureStatus, packets| status.hits.iter().position(|hit| hit.packets == packets);
    let (once, often) = (at(&earlier, 1).expect("a rule"), at(&earlier, 1_234_567).expect("a rule"));
    earlier.hits[once].packets = 70;
    earlier.hits[often].packets = 1_234_551;
    let (mut rated, mut timeless) = (later.clone(), later.clone());
    rated.rate(&earlier, 4.0);
    timeless.rate(&earlier, 0.0);
    let rate_of = |hit: &crate::status::Hit| {
        let same = |other: &&crate::status::Hit| (&other.reason, &other.text) == (&hit.reason, &hit.text);
        rated.hits.iter().find(same).expect("the same rules").per_second
    };
    assert_eq!((later.hits[0].packets, rated.hits[0].per_second), (1, Some(0.3)), "it is new");
    assert_eq!(rate_of(&earlier.hits[once]), Some(0.3), "1 / 4, to a tenth");
    assert_eq!(rate_of(&earlier.hits[often]), Some(4.0));
    assert!(timeless.hits.iter().all(|hit| hit.per_second.is_none()));
    check("watched.txt", &plain(&rated.text(WIDTH, true)));
}

#[test]
fn live_rules_are_compared_with_those_of_a_configuration() {
    let example = example();
    let pod = &example.pod;
    let of_capture = compare::ComparedSide::of_capture(&example.capture, Dialect::default(), pod);
    let of_rules = |rules: Vec<RuleView>| compare::ComparedSide::of_rules(rules, pod);
    let mut text = String::new();
    for (name, rules) in [
        ("the same", vec![changed(&example, &[])]),
        ("nothing leads to a chain", vec![changed(&example, CHANGES[4].1)]),
        ("another program sends elsewhere", vec![changed(&example, CHANGES[7].1)]),
        ("none", Vec::new()),
    ] {
        let compared = compare::compare(&of_capture, &of_rules(rules), pod);
        let _ = writeln!(text, "==== {name}\n{}", plain(&painted(&compared.lines(), WIDTH)));
        let _ = writeln!(text, "{}", serde_json::to_string(&compared).expect("JSON"));
    }
    check("live-compared.txt", &text);
}

#[test]
fn quick_check_finds_problems_without_packets() {
    let flags: ExampleFlags = &[
        ("istio-inbound-ports", "80"),
        ("istio-service-cidr", "10.0.0.0/8,fd00::/8"),
        ("istio-local-exclude-ports", "22"),
        ("proxy-uid", "1337,1338"),
    ];
    let held = |address: &str, interface: &str| lint::InterfaceAddress {
        address: address.parse().expect("an address"),
        interface: interface.to_owned(),
    };
    let example = Example::of(Mesh::Istio, flags);
    let mut text = String::new();
    for held in [
        vec![],
        vec![
            held("fe80::1", "eth0"),
            held("::1", "lo"),
            held("::6", "lo"),
            held("ff02::1", "eth0"),
            held("::", "eth0"),
        ],
        vec![held("fe80::1", "eth0"), held("fd00:1::9", "net1")],
    ] {
        for findings in [
            lint::quick_check(&example.raw, &example.capture, &held),
            lint::brief(&example.raw, &example.capture, &held),
        ] {
            let _ = writeln!(text, "{}--", plain(&lint::text(&reports(&findings), WIDTH)));
        }
    }
    let finding = Finding::failure(Code::Overruled, "", "a rule is in the way", "remove it");
    text += &plain(&lint::text(&[finding.into()], WIDTH));
    check("quick.txt", &text);
}

#[test]
fn answer_names_its_basis() {
    let namespace = || Some("web".to_owned());
    let cases = [
        (Basis::Rules { namespace: None }, "rules", "from the rules in this network namespace"),
        (Basis::Rules { namespace: namespace() }, "rules", "from the rules in namespace web"),
        (
            Basis::Noted { namespace: None, settings: String::new() },
            "noted",
            "from the settings stored in this network namespace (no flags)",
        ),
        (
            Basis::Noted { namespace: namespace(), settings: "--dual-stack".to_owned() },
            "noted",
            "from the settings stored in namespace web (--dual-stack)",
        ),
        (Basis::Flags, "flags", "from flags"),
        (Basis::Object("Pod web".to_owned()), "object", "from Pod web"),
        (Basis::Listing("-".to_owned()), "listing", "from the listing"),
        (Basis::Listing("a.txt".to_owned()), "listing", "from the rules of a.txt"),
    ];
    for (basis, kind, text) in cases {
        let report = serde_json::to_value(basis.report()).expect("JSON");
        assert_eq!(report, serde_json::json!({"kind": kind, "text": text}));
        assert_eq!(format!("from {}", basis.name()), text);
        assert_eq!(plain(&basis.line(WIDTH)), format!("{text}:\n"));
    }
}

#[test]
fn loopback_and_link_local_addresses_are_not_the_pods() {
    let addresses = ["127.0.0.1", "10.1.0.9", "::1", "fe80::1", "::6", "fd00:1::9"].map(address);
    assert_eq!(PodContext::new(addresses, None).addresses, ADDRESSES.map(address));
    assert!(PodContext::new([], None).addresses.is_empty());
}
