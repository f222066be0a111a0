//! Properties of random Istio sidecar configurations and packets, and regression tests of lint.

use super::{Code, Finding, InterfaceAddress, MAX_WORK, lint, lint_within, uncaptured_ipv6};
use crate::random_tests::configured;
use mesh::istio::{CaptureConfig, DnsCapture, Interception, defaults};
use mesh::sources::Raw;
use mesh::{Mesh, Selection, Setting};
use proptest::{prelude::*, sample::select};
use rules::simulate::Work;
use rules::simulate::{Direction, Packet};
use rules::{ConnState, Family, Gid, Protocol, Uid};
use std::net::{IpAddr, SocketAddr};

const ADDRESSES: [&str; 12] = [
    "10.1.0.9",
    "10.1.0.8",
    "10.200.0.1",
    "127.0.0.1",
    "127.0.0.6",
    "127.0.0.9",
    "192.168.3.4",
    "8.8.8.8",
    "::1",
    "fd00:1::9",
    "fd77::1",
    "2001:db8::5",
];

pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug>(text: &str) -> T {
    text.parse().expect("valid")
}

fn id() -> impl Strategy<Value = u32> {
    select(&[0, 5, 6, 1000, 1337][..])
}

pub(crate) fn nothing() -> CaptureConfig {
    let proxy = Uid::new(defaults::PROXY_ID).expect("an id");
    CaptureConfig {
        ipv6: false,
        interception: Interception::Redirect,
        outbound_listener: defaults::OUTBOUND_LISTENER.into(),
        inbound_listener: defaults::INBOUND_LISTENER.into(),
        tunnel_port: defaults::TUNNEL_PORT,
        proxy_uids: vec![proxy],
        proxy_gids: vec![proxy.into()],
        inbound_ports: Selection::Only(Vec::new()),
        excluded_interfaces: Vec::new(),
        vm_interfaces: Vec::new(),
        outbound_cidrs: Some(Vec::new()),
        excluded_cidrs: Vec::new(),
        outbound_ports: Vec::new(),
        excluded_outbound_ports: Vec::new(),
        owner_groups: Selection::AllBut(Vec::new()),
        loopback_v4: parsed("127.0.0.1/32"),
        dns: DnsCapture::Off,
        drop_invalid: false,
        log_hits: false,
    }
}

pub(crate) fn packet() -> impl Strategy<Value = Packet> {
    let outbound = (select(&["lo", "eth0", "vm0"][..]), id(), id()).prop_map(|(interface, uid, gid)| {
        let (uid, gid) = (Uid::new(uid).expect("an id"), Gid::new(gid).expect("an id"));
        Direction::Outbound { interface: interface.to_owned(), uid, gid }
    });
    let inbound = (select(&["eth0", "vm0", "vm1", "net1"][..]), any::<bool>())
        .prop_map(|(interface, local)| Direction::Inbound { interface: interface.to_owned(), local });
    let port = prop_oneof![select(&[1, 53, 80, 85, 90, 91, 1500, 2000, 2500, 15008, 65535][..]), 1..u16::MAX];
    let kind = prop_oneof![
        4 => Just((0, 0, ConnState::New)),
        1 => (select(&[0, 1337, 1338][..]), select(&[0, 1337][..]), select(&ConnState::ALL[..])),
    ];
    let ends = (select(&ADDRESSES[..]), select(&ADDRESSES[..]));
    let protocol = prop_oneof![3 => Just(Protocol::Tcp), 1 => Just(Protocol::Udp)];
    (prop_oneof![2 => outbound, 1 => inbound], protocol, ends, port, kind).prop_map(
        |(direction, protocol, (from, to), port, (mark, connmark, state))| {
            let destination = SocketAddr::new(parsed(to), port);
            let source: IpAddr = parsed(from);
            let source =
                if Family::of(source) == Family::of(destination.ip()) { source } else { destination.ip() };
            let source = SocketAddr::new(source, 40000);
            Packet { direction, protocol, source, destination, mark, connmark, state }
        },
    )
}

fn check(flags: &[(&str, &str)], expected: &[(&str, &str)]) {
    let (raw, capture) =
        configured(Mesh::Istio, &[flags, &[("drop-invalid", "true")]].concat()).expect("valid");
    let found: Vec<Finding> =
        lint(&raw, &capture, &[]).into_iter().filter(|f| f.level == super::Level::Warning).collect();
    let reported: Vec<(&str, &str)> = found.iter().map(|f| (f.subject.as_str(), f.remedy.as_str())).collect();
    assert_eq!(reported, expected, "{flags:?}: {found:#?}");
}

const INCLUDED: &str = "istio-service-cidr";
const EXCLUDED: &str = "istio-service-exclude-cidr";
const INBOUND: (&str, &str) = ("istio-inbound-ports", "*");
const IPV6: (&str, &str) = ("dual-stack", "true");

#[test]
fn networks_are_dropped_only_if_no_other_setting_depends_on_them() {
    let outbound = |included, more: &[(&str, &str)], expected: &[(&str, &str)]| {
        check(&[&[INBOUND, (INCLUDED, included)], more].concat(), expected);
    };
    outbound("127.0.0.1/32,0.0.0.0/0", &[], &[]);
    outbound("127.0.0.1/32,127.0.0.2/32,0.0.0.0/0", &[], &[("--istio-service-cidr", "drop 127.0.0.1/32")]);
    let ipv4 = ("pod-ips", "10.1.0.9");
    outbound("::1/128,10.0.0.0/8", &[ipv4], &[]);
    outbound("::1/128,10.0.0.0/8", &[IPV6], &[]);
    outbound(
        "10.1.0.0/16,10.0.0.0/8,10.0.0.0/8",
        &[],
        &[("--istio-service-cidr", "drop 10.1.0.0/16"), ("--istio-service-cidr", "list 10.0.0.0/8 once")],
    );
}

#[test]
fn whole_exclusions_are_reported_once() {
    let leave = ("--istio-service-exclude-cidr", "remove the items that must be captured");
    let ipv4 = ("pod-ips", "10.1.0.9");
    check(&[INBOUND, ipv4, (INCLUDED, "10.0.0.0/8"), (EXCLUDED, "10.0.0.0/9,10.128.0.0/9")], &[leave]);
    check(&[INBOUND, ipv4, (INCLUDED, "10.0.0.0/8,10.1.0.0/16"), (EXCLUDED, "0.0.0.0/0")], &[leave]);
    check(&[INBOUND, ipv4, (INCLUDED, "*"), (EXCLUDED, "0.0.0.0/0")], &[leave]);
    // IPv6 is still captured, so the wording differs.
    check(&[INBOUND, IPV6, (INCLUDED, "*"), (EXCLUDED, "0.0.0.0/0")], &[leave]);
    check(&[ipv4, (INCLUDED, "*"), (EXCLUDED, "0.0.0.0/0")], &[leave]);
    let ports = ("istio-local-outbound-ports-exclude", "1-65535");
    let leave_ports = ("--istio-local-outbound-ports-exclude", "remove the items that must be captured");
    check(&[INBOUND, (INCLUDED, "*"), ports], &[leave_ports]);
    let remedy = "drop 10.1.0.0/16, or remove it from --istio-service-exclude-cidr if it should take effect";
    check(
        &[INBOUND, (INCLUDED, "10.1.0.0/16,11.0.0.0/8"), (EXCLUDED, "10.0.0.0/8")],
        &[("--istio-service-cidr", remedy)],
    );
}

#[test]
fn an_item_behind_another_of_its_option_is_dropped() {
    check(
        &[INBOUND, (INCLUDED, "10.0.0.0/8"), ("kube-virt-interfaces", "vm0,vm+")],
        &[("--kube-virt-interfaces", "drop vm0")],
    );
}

#[test]
fn only_missing_capture_is_reported_where_nothing_is_captured() {
    let remedy = "give options that capture traffic, such as -i '*' and -b '*', or -m NONE";
    let given = [("istio-local-exclude-ports", "80"), ("dns-servers", "10.0.0.1")];
    check(&given, &[("--istio-service-cidr", remedy)]);
    let none =
        [&given[..], &[("istio-inbound-interception-mode", "NONE"), (INCLUDED, "10.0.0.0/8")]].concat();
    check(&none, &[]);
    let (raw, capture) = configured(Mesh::Istio, &none).expect("valid");
    let codes: Vec<Code> = lint(&raw, &capture, &[]).iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::ModeNone]);
}

#[test]
fn options_without_effect_are_explained() {
    let check = |flags: &[(&str, &str)], expected: &str| {
        let flags = [&[INBOUND, ("drop-invalid", "true")], flags].concat();
        let (raw, capture) = configured(Mesh::Istio, &flags).expect("valid");
        let found = lint(&raw, &capture, &[]);
        let texts: Vec<&str> =
            found.iter().filter(|f| f.code == Code::NoEffect).map(|f| f.text.as_str()).collect();
        assert_eq!(texts, [expected], "{flags:?}: {found:#?}");
    };
    check(
        &[("istio-inbound-ports", "80"), ("istio-local-exclude-ports", "81")],
        "has no effect: it excludes ports from -b '*', which is not given",
    );
    check(
        &[(INCLUDED, "*"), ("istio-outbound-ports", "80")],
        "has no effect: it lists ports that -i '*' captures anyway",
    );
    check(
        &[(INCLUDED, "*"), ("istio-inbound-tproxy-mark", "7")],
        "has no effect: it marks packets in TPROXY mode, which is off",
    );
    check(
        &[(INCLUDED, "*"), ("dns-servers", "10.0.0.1")],
        "has no effect: it names servers, but DNS is not captured",
    );
    check(
        &[(EXCLUDED, "10.0.0.0/8")],
        "has no effect: it excludes networks, but no outbound network is captured",
    );
    check(
        &[
            (INCLUDED, "*"),
            ("ISTIO_OUTBOUND_OWNER_GROUPS", "5"),
            ("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "6"),
        ],
        "has no effect: it excludes groups, but only a list of groups is captured",
    );
}

#[test]
fn listeners_share_no_port() {
    check(
        &[INBOUND, (INCLUDED, "10.0.0.0/8"), ("inbound-capture-port", "15000-15010")],
        &[("--inbound-capture-port", "give the listeners different ports")],
    );
}

#[test]
fn the_exclusion_that_leaves_no_capture_is_reported() {
    for (ports, networks, expected) in [
        ("80", "10.0.0.0/8", "--istio-service-exclude-cidr"),
        ("1-65535", "10.1.0.0/16", "--istio-local-outbound-ports-exclude"),
    ] {
        let flags =
            [(INCLUDED, "10.0.0.0/8"), ("istio-local-outbound-ports-exclude", ports), (EXCLUDED, networks)];
        let (raw, capture) = configured(Mesh::Istio, &flags).expect("valid");
        let found = lint(&raw, &capture, &[]);
        let reported = found.iter().find(|finding| finding.code == Code::AllExcluded);
        assert_eq!(reported.map(|finding| finding.subject.as_str()), Some(expected), "{found:#?}");
    }
}

#[test]
fn dns_excluded_by_its_port_is_reported() {
    let excluded = ("istio-local-outbound-ports-exclude", "53,80");
    let remedy = "remove port 53 from the option";
    check(
        &[INBOUND, (INCLUDED, "*"), ("redirect-dns", "true"), excluded],
        &[("--istio-local-outbound-ports-exclude", remedy)],
    );
    check(&[INBOUND, (INCLUDED, "*"), excluded], &[]);
}

#[test]
fn virtual_machines_are_not_combined_with_tproxy() {
    let machines = [INBOUND, (INCLUDED, "*"), ("kube-virt-interfaces", "vm0")];
    check(&machines, &[]);
    let tproxy = [&machines[..], &[("istio-inbound-interception-mode", "TPROXY")]].concat();
    check(&tproxy, &[("--kube-virt-interfaces", "use -m REDIRECT")]);
}

#[test]
fn addresses_of_a_family_that_is_not_captured_are_reported() {
    let pod = |addresses, more: &[(&str, &str)], expected: &[(&str, &str)]| {
        check(&[&[INBOUND, (INCLUDED, "10.0.0.0/8"), ("pod-ips", addresses)], more].concat(), expected);
    };
    pod("10.44.0.7,fd00::7", &[], &[("--pod-ips", "give --dual-stack")]);
    pod("10.44.0.7,fe80::7", &[], &[]);
    pod("10.44.0.7,fd00::7", &[IPV6], &[]);
}

#[test]
fn an_address_of_an_interface_counts_as_a_declared_one() {
    let config = CaptureConfig { outbound_cidrs: Some(vec![parsed("10.0.0.0/8")]), ..nothing() };
    let reported = |given: &[(Setting, &str)], config: &CaptureConfig, address: &str| {
        let flags = given.iter().map(|&(setting, value)| (setting, value.to_owned()));
        let raw = Raw::new(flags, |_| false, |_| None);
        let held = [InterfaceAddress { address: parsed(address), interface: "eth0".to_owned() }];
        uncaptured_ipv6(&raw, config, &held).map(|finding| format!("{}: {}", finding.subject, finding.remedy))
    };
    let declared = (Setting::PodIps, "10.44.0.7");
    let both = (Setting::DualStack, "true");
    assert_eq!(reported(&[], &config, "fd00::7").as_deref(), Some("--dual-stack: give --dual-stack"));
    assert_eq!(
        reported(&[declared], &config, "2001:db8::7").as_deref(),
        Some("--pod-ips: name it in --pod-ips, and give --dual-stack")
    );
    assert_eq!(
        reported(&[declared, both], &config, "fd00::7").as_deref(),
        Some("--pod-ips: name it in --pod-ips")
    );
    for address in ["::6", "::1", "fe80::7", "ff02::1"] {
        assert_eq!(reported(&[], &config, address), None, "{address}");
    }
    assert_eq!(reported(&[], &CaptureConfig { ipv6: true, ..config.clone() }, "fd00::7"), None);
    assert_eq!(reported(&[], &CaptureConfig { interception: Interception::None, ..config }, "fd00::7"), None);
}

#[test]
fn calls_of_the_second_user_are_captured_where_loopback_is() {
    let two = |included, expected: &[(&str, &str)]| {
        let owners = [("proxy-uid", "5,6"), ("proxy-gid", "5,6")];
        check(&[&[INBOUND, (INCLUDED, included)], &owners[..]].concat(), expected);
    };
    two("10.0.0.0/8", &[("--proxy-uid", "run the proxy as one user")]);
    two("127.0.0.1/32", &[]);
}

#[test]
fn many_networks_of_many_virtual_machines_are_checked_in_time() {
    let list = |items: Vec<String>| items.join(",");
    let networks = (0..300).map(|n| format!("10.{}.{}.0/24", n / 200, n % 200));
    let networks = list(networks.chain(["10.0.7.0/25".to_owned()]).collect());
    let machines = list((0..20).map(|n| format!("vm{n}")).collect());
    check(
        &[INBOUND, (INCLUDED, &networks), ("kube-virt-interfaces", &machines)],
        &[("--istio-service-cidr", "drop 10.0.7.0/25")],
    );
}

#[test]
fn incomplete_checks_are_reported() {
    let (raw, capture) =
        configured(Mesh::Istio, &[INBOUND, (INCLUDED, "10.1.0.0/16,10.0.0.0/8")]).expect("valid");
    let reported = |work| lint_within(Work::new(work), None, &raw, &capture, &[]);
    let is_cut = |findings: &[Finding]| findings.iter().any(|f| f.text.ends_with("others may be missing"));
    assert!(is_cut(&reported(100)) && !reported(100).iter().any(|f| f.remedy.starts_with("drop")));
    assert!(!is_cut(&reported(MAX_WORK)));
}

#[test]
fn usual_flags_cause_no_warning() {
    let usual = [
        ("envoy-port", "15001"),
        ("inbound-capture-port", "15006"),
        ("proxy-uid", "1337"),
        ("proxy-gid", "1337"),
        ("istio-inbound-interception-mode", "REDIRECT"),
        (INCLUDED, "*"),
        (EXCLUDED, ""),
        INBOUND,
        ("istio-local-exclude-ports", "15090,15021,15020"),
    ];
    check(&usual, &[]);
    check(&[&usual[..], &[IPV6, ("redirect-dns", "true")]].concat(), &[]);
}

/// True for packets that the kernel drops before any rule: no outside host has a loopback address (`ip_route_input_slow`).
pub(super) fn is_martian(packet: &Packet) -> bool {
    let ends = [packet.source.ip(), packet.destination.ip()];
    matches!(packet.direction, Direction::Inbound { .. }) && ends.iter().any(IpAddr::is_loopback)
}

/// Each trial makes all rules again: trials of a thousand items would make a million rules.
#[test]
fn only_the_first_of_many_items_without_effect_are_tried() {
    let codes = |count: usize| {
        let nested: Vec<String> =
            (0..count).map(|item| format!("10.{}.{}.0/24", item / 256, item % 256)).collect();
        let value = format!("10.0.0.0/8,{}", nested.join(","));
        let flags =
            [("pod-ips", "10.9.0.1"), ("istio-service-cidr", "*"), ("istio-service-exclude-cidr", &value)];
        let (raw, capture) = configured(Mesh::Istio, &flags).expect("valid");
        let found = lint(&raw, &capture, &[]);
        [Code::CoveredItem, Code::Incomplete].map(|code| found.iter().filter(|one| one.code == code).count())
    };
    assert_eq!(codes(64), [64, 0]);
    assert_eq!(codes(300), [64, 1]);
}
