//! Settings of pods and agents, and the rules and the routing that they make.

use super::{Ambient, CaptureConfig, OWNERSHIP, Reason, configure, defaults};
use crate::RuleReason;
use crate::mesh::Mesh;
use crate::policy::CapturePolicy;
use crate::registry::Capture;
use crate::settings::Setting;
use crate::sources::{NullHost, Raw, SettingReader};
use rules::{Family, Table, render::iptables, routing::Object};

/// The configuration by these flags, and by these variables.
fn read(flags: &[(Setting, &str)], variables: &[(&str, &str)]) -> Result<CaptureConfig, Vec<String>> {
    let flags = flags.iter().map(|(setting, value)| (*setting, (*value).to_owned()));
    let variable = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| value.into())
    };
    let raw = Raw::new(flags, |row| row.setting.is_for(Mesh::Ambient), variable);
    let mut reader = SettingReader::new(&raw, Vec::new());
    let config = configure(&mut reader, &NullHost, false);
    let problems = |problems: crate::Problems| problems.0.iter().map(ToString::to_string).collect();
    reader.finish().map(|_| config).map_err(problems)
}

fn config(flags: &[(Setting, &str)]) -> CaptureConfig {
    read(flags, &[]).expect("good flags")
}

/// The rules of a table, one a line, in their order.
fn check(flags: &[(Setting, &str)], family: Family, table: Table, expected: &[&str]) {
    let rules = config(flags).rules(family);
    let lines: Vec<String> = rules.rules().of_table(table).map(iptables::statement).collect();
    assert_eq!(lines, expected, "{flags:?}, {family}, {table}");
}

const DEFAULT_NAT: [&str; 10] = [
    "-A OUTPUT -j ISTIO_OUTPUT",
    "-A PREROUTING -j ISTIO_PRERT",
    "-A ISTIO_PRERT -s 169.254.7.127/32 -p tcp -m tcp -j ACCEPT",
    "-A ISTIO_OUTPUT -d 169.254.7.127/32 -p tcp -m tcp -j ACCEPT",
    "-A ISTIO_PRERT ! -d 127.0.0.1/32 -p tcp ! --dport 15008 -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15006",
    "-A ISTIO_OUTPUT ! -o lo -p udp -m mark ! --mark 0x539/0xfff --dport 53 -j REDIRECT --to-ports 15053",
    "-A ISTIO_OUTPUT ! -d 127.0.0.1/32 -p tcp --dport 53 -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15053",
    "-A ISTIO_OUTPUT -p tcp -m mark --mark 0x111/0xfff -j ACCEPT",
    "-A ISTIO_OUTPUT ! -d 127.0.0.1/32 -o lo -j ACCEPT",
    "-A ISTIO_OUTPUT ! -d 127.0.0.1/32 -p tcp -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15001",
];

const MANGLE: [&str; 4] = [
    "-A PREROUTING -j ISTIO_PRERT",
    "-A OUTPUT -j ISTIO_OUTPUT",
    "-A ISTIO_PRERT -m mark --mark 0x539/0xfff -j CONNMARK --set-xmark 0x111/0xfff",
    "-A ISTIO_OUTPUT -m connmark --mark 0x111/0xfff -j CONNMARK --restore-mark",
];

#[test]
fn without_flags_all_that_a_pod_sends_and_gets_is_captured() {
    check(&[], Family::V4, Table::Nat, &DEFAULT_NAT);
    check(&[], Family::V4, Table::Mangle, &MANGLE);
    let raw = [
        "-A PREROUTING -j ISTIO_PRERT",
        "-A OUTPUT -j ISTIO_OUTPUT",
        "-A ISTIO_OUTPUT -p udp -m mark --mark 0x539/0xfff --dport 53 -j CT --zone 1",
        "-A ISTIO_PRERT -p udp -m mark ! --mark 0x539/0xfff --sport 53 -j CT --zone 1",
    ];
    check(&[], Family::V4, Table::Raw, &raw);
    let v6 = DEFAULT_NAT.map(|line| {
        line.replace("169.254.7.127/32", "fd16:9254:7127:1337:ffff:ffff:ffff:ffff/128")
            .replace("127.0.0.1/32", "::1/128")
    });
    let v6: Vec<&str> = v6.iter().map(String::as_str).collect();
    check(&[], Family::V6, Table::Nat, &v6);
}

#[test]
fn a_gateway_keeps_what_arrives_and_the_way_back_of_what_ztunnel_brings() {
    let arriving = |line: &&str| !line.starts_with("-A ISTIO_PRERT");
    let nat: Vec<&str> = DEFAULT_NAT.into_iter().filter(arriving).collect();
    check(&[(Ambient::Ingress, "true")], Family::V4, Table::Nat, &nat);
    check(&[(Ambient::Ingress, "true")], Family::V4, Table::Mangle, &MANGLE);
}

#[test]
fn without_dns_capture_there_is_no_zone() {
    let queries = |line: &&str| !line.contains("port 53 ");
    let nat: Vec<&str> = DEFAULT_NAT.into_iter().filter(queries).collect();
    check(&[(Ambient::DnsCapture, "false")], Family::V4, Table::Nat, &nat);
    check(&[(Ambient::DnsCapture, "false")], Family::V4, Table::Raw, &[]);
    assert_eq!(config(&[(Ambient::DnsCapture, "0")]).stale_flows(), None);
    assert!(config(&[]).stale_flows().is_some_and(|flows| flows.destinations.is_none()));
}

#[test]
fn machines_come_before_all_else_that_arrives() {
    let machines = [
        "-A ISTIO_PRERT -i vm0 -p tcp -j REDIRECT --to-ports 15001",
        "-A ISTIO_PRERT -i vm0 -p tcp -j RETURN",
        "-A ISTIO_PRERT -i br+ -p tcp -j REDIRECT --to-ports 15001",
        "-A ISTIO_PRERT -i br+ -p tcp -j RETURN",
    ];
    let nat = [&DEFAULT_NAT[..2], &machines, &DEFAULT_NAT[2..]].concat();
    check(&[(Ambient::RerouteInterfaces, " vm0,, br+ ")], Family::V4, Table::Nat, &nat);
}

/// Chains are in the order of their first use, as upstream makes them.
#[test]
fn chains_are_made_in_upstreams_order() {
    let chains = |flags: &[(Setting, &str)], table| -> Vec<String> {
        let rules = config(flags).rules(Family::V4);
        rules.rules().user_chains(table).into_iter().map(ToString::to_string).collect()
    };
    let (both, turned) = (["ISTIO_PRERT", "ISTIO_OUTPUT"], ["ISTIO_OUTPUT", "ISTIO_PRERT"]);
    assert_eq!(chains(&[], Table::Nat), both);
    assert_eq!(chains(&[], Table::Mangle), both);
    assert_eq!(chains(&[], Table::Raw), turned);
    assert_eq!(chains(&[(Ambient::Ingress, "true")], Table::Nat), turned);
    let with_machine = [(Ambient::Ingress, "true"), (Ambient::RerouteInterfaces, "vm0")];
    assert_eq!(chains(&with_machine, Table::Nat), both);
}

#[test]
fn variables_count_where_no_flag_says_otherwise() {
    let environment = [
        ("AMBIENT_DNS_CAPTURE", "f"),
        ("AMBIENT_IPV6", "F"),
        ("HOST_PROBE_SNAT_IP", "10.0.0.9"),
        ("HOST_PROBE_SNAT_IPV6", "fd00::9"),
    ];
    let by_variables = read(&[], &environment).expect("good variables");
    assert!(!by_variables.dns && !by_variables.ipv6);
    assert_eq!(by_variables.probe_v4.to_string(), "10.0.0.9");
    assert_eq!(by_variables.probe_v6.to_string(), "fd00::9");
    let flags = [(Ambient::DnsCapture, "true"), (Ambient::ProbeAddress, "192.0.2.1")];
    let both = read(&flags, &environment).expect("good words");
    assert!(both.dns && !both.ipv6);
    assert_eq!(both.probe_v4.to_string(), "192.0.2.1");
    assert_eq!(both.probe_v6.to_string(), "fd00::9");
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let flags = [
        (Ambient::Ingress, "maybe"),
        (Ambient::DnsCapture, "yes"),
        (Ambient::RerouteInterfaces, "eth0,a b,waytoolonganinterface"),
        (Ambient::Ipv6, "6"),
        (Ambient::ProbeAddress, "10.0.0.1,127.0.0.1,::,ff02::1,10.0.0.2,x"),
    ];
    let variables = [("HOST_PROBE_SNAT_IP", "fd00::1"), ("HOST_PROBE_SNAT_IPV6", "fd00::1,fd00::2")];
    let problems = read(&flags, &variables).expect_err("bad words");
    let expected = [
        "--ingress: \"maybe\" ",
        "--dns-capture: \"yes\" ",
        "--reroute-virtual-interfaces: \"a b\" ",
        "--reroute-virtual-interfaces: \"waytoolonganinterface\" ",
        "--ipv6: \"6\" ",
        "--probe-address: \"127.0.0.1\" can't be where calls of the host come from",
        "--probe-address: \"::\" can't be where",
        "--probe-address: \"ff02::1\" can't be where",
        "--probe-address: \"10.0.0.2\" is of the same family as 10.0.0.1; give one address a family",
        "--probe-address: \"x\" is not an IP address",
        "HOST_PROBE_SNAT_IP: \"fd00::1\" is of the other family; expected an address of IPv4",
        "HOST_PROBE_SNAT_IPV6: \"fd00::1,fd00::2\" names several addresses; give one",
    ];
    for text in expected {
        assert!(problems.iter().any(|problem| problem.starts_with(text)), "{text} is not in {problems:#?}");
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    let twice = [(Ambient::ProbeAddress, "10.0.0.1,10.0.0.1")];
    assert_eq!(config(&twice).probe_v4.to_string(), "10.0.0.1");
}

#[test]
fn routing_brings_answers_back_in_each_family_that_is_captured() {
    let of = |family| {
        let preference = Some(defaults::PREFERENCE);
        let mark = defaults::CONNECTION_MARK;
        [Object::Route { family, table: 100 }, Object::Rule { family, mark, table: 100, preference }]
    };
    let both: Vec<Object> = Family::BOTH.into_iter().flat_map(of).collect();
    let sorted = |mut objects: Vec<Object>| {
        objects.sort();
        objects
    };
    for flags in [&[][..], &[(Ambient::Ingress, "true")], &[(Ambient::DnsCapture, "false")]] {
        assert_eq!(config(flags).routing().into_iter().collect::<Vec<_>>(), sorted(both.clone()));
    }
    let one = config(&[(Ambient::Ipv6, "false")]);
    assert_eq!(one.routing().into_iter().collect::<Vec<_>>(), sorted(of(Family::V4).to_vec()));
    assert!(one.rules(Family::V6).rules().statements.is_empty());
    assert_eq!(of(Family::V6)[1].to_string(), "policy rule -6 fwmark 0x111/0xfff lookup 100 pref 32764");
}

#[test]
fn the_native_table_is_one_of_our_own() {
    let desired = Capture::from(config(&[])).desired();
    let table = rules::nft::table(OWNERSHIP.table, &desired.v4, desired.v6.as_ref()).expect("rules");
    assert_eq!(table.name, "sidecar_init_ambient");
    let names: Vec<&str> = table.chains.iter().map(|chain| chain.name.as_str()).collect();
    let expected = [
        "mangle_PREROUTING",
        "mangle_OUTPUT",
        "mangle_ISTIO_OUTPUT",
        "mangle_ISTIO_PRERT",
        "nat_PREROUTING",
        "nat_OUTPUT",
        "nat_ISTIO_OUTPUT",
        "nat_ISTIO_PRERT",
        "raw_PREROUTING",
        "raw_OUTPUT",
        "raw_ISTIO_OUTPUT",
        "raw_ISTIO_PRERT",
    ];
    assert_eq!(names, expected);
}

#[test]
fn all_reasons_but_those_that_lead_on_have_a_sentence() {
    let leading_on = [Reason::Arriving, Reason::Leaving].map(RuleReason::from);
    for reason in Mesh::Ambient.reasons().rows().iter().map(RuleReason::of) {
        assert!(reason.name().starts_with("ambient-"), "{}", reason.name());
        let sentence = reason.sentence(None, "--flag");
        assert_eq!(sentence.is_none(), leading_on.contains(&reason), "{}", reason.name());
    }
}

#[test]
fn every_rule_says_why_it_is_there() {
    let flags = [(Ambient::RerouteInterfaces, "vm0")];
    let rules = config(&flags).rules(Family::V4);
    let names: Vec<&str> = Mesh::Ambient.reasons().rows().iter().map(|row| row.name).collect();
    let mut met: Vec<&str> = Vec::new();
    for statement in &rules.rules().statements {
        let origin = statement.origin.expect("a reason");
        assert!(names.contains(&origin.name), "{origin:?}");
        met.push(origin.name);
    }
    for name in names {
        assert!(met.contains(&name), "{name} makes no rule");
    }
}
