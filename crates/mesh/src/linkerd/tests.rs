//! Words in, rules out: what each setting makes, and what is refused.

use super::*;
use crate::mesh::Mesh;
use crate::registry::resolve;
use crate::sources::{NullHost, Raw};
use rules::render::iptables::statement;

fn raw(words: &[(Setting, &str)]) -> Raw {
    let flags = [(Setting::Mesh, "linkerd")].iter().chain(words);
    Raw::new(flags.map(|(setting, value)| (*setting, (*value).to_owned())), |_| true, |_| None)
}

fn configured(words: &[(Setting, &str)]) -> (CaptureConfig, Vec<String>) {
    let resolved =
        resolve(&raw(words), &NullHost, Vec::new()).unwrap_or_else(|problems| panic!("{problems}"));
    match resolved.capture {
        Capture::Linkerd(config) => (config, resolved.warnings),
        other => panic!("not linkerd's: {other:?}"),
    }
}

/// The rules of a family without what all have: the table, and comments, which have a separate test.
fn lines(words: &[(Setting, &str)], family: Family) -> Vec<String> {
    let rules = configured(words).0.rules(family);
    let commands_of = rules.rules().statements.iter().map(|one| {
        let text = statement(one);
        let (before, behind) = text.split_once("-m comment --comment \"").expect("a comment");
        let (_, behind) = behind.split_once("\" ").expect("its end");
        format!("{before}{behind}").replace("PROXY_INIT_REDIRECT", "R").replace("PROXY_INIT_OUTPUT", "O")
    });
    commands_of.collect()
}

const PORTS: [(Setting, &str); 3] =
    [(Linkerd::IncomingProxyPort, "4143"), (Linkerd::OutgoingProxyPort, "4140"), (Linkerd::ProxyUid, "-1")];

fn check(words: &[(Setting, &str)], expected: &[&str]) {
    let words: Vec<_> = PORTS.iter().chain(words).copied().collect();
    assert_eq!(lines(&words, Family::V4), expected, "{words:?}");
}

const TO_IN: &str = "-A R -p tcp -j REDIRECT --to-ports 4143";
const TO_OUT: &str = "-A O -p tcp -j REDIRECT --to-ports 4140";
const IN: &str = "-A PREROUTING -j R";
const OUT: &str = "-A OUTPUT -j O";
const LO: &str = "-A O -o lo -j RETURN";

#[test]
fn each_setting_makes_its_rules_in_their_order() {
    check(&[], &[TO_IN, IN, LO, TO_OUT, OUT]);
    check(
        &[
            (Linkerd::ProxyUid, "2102"),
            (Linkerd::ProxyGid, "2103"),
            (Linkerd::InboundPortsToIgnore, "4190,4191,4567,4568"),
            (Linkerd::OutboundPortsToIgnore, "4567,4568"),
            (Linkerd::SubnetsToIgnore, "172.17.0.0/16, 2001:db8::/32"),
        ],
        &[
            "-A R -p tcp -m multiport --dports 4190,4191,4567,4568 -j RETURN",
            "-A R -s 172.17.0.0/16 -j RETURN",
            TO_IN,
            IN,
            "-A O -m owner --uid-owner 2102 -j RETURN",
            "-A O -m owner --gid-owner 2103 -j RETURN",
            LO,
            "-A O -p tcp -m multiport --dports 4567,4568 -j RETURN",
            TO_OUT,
            OUT,
        ],
    );
    let ports = |port: u16| format!("-A R -p tcp --dport {port} -j REDIRECT --to-ports 4143");
    check(&[(Linkerd::PortsToRedirect, "443,80")], &[&ports(443), &ports(80), IN, LO, TO_OUT, OUT]);
}

#[test]
fn ports_stay_in_their_order_and_fill_a_rule_up_to_15() {
    let of = |list: &str| {
        let words = [(Linkerd::InboundPortsToIgnore, list)];
        let lines = lines(&[&PORTS[..], &words].concat(), Family::V4);
        let lists = lines.iter().filter_map(|line| line.split_once("--dports ")?.1.split(' ').next());
        lists.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        of("22-23,25-27,33-34,35-35,37-38,50-54,56,58,60,63,70-72"),
        ["22:23,25:27,33:34,35,37:38,50:54,56,58,60,63", "70:72"]
    );
    // What does not fit any more begins a rule, and what is smaller does not overtake it.
    assert_eq!(
        of("1-2,3-4,5-6,7-8,9-10,11-12,13-14,15-16,17"),
        ["1:2,3:4,5:6,7:8,9:10,11:12,13:14", "15:16,17"]
    );
    let sixteen: Vec<String> = (1..=16).rev().map(|port: u16| port.to_string()).collect();
    assert_eq!(of(&sixteen.join(",")), ["16,15,14,13,12,11,10,9,8,7,6,5,4,3,2", "1"]);
    assert_eq!(of("9,9"), ["9,9"]);
}

#[test]
fn comments_are_those_of_proxy_init() {
    let words = [
        (Linkerd::ProxyGid, "1"),
        (Linkerd::PortsToRedirect, "80"),
        (Linkerd::InboundPortsToIgnore, "22-22,30-40"),
        (Linkerd::SubnetsToIgnore, "10.1.2.3/8,2001:DB8::/32"),
    ];
    let comments = |family: Family| {
        let rules = configured(&words).0.rules(family);
        let texts: Vec<String> = rules.rules().statements.iter().map(statement).collect();
        let found = texts.iter().map(|text| text.split('"').nth(1).expect("a comment").to_owned());
        found.collect::<Vec<_>>()
    };
    let expected = [
        "proxy-init/ignore-port-22,30:40",
        "proxy-init/ignore-subnet-10.1.2.3/8",
        "proxy-init/redirect-port-80-to-proxy-port",
        "proxy-init/install-proxy-init-prerouting",
        "proxy-init/ignore-proxy-user-id",
        "proxy-init/ignore-proxy-group-id",
        "proxy-init/ignore-loopback",
        "proxy-init/redirect-all-outgoing-to-proxy-port",
        "proxy-init/install-proxy-init-output",
    ];
    assert_eq!(comments(Family::V4), expected);
    let of_v6 = expected.map(|text| text.replace("10.1.2.3/8", "2001:DB8::/32"));
    assert_eq!(comments(Family::V6), of_v6);
}

#[test]
fn families_differ_in_their_networks_alone_and_ipv6_can_be_left_away() {
    let subnets = (Linkerd::SubnetsToIgnore, "172.17.0.0/16,2001:db8::/32");
    let ours: Vec<String> = lines(&[subnets], Family::V4)
        .iter()
        .map(|line| line.replace("172.17.0.0/16", "2001:db8::/32"))
        .collect();
    assert_eq!(lines(&[subnets], Family::V6), ours);
    let without = [subnets, (Linkerd::Ipv6, "false")];
    assert_eq!(lines(&without, Family::V6), Vec::<String>::new());
    assert!(!configured(&without).0.ipv6);
}

#[test]
fn what_nobody_says_is_what_the_charts_say() {
    let (config, warnings) = configured(&[]);
    let expected = CaptureConfig {
        ipv6: true,
        inbound_listener: defaults::INBOUND_LISTENER,
        outbound_listener: defaults::OUTBOUND_LISTENER,
        proxy_uid: rules::Uid::new(defaults::PROXY_ID),
        proxy_gid: None,
        inbound_ports: LinkerdInboundPorts::All,
        ignored_inbound: Vec::new(),
        ignored_outbound: Vec::new(),
        ignored_subnets: Vec::new(),
    };
    assert_eq!((config, warnings), (expected, Vec::new()));
}

#[test]
fn what_is_taken_otherwise_than_it_is_written_is_told() {
    let check = |words: &[(Setting, &str)], expected: &str| {
        let (_, warnings) = configured(words);
        assert!(matches!(&warnings[..], [one] if one.contains(expected)), "{words:?}: {warnings:?}");
    };
    check(&[(Linkerd::InboundPortsToIgnore, "0,80")], "--inbound-ports-to-ignore: port 0 is dropped");
    check(&[(Linkerd::SubnetsToIgnore, "10.1.2.3/8")], "taken as the network 10.0.0.0/8");
}

#[test]
fn every_problem_is_told_at_once_with_its_flag_and_its_item() {
    let refused = |words: &[(Setting, &str)]| {
        let problems = resolve(&raw(words), &NullHost, Vec::new()).expect_err("refused");
        problems.0.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let problems = refused(&[
        (Linkerd::IncomingProxyPort, "0"),
        (Linkerd::OutgoingProxyPort, "70000"),
        (Linkerd::ProxyUid, "-2"),
        (Linkerd::ProxyGid, "linkerd"),
        (Linkerd::PortsToRedirect, "80-90,0"),
        (Linkerd::InboundPortsToIgnore, "9-1,http"),
        (Linkerd::OutboundPortsToIgnore, "1-70000"),
        (Linkerd::SubnetsToIgnore, "10.0.0.1,fd00::/129"),
        (Linkerd::Ipv6, "maybe"),
    ]);
    let expected = [
        "--ipv6: \"maybe\" is not a boolean",
        "--incoming-proxy-port: \"0\" is not a port",
        "--outgoing-proxy-port: \"70000\" is not a port",
        "--proxy-uid: \"-2\" is not a user",
        "--proxy-gid: \"linkerd\" is not a group",
        "--ports-to-redirect: \"80-90\" is not a port to capture",
        "--ports-to-redirect: \"0\" is not a port to capture",
        "--inbound-ports-to-ignore: \"9-1\" is a range whose end lies before its start",
        "--inbound-ports-to-ignore: \"http\" is not a port",
        "--outbound-ports-to-ignore: \"1-70000\" is not a port",
        "--subnets-to-ignore: \"10.0.0.1\"",
        "--subnets-to-ignore: \"fd00::/129\"",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem:?} is not {expected:?}");
        assert!(problem.contains("expected"), "{problem:?} names no form");
    }
    let same = refused(&[(Linkerd::IncomingProxyPort, "1"), (Linkerd::OutgoingProxyPort, "1")]);
    assert!(same[0].contains("the proxy needs a port for each"), "{same:?}");
    for (setting, default) in [(Linkerd::IncomingProxyPort, "4140"), (Linkerd::OutgoingProxyPort, "4143")] {
        let same = refused(&[(setting, default)]);
        let option = setting.row().option();
        assert!(same[0].starts_with(&format!("{option}: \"{default}\" is where --")), "{same:?}");
    }
}

#[test]
fn a_list_that_is_said_again_takes_more() {
    let words = [(Linkerd::OutboundPortsToIgnore, "1,2"), (Linkerd::OutboundPortsToIgnore, "3-4")];
    let ports: Vec<String> = configured(&words).0.ignored_outbound.iter().map(ToString::to_string).collect();
    assert_eq!(ports, ["1", "2", "3:4"]);
    // A single value does not: the last counts.
    let words = [(Linkerd::IncomingProxyPort, "1"), (Linkerd::IncomingProxyPort, "2")];
    assert_eq!(configured(&words).0.inbound_listener.number(), 2);
}

#[test]
fn the_policy_names_its_proxy_and_its_lists() {
    let (config, _) = configured(&[
        (Linkerd::ProxyGid, "7"),
        (Linkerd::PortsToRedirect, "80"),
        (Linkerd::InboundPortsToIgnore, "1"),
        (Linkerd::OutboundPortsToIgnore, "2"),
        (Linkerd::SubnetsToIgnore, "10.0.0.0/8"),
    ]);
    let policy: &dyn CapturePolicy = &config;
    let proxy = policy.proxy();
    let ids = (proxy.uids[0].number(), proxy.gids[0].number());
    assert_eq!((ids, proxy.listeners.transparent), ((2102, 7), None));
    let settings: Vec<(Setting, bool)> =
        policy.lists().iter().map(|listed| (listed.setting, listed.captured)).collect();
    let expected = [
        (Linkerd::PortsToRedirect, true),
        (Linkerd::InboundPortsToIgnore, false),
        (Linkerd::OutboundPortsToIgnore, false),
        (Linkerd::SubnetsToIgnore, false),
    ];
    assert_eq!(settings, expected);
    let desired = Capture::from(config).desired();
    assert_eq!((desired.owner.mesh, desired.routing.len()), (Mesh::Linkerd.name(), 0));
}

/// The commands of a call without what all have: the table, and comments.
fn commands_of(words: &[(Setting, &str)], family: Family) -> Vec<String> {
    let words: Vec<_> = PORTS.iter().chain(words).copied().collect();
    let commands = commands(&configured(&words).0, family);
    let short = commands.iter().map(|command| {
        let command = command.strip_prefix("-t nat ").expect("the table");
        let command = command.split(" -m comment --comment proxy-init/").next().expect("a part");
        command.replace("PROXY_INIT_REDIRECT", "R").replace("PROXY_INIT_OUTPUT", "O")
    });
    short.collect()
}

#[test]
fn commands_are_those_of_proxy_init() {
    let (to_in, to_out) =
        ("-A R -p tcp -j REDIRECT --to-port 4143", "-A O -p tcp -j REDIRECT --to-port 4140");
    assert_eq!(commands_of(&[], Family::V4), ["-N R", to_in, IN, "-N O", LO, to_out, OUT]);
    let usual = [
        (Linkerd::ProxyUid, "2102"),
        (Linkerd::ProxyGid, "2102"),
        (Linkerd::InboundPortsToIgnore, "4190,4191,4567-4568"),
        (Linkerd::OutboundPortsToIgnore, "4567,4568"),
        (Linkerd::SubnetsToIgnore, "172.17.1.0/16"),
    ];
    let expected = [
        "-N R",
        "-A R -p tcp --match multiport --dports 4190,4191,4567:4568 -j RETURN",
        "-A R -p all -j RETURN -s 172.17.1.0/16",
        to_in,
        IN,
        "-N O",
        "-A O -m owner --uid-owner 2102 -j RETURN",
        "-A O -m owner --gid-owner 2102 -j RETURN",
        LO,
        "-A O -p tcp --match multiport --dports 4567,4568 -j RETURN",
        to_out,
        OUT,
    ];
    assert_eq!(commands_of(&usual, Family::V4), expected);
    let of_v6: Vec<&str> = expected.into_iter().filter(|line| !line.contains("172.17")).collect();
    assert_eq!(commands_of(&usual, Family::V6), of_v6);
    let port = "-A R -p tcp --destination-port 80 -j REDIRECT --to-port 4143";
    assert_eq!(commands_of(&[(Linkerd::PortsToRedirect, "80")], Family::V4)[1], port);
    let whole = commands(&configured(&usual).0, Family::V4);
    assert_eq!(
        whole[2],
        "-t nat -A PROXY_INIT_REDIRECT -p all -j RETURN -s 172.17.1.0/16 -m comment --comment \
         proxy-init/ignore-subnet-172.17.1.0/16"
    );
}

#[test]
fn ports_without_a_default_are_missing_where_they_are_not_given() {
    let missing = |words: &[(Setting, &str)]| super::missing(&raw(words)).collect::<Vec<_>>();
    assert_eq!(missing(&[]), [Linkerd::IncomingProxyPort, Linkerd::OutgoingProxyPort]);
    assert_eq!(missing(&[(Linkerd::IncomingProxyPort, "1")]), [Linkerd::OutgoingProxyPort]);
    assert_eq!(missing(&[(Linkerd::IncomingProxyPort, "1"), (Linkerd::OutgoingProxyPort, "2")]), []);
}
