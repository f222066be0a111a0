//! Laws of lint over configurations at random, and the faults that it had, one test each.

use super::judge::{Judge, scenes};
use super::{Finding, Held, Idle, MOST_WORK, lint, lint_within, look, uncaptured_ipv6};
use crate::Setting;
use crate::explain::Pod;
use crate::istio::lint::without;
use crate::istio::{
    CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs, OwnerGroups, defaults,
};
use crate::mesh::Capture;
use crate::sources::Raw;
use proptest::{collection::vec, prelude::*, sample::select, sample::subsequence};
use rules::shadow::Work;
use rules::simulate::{Direction, Packet, walk};
use rules::{Cidr, ConnState, Family, Gid, InterfaceName, PortRange, Protocol, Uid};
use std::net::{IpAddr, SocketAddr};

const NETWORKS: [&str; 12] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.0.9/32",
    "127.0.0.1/32",
    "127.0.0.0/8",
    "192.168.0.0/16",
    "::/0",
    "::1/128",
    "fd00::/8",
    "fd00:1::/32",
    "2001:db8::/32",
];
const PORTS: [&str; 8] = ["53", "80", "80-90", "85", "1-65535", "15008", "1000-2000", "2000-3000"];
const INTERFACES: [&str; 4] = ["eth0", "vm0", "vm+", "lo"];
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

fn some<T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug + Clone>(
    texts: &'static [&'static str],
    most: usize,
) -> impl Strategy<Value = Vec<T>> {
    vec(select(texts).prop_map(parsed), 0..=most)
}

fn id() -> impl Strategy<Value = u32> {
    select(&[0, 5, 6, 1000, 1337][..])
}

fn gids(most: usize) -> impl Strategy<Value = Vec<Gid>> {
    vec(id().prop_map(|id| Gid::new(id).expect("an id")), 0..=most)
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
        inbound_ports: InboundPorts::Only(Vec::new()),
        excluded_interfaces: Vec::new(),
        vm_interfaces: Vec::new(),
        outbound_cidrs: OutboundCidrs::Only(Vec::new()),
        excluded_cidrs: Vec::new(),
        outbound_ports: Vec::new(),
        excluded_outbound_ports: Vec::new(),
        owner_groups: OwnerGroups::AllBut(Vec::new()),
        loopback_v4: parsed("127.0.0.1/32"),
        dns: DnsCapture::Off,
        drop_invalid: false,
        log_hits: false,
    }
}

pub(crate) fn config() -> impl Strategy<Value = CaptureConfig> {
    let tproxy = Interception::Tproxy { mark: defaults::TPROXY_MARK, table: defaults::TPROXY_TABLE };
    let inbound = prop_oneof![
        some(&PORTS, 4).prop_map(InboundPorts::AllBut),
        some(&PORTS, 4).prop_map(InboundPorts::Only)
    ];
    let outbound = prop_oneof![
        1 => Just(OutboundCidrs::All),
        3 => some(&NETWORKS, 5).prop_map(OutboundCidrs::Only),
    ];
    let owner_groups =
        prop_oneof![2 => gids(2).prop_map(OwnerGroups::AllBut), 1 => gids(2).prop_map(OwnerGroups::Only)];
    let dns = prop_oneof![
        Just(DnsCapture::Off),
        Just(DnsCapture::All),
        Just(DnsCapture::Servers(vec![parsed("10.200.0.1"), parsed("fd00:1::9")]))
    ];
    let proxies = (subsequence(vec![0, 5, 1337], 1..3), gids(2));
    let lists = (some(&NETWORKS, 4), some(&PORTS, 3), some(&PORTS, 3));
    let interfaces = (some::<InterfaceName>(&INTERFACES, 1), some::<InterfaceName>(&INTERFACES, 2));
    let interception = prop_oneof![3 => Just(Interception::Redirect), 1 => Just(tproxy)];
    (
        (any::<bool>(), interception, inbound, outbound, owner_groups, dns),
        lists,
        proxies,
        interfaces,
        select(&["127.0.0.1/32", "127.0.0.0/8"][..]),
        any::<bool>(),
    )
        .prop_map(
            |(
                (ipv6, interception, inbound_ports, outbound_cidrs, owner_groups, dns),
                lists,
                proxies,
                interfaces,
                loopback,
                drop_invalid,
            )| {
                CaptureConfig {
                    ipv6,
                    interception,
                    inbound_ports,
                    outbound_cidrs,
                    owner_groups,
                    dns,
                    excluded_cidrs: lists.0,
                    outbound_ports: lists.1,
                    excluded_outbound_ports: lists.2,
                    proxy_uids: proxies.0.into_iter().filter_map(Uid::new).collect(),
                    proxy_gids: proxies.1,
                    excluded_interfaces: interfaces.0,
                    vm_interfaces: interfaces.1,
                    loopback_v4: parsed(loopback),
                    drop_invalid,
                    ..nothing()
                }
            },
        )
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

/// All options given that may have no effect.
fn raw() -> Raw {
    let flag = |setting: Setting, text: &str| (setting, text.to_owned());
    let given = [
        flag(Setting::PodIps, "10.1.0.9"),
        flag(Setting::InboundPortsExclude, "x"),
        flag(Setting::OutboundPorts, "x"),
        flag(Setting::ServiceExcludeCidr, "x"),
        flag(Setting::DnsServers, "x"),
        flag(Setting::OwnerGroupsExclude, "x"),
    ];
    Raw::new(given, |_| false, |_| None)
}

fn idle(config: &CaptureConfig) -> Vec<Idle> {
    let (raw, capture) = (raw(), Capture::from(config.clone()));
    look(&mut Judge::new(&raw, &capture, Work::new(MOST_WORK)), &[]).idle
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whoever_follows_advice_sees_every_packet_end_as_before(config in config(), packets in vec(packet(), 200)) {
        let pod = Pod::new([parsed("10.1.0.9"), parsed("fd00:1::9")], Some(&config));
        let idle = idle(&config);
        let all = idle.iter().fold(config.clone(), |config, idle| without(&config, &idle.change));
        let each = idle.iter().map(|idle| (Some(&idle.finding), without(&config, &idle.change)));
        for (finding, changed) in each.chain([(None, all)]) {
            for (before, after) in scenes(&config.clone().into(), &pod).iter().zip(&scenes(&changed.clone().into(), &pod)) {
                for packet in packets.iter().filter(|packet| packet.family() == before.family) {
                    let then = walk(&before.view, &before.routing, packet, &mut ()).verdict;
                    let now = walk(&after.view, &after.routing, packet, &mut ()).verdict;
                    prop_assert_eq!(then, now, "{:?}: {:?}\n{:?}", finding, packet, changed);
                }
            }
        }
    }
}

fn list<T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug>(texts: &[&str]) -> Vec<T> {
    texts.iter().copied().map(parsed).collect()
}

fn outbound(included: &[&str], excluded: &[&str]) -> CaptureConfig {
    CaptureConfig {
        outbound_cidrs: OutboundCidrs::Only(list::<Cidr>(included)),
        excluded_cidrs: list(excluded),
        inbound_ports: InboundPorts::AllBut(Vec::new()),
        drop_invalid: true,
        ..nothing()
    }
}

/// Options and remedies of all warnings.
fn check(raw: &[(Setting, &str)], config: &CaptureConfig, expected: &[(&str, &str)]) {
    let raw = Raw::new(raw.iter().map(|(setting, text)| (*setting, (*text).to_owned())), |_| false, |_| None);
    let found: Vec<Finding> = lint(&raw, &config.clone().into(), &[])
        .into_iter()
        .filter(|f| f.level == super::Level::Warning)
        .collect();
    let told: Vec<(&str, &str)> = found.iter().map(|f| (f.option.as_str(), f.remedy.as_str())).collect();
    assert_eq!(told, expected, "{found:#?}");
}

#[test]
fn a_network_is_left_out_only_if_nothing_else_hangs_on_it() {
    check(&[], &outbound(&["127.0.0.1/32", "0.0.0.0/0"], &[]), &[]);
    check(
        &[],
        &outbound(&["127.0.0.1/32", "127.0.0.2/32", "0.0.0.0/0"], &[]),
        &[("--istio-service-cidr", "drop 127.0.0.1/32")],
    );
    check(&[], &outbound(&["::1/128", "10.0.0.0/8"], &[]), &[]);
    check(&[], &CaptureConfig { ipv6: true, ..outbound(&["::1/128", "10.0.0.0/8"], &[]) }, &[]);
    check(
        &[],
        &outbound(&["10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/8"], &[]),
        &[("--istio-service-cidr", "drop 10.1.0.0/16"), ("--istio-service-cidr", "list 10.0.0.0/8 once")],
    );
}

#[test]
fn what_is_excluded_as_a_whole_is_told_once() {
    let leave = ("--istio-service-exclude-cidr", "leave out of it what is to be captured");
    check(&[], &outbound(&["10.0.0.0/8"], &["10.0.0.0/9", "10.128.0.0/9"]), &[leave]);
    check(&[], &outbound(&["10.0.0.0/8", "10.1.0.0/16"], &["0.0.0.0/0"]), &[leave]);
    let all = CaptureConfig { outbound_cidrs: OutboundCidrs::All, ..outbound(&[], &["0.0.0.0/0"]) };
    check(&[], &all, &[leave]);
    // IPv6 is left.
    check(&[], &CaptureConfig { ipv6: true, ..all.clone() }, &[]);
    let nothing_else = CaptureConfig { inbound_ports: InboundPorts::Only(Vec::new()), ..all };
    check(&[], &nothing_else, &[leave]);
    let remedy = "drop 10.1.0.0/16; if it was meant to count, take it out of --istio-service-exclude-cidr";
    check(
        &[],
        &outbound(&["10.1.0.0/16", "11.0.0.0/8"], &["10.0.0.0/8"]),
        &[("--istio-service-cidr", remedy)],
    );
}

#[test]
fn where_nothing_is_captured_nothing_else_is_told() {
    let remedy = "say what to capture, such as -i '*' and -b '*', or give -m NONE";
    let given = [(Setting::InboundPortsExclude, "80"), (Setting::DnsServers, "10.0.0.1")];
    check(&given, &nothing(), &[("--istio-service-cidr", remedy)]);
    let none = CaptureConfig { interception: Interception::None, ..outbound(&["10.0.0.0/8"], &[]) };
    check(&given, &none, &[]);
    assert_eq!(lint(&Raw::default(), &none.into(), &[]).len(), 1);
}

#[test]
fn listeners_share_no_port() {
    let range: PortRange = parsed("15000-15010");
    let config = CaptureConfig { inbound_listener: range, ..outbound(&["10.0.0.0/8"], &[]) };
    check(&[], &config, &[("--inbound-capture-port", "give the listeners different ports")]);
}

#[test]
fn an_address_whose_family_is_not_captured_is_told() {
    let config = outbound(&["10.0.0.0/8"], &[]);
    check(&[(Setting::PodIps, "10.44.0.7,fd00::7")], &config, &[("--pod-ips", "give --dual-stack")]);
    check(&[(Setting::PodIps, "10.44.0.7,fe80::7")], &config, &[]);
    let both = CaptureConfig { ipv6: true, ..config };
    check(&[(Setting::PodIps, "10.44.0.7,fd00::7")], &both, &[]);
}

#[test]
fn an_address_of_an_interface_counts_as_a_declared_one() {
    let config = outbound(&["10.0.0.0/8"], &[]);
    let told = |given: &[(Setting, &str)], config: &CaptureConfig, address: &str| {
        let flags = given.iter().map(|&(setting, value)| (setting, value.to_owned()));
        let raw = Raw::new(flags, |_| false, |_| None);
        let held = [Held { address: parsed(address), interface: "eth0".to_owned() }];
        uncaptured_ipv6(&raw, config, &held).map(|finding| format!("{}: {}", finding.option, finding.remedy))
    };
    let declared = (Setting::PodIps, "10.44.0.7");
    let both = (Setting::DualStack, "true");
    assert_eq!(told(&[], &config, "fd00::7").as_deref(), Some("--dual-stack: give --dual-stack"));
    assert_eq!(
        told(&[declared], &config, "2001:db8::7").as_deref(),
        Some("--pod-ips: name it in --pod-ips, and give --dual-stack")
    );
    assert_eq!(
        told(&[declared, both], &config, "fd00::7").as_deref(),
        Some("--pod-ips: name it in --pod-ips")
    );
    for address in ["::6", "::1", "fe80::7", "ff02::1"] {
        assert_eq!(told(&[], &config, address), None, "{address}");
    }
    assert_eq!(told(&[], &CaptureConfig { ipv6: true, ..config.clone() }, "fd00::7"), None);
    assert_eq!(told(&[], &CaptureConfig { interception: Interception::None, ..config }, "fd00::7"), None);
}

#[test]
fn calls_of_the_second_user_are_captured_where_loopback_is() {
    let two = |included| CaptureConfig {
        proxy_uids: [5, 6].into_iter().filter_map(Uid::new).collect(),
        proxy_gids: [5, 6].into_iter().filter_map(Gid::new).collect(),
        ..outbound(included, &[])
    };
    check(&[], &two(&["10.0.0.0/8"]), &[("--proxy-uid", "run the proxy as one user")]);
    check(&[], &two(&["127.0.0.1/32"]), &[]);
}

#[test]
fn many_networks_of_many_virtual_machines_are_looked_at_in_time() {
    let mut networks: Vec<Cidr> =
        (0..300).map(|n| parsed(&format!("10.{}.{}.0/24", n / 200, n % 200))).collect();
    networks.push(parsed("10.0.7.0/25"));
    let config = CaptureConfig {
        vm_interfaces: (0..20).map(|n| parsed(&format!("vm{n}"))).collect(),
        outbound_cidrs: OutboundCidrs::Only(networks),
        ..outbound(&[], &[])
    };
    check(&[], &config, &[("--istio-service-cidr", "drop 10.0.7.0/25")]);
}

#[test]
fn what_is_not_looked_at_is_said() {
    let config = outbound(&["10.1.0.0/16", "10.0.0.0/8"], &[]);
    let told = |work| lint_within(Work::new(work), None, &Raw::default(), &config.clone().into(), &[]);
    let is_cut = |findings: &[Finding]| findings.iter().any(|f| f.text.ends_with("was not looked at"));
    assert!(is_cut(&told(1000)) && !told(1000).iter().any(|f| f.remedy.starts_with("drop")));
    assert!(!is_cut(&told(MOST_WORK)));
}

/// Whether the kernel drops it before any rule: nobody outside has an address of loopback (`ip_route_input_slow`).
pub(super) fn is_martian(packet: &Packet) -> bool {
    matches!(packet.direction, Direction::Inbound { .. }) && packet.source.ip().is_loopback()
}
