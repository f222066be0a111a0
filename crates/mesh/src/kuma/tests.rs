//! The rules of calls, and what is wrong with others.

mod words;

use super::preview::{dry_run, restore};
use super::{CaptureConfig, Kuma, configure};
use crate::policy::CapturePolicy;
use crate::settings::Setting;
use crate::sources::{Host, Raw, SettingReader};
use rules::{Chain, Family, Uid};
use std::{io, net::IpAddr};

/// A pod with IPv4 and IPv6.
struct Pod {
    servers: &'static [&'static str],
    has_standard_user: bool,
    /// The family in which Docker answers DNS.
    docker: Option<Family>,
    may_read_rules: bool,
}

const POD: Pod = Pod {
    servers: &["10.0.0.10", "127.0.0.53", "fd00::a"],
    has_standard_user: true,
    docker: None,
    may_read_rules: true,
};

impl Host for Pod {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        Ok((name == "kuma-dp").then(|| Uid::new(1234).expect("a user")))
    }

    fn has_user(&self, _: Uid) -> io::Result<bool> {
        Ok(self.has_standard_user)
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(["127.0.0.1", "10.1.2.3", "::1", "fd00::3"].map(|text| text.parse().expect("an address")).to_vec())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(self.servers.iter().map(|text| text.parse().expect("an address")).collect())
    }

    fn has_nat_chain(&self, family: Family, name: &str) -> io::Result<bool> {
        if !self.may_read_rules {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(self.docker == Some(family) && name == "DOCKER_OUTPUT")
    }

    fn name_servers_in(&self, path: &str) -> io::Result<Vec<IpAddr>> {
        match path {
            "/other" => Ok(vec!["10.9.9.9".parse().expect("an address")]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn read(flags: &[(Setting, &str)], host: &dyn Host) -> Result<(CaptureConfig, Vec<String>), Vec<String>> {
    let flags = flags.iter().map(|(setting, value)| (*setting, (*value).to_owned()));
    let raw = Raw::new(flags, |_| true, |_| None);
    let mut reader = SettingReader::new(&raw, Vec::new());
    let config = configure(&mut reader, host, false);
    let warnings =
        reader.finish().map_err(|problems| problems.0.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok((config, warnings))
}

fn config(flags: &[(Setting, &str)]) -> CaptureConfig {
    read(flags, &POD).expect("valid flags").0
}

/// A text without comments, which upstream words otherwise.
fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("-m comment --comment \"") {
        kept.push_str(before);
        rest = after.split_once("\" ").expect("a comment ends").1;
    }
    kept + rest
}

/// The lines of a family's rules that another call would not make, in their order.
fn check(flags: &[(Setting, &str)], family: Family, expected: &[&str]) {
    let lines = |flags: &[(Setting, &str)]| without_comments(&restore(&config(flags).rules(family), false));
    let (plain, found) = (lines(&[]), lines(flags));
    let plain: Vec<&str> = plain.lines().collect();
    let found: Vec<&str> = found.lines().filter(|line| !plain.contains(line)).collect();
    assert_eq!(found, expected, "{flags:?}");
}

fn check_problems(flags: &[(Setting, &str)], expected: &[&str]) {
    assert_eq!(read(flags, &POD).expect_err("bad flags"), expected, "{flags:?}");
}

fn check_warnings(flags: &[(Setting, &str)], expected: &[&str]) {
    assert_eq!(read(flags, &POD).expect("valid flags").1, expected, "{flags:?}");
}

#[test]
fn without_flags_all_tcp_is_captured() {
    let expected = "\
* nat
-N KUMA_MESH_INBOUND
-N KUMA_MESH_OUTBOUND
-N KUMA_MESH_INBOUND_REDIRECT
-N KUMA_MESH_OUTBOUND_REDIRECT
-A PREROUTING -p tcp -j KUMA_MESH_INBOUND
-A OUTPUT -p tcp -j KUMA_MESH_OUTBOUND
-A KUMA_MESH_INBOUND -p tcp -j KUMA_MESH_INBOUND_REDIRECT
-A KUMA_MESH_OUTBOUND -s 127.0.0.6/32 -o lo -j RETURN
-A KUMA_MESH_OUTBOUND -p tcp -o lo ! -d 127.0.0.1/32 -m owner --uid-owner 5678 -j KUMA_MESH_INBOUND_REDIRECT
-A KUMA_MESH_OUTBOUND -p tcp -o lo -m owner ! --uid-owner 5678 -j RETURN
-A KUMA_MESH_OUTBOUND -m owner --uid-owner 5678 -j RETURN
-A KUMA_MESH_OUTBOUND -d 127.0.0.1/32 -j RETURN
-A KUMA_MESH_OUTBOUND -j KUMA_MESH_OUTBOUND_REDIRECT
-A KUMA_MESH_INBOUND_REDIRECT -p tcp -j REDIRECT --to-ports 15006
-A KUMA_MESH_OUTBOUND_REDIRECT -p tcp -j REDIRECT --to-ports 15001
COMMIT
";
    let config = config(&[]);
    let rules = Family::BOTH.map(|family| config.rules(family));
    let v6 = expected.replace("127.0.0.6/32", "::6/128").replace("127.0.0.1/32", "::1/128");
    let whole = format!("### IPv4 ###\n\n{expected}\n### IPv6 ###\n\n{v6}");
    assert_eq!(without_comments(&dry_run(&rules, false)), whole);
    assert_eq!(config.routing().len(), 1);
}

#[test]
fn every_rule_says_what_it_is_for_and_is_found_again_without() {
    let all = [
        (Kuma::CaptureAllDns, "true"),
        (Kuma::Logs, "true"),
        (Kuma::DropInvalid, "true"),
        (Kuma::Vnet, "br+:10.0.0.0/8"),
        (Kuma::OutboundPortsForUids, "7"),
        (Kuma::OutboundIpsExclude, "10.0.0.1"),
    ];
    let commented = config(&all).rules(Family::V4);
    let text = restore(&commented, false);
    let rules = commented.rules().statements.len();
    assert_eq!(text.matches("-m comment --comment \"kuma/mesh/transparent/proxy/").count(), rules);
    let bare = config(&[&all[..], &[(Kuma::DisableComments, "true")]].concat()).rules(Family::V4);
    let text = restore(&bare, false);
    let with_comment = text.lines().filter(|line| line.contains("kuma/mesh/transparent/proxy/rule\""));
    let base = |statement: &&rules::Statement| matches!(statement.chain, Chain::Base(_));
    let to_nowhere = |statement: &&rules::Statement| !matches!(statement.rule.target, rules::Target::Jump(_));
    let expected = bare.rules().statements.iter().filter(base).filter(to_nowhere).count();
    assert_eq!((with_comment.count(), text.matches("--comment").count()), (expected, expected));
}

#[test]
fn ports_are_left_alone_or_captured_alone() {
    check(
        &[(Kuma::InboundPortsExclude, "1000,1001"), (Kuma::OutboundPortsExclude, "2000,3000-3010")],
        Family::V4,
        &[
            "-A KUMA_MESH_INBOUND -p tcp --dport 1000 -j RETURN",
            "-A KUMA_MESH_INBOUND -p tcp --dport 1001 -j RETURN",
            "-A KUMA_MESH_OUTBOUND -p tcp --dport 2000 -j RETURN",
            "-A KUMA_MESH_OUTBOUND -p tcp --dport 3000:3010 -j RETURN",
        ],
    );
    let only = [
        (Kuma::InboundPortsInclude, "80"),
        (Kuma::OutboundPortsInclude, "443,80"),
        (Kuma::OutboundPortsExclude, "1"),
    ];
    let lines = [
        "-A KUMA_MESH_INBOUND -p tcp --dport 80 -j KUMA_MESH_INBOUND_REDIRECT",
        "-A KUMA_MESH_OUTBOUND -p tcp --dport 443 -j KUMA_MESH_OUTBOUND_REDIRECT",
        "-A KUMA_MESH_OUTBOUND -p tcp --dport 80 -j KUMA_MESH_OUTBOUND_REDIRECT",
    ];
    check(&only, Family::V6, &lines);
    check(
        &[(Kuma::InboundPort, "1"), (Kuma::OutboundPort, "2")],
        Family::V4,
        &[
            "-A KUMA_MESH_INBOUND_REDIRECT -p tcp -j REDIRECT --to-ports 1",
            "-A KUMA_MESH_OUTBOUND_REDIRECT -p tcp -j REDIRECT --to-ports 2",
        ],
    );
}

#[test]
fn each_family_takes_its_own_networks() {
    let flags =
        [(Kuma::InboundIpsExclude, "10.0.0.1,fd00::/8"), (Kuma::OutboundIpsExclude, "10.96.0.0/16,fd00::b")];
    check(
        &flags,
        Family::V4,
        &["-I OUTPUT 1 -d 10.96.0.0/16 -j RETURN", "-A KUMA_MESH_INBOUND -s 10.0.0.1 -j RETURN"],
    );
    check(
        &flags,
        Family::V6,
        &["-I OUTPUT 1 -d fd00::b -j RETURN", "-A KUMA_MESH_INBOUND -s fd00::/8 -j RETURN"],
    );
}

#[test]
fn directions_can_be_switched_off() {
    check(
        &[(Kuma::RedirectInbound, "false"), (Kuma::RedirectOutbound, "0")],
        Family::V4,
        &["-A KUMA_MESH_INBOUND -p tcp -j RETURN", "-A KUMA_MESH_OUTBOUND -p tcp -j RETURN"],
    );
    assert!(
        config(&[(Kuma::RedirectInbound, "false"), (Kuma::RedirectOutbound, "false")]).captures_nothing()
    );
    assert!(!config(&[(Kuma::RedirectInbound, "false")]).captures_nothing());
}

#[test]
fn all_dns_goes_to_the_proxy_but_its_own() {
    let nat = [
        "-I OUTPUT 1 -p udp --dport 53 -m owner --uid-owner 5678 -j RETURN",
        "-A OUTPUT -p tcp --dport 53 -m owner ! --uid-owner 5678 -j RETURN",
        "-I OUTPUT 2 -p udp --dport 53 -j REDIRECT --to-ports 15053",
    ];
    check(&[(Kuma::CaptureAllDns, "true"), (Kuma::SkipZoneSplit, "true")], Family::V4, &nat);
    let split = [
        "* raw",
        "-A PREROUTING -p udp --sport 53 -j CT --zone 1",
        "-A OUTPUT -p udp --dport 53 -m owner --uid-owner 5678 -j CT --zone 1",
        "-A OUTPUT -p udp --sport 15053 -m owner --uid-owner 5678 -j CT --zone 2",
        "-A OUTPUT -p udp --dport 53 -j CT --zone 2",
    ];
    check(&[(Kuma::CaptureAllDns, "true")], Family::V4, &[&split[..], &nat].concat());
}

#[test]
fn dns_of_the_servers_is_captured_family_by_family() {
    check(
        &[(Kuma::RedirectDns, "true"), (Kuma::DnsPort, "54")],
        Family::V4,
        &[
            "* raw",
            "-A PREROUTING -s 10.0.0.10 -p udp --sport 53 -j CT --zone 1",
            "-A PREROUTING -s 127.0.0.53 -p udp --sport 53 -j CT --zone 1",
            "-A OUTPUT -p udp --dport 53 -m owner --uid-owner 5678 -j CT --zone 1",
            "-A OUTPUT -p udp --sport 54 -m owner --uid-owner 5678 -j CT --zone 2",
            "-A OUTPUT -d 10.0.0.10 -p udp --dport 53 -j CT --zone 2",
            "-A OUTPUT -d 127.0.0.53 -p udp --dport 53 -j CT --zone 2",
            "-A OUTPUT -s 127.0.0.53 -d 127.0.0.1/32 -p udp -j CT --zone 1",
            "-I OUTPUT 1 -p udp --dport 53 -m owner --uid-owner 5678 -j RETURN",
            "-A OUTPUT -p tcp --dport 53 -m owner ! --uid-owner 5678 -j RETURN",
            "-I OUTPUT 2 -d 10.0.0.10 -p udp --dport 53 -j REDIRECT --to-ports 54",
            "-I OUTPUT 3 -d 127.0.0.53 -p udp --dport 53 -j REDIRECT --to-ports 54",
        ],
    );
    let elsewhere =
        [(Kuma::RedirectDns, "true"), (Kuma::ResolvConf, "/other"), (Kuma::SkipZoneSplit, "true")];
    check(
        &elsewhere,
        Family::V4,
        &[
            "-I OUTPUT 1 -p udp --dport 53 -m owner --uid-owner 5678 -j RETURN",
            "-A OUTPUT -p tcp --dport 53 -m owner ! --uid-owner 5678 -j RETURN",
            "-I OUTPUT 2 -d 10.9.9.9 -p udp --dport 53 -j REDIRECT --to-ports 15053",
        ],
    );
    // No server of the family.
    check(&elsewhere, Family::V6, &[]);
    let declared = [(Kuma::RedirectDns, "true"), (Setting::DnsServers, "")];
    check(&declared, Family::V4, &[]);
    check_warnings(&declared, &["DNS is not captured: no DNS server is known"]);
    let of_ipv6 = [declared[0], (Setting::DnsServers, "fd00::a"), (Kuma::IpFamilyMode, "ipv4")];
    let text =
        "DNS is not captured: each DNS server has an address of IPv6, which is not captured in this pod";
    check_warnings(&of_ipv6, &[text]);
    check_warnings(&of_ipv6[..2], &[]);
}

#[test]
fn where_docker_answers_dns_the_proxys_queries_are_left_to_it() {
    let dns = [(Kuma::CaptureAllDns, "true")];
    let host = Pod { docker: Some(Family::V4), ..POD };
    let config = read(&dns, &host).expect("valid flags").0;
    let lines = without_comments(&restore(&config.rules(Family::V4), false));
    assert!(
        lines.contains("-I OUTPUT 1 -p udp --dport 53 -m owner --uid-owner 5678 -j DOCKER_OUTPUT\n"),
        "{lines}"
    );
    assert!(!lines.contains("--zone"), "Docker's answers come in the zone of its queries: {lines}");
    let lines = without_comments(&restore(&config.rules(Family::V6), false));
    assert!(lines.contains("-m owner --uid-owner 5678 -j RETURN\n") && lines.contains("--zone"), "{lines}");
    assert!(!config.splits_zones(Family::V4) && config.splits_zones(Family::V6));
    let of_servers = read(&[(Kuma::RedirectDns, "true")], &host).expect("valid flags").0;
    assert!(of_servers.splits_zones(Family::V4), "what Docker answers is not captured");
    let docker = |host: &Pod, flags: &[(Setting, &str)]| read(flags, host).expect("valid flags").0.docker;
    let host = Pod { docker: Some(Family::V6), ..POD };
    assert_eq!(docker(&host, &dns), [Family::V6]);
    assert_eq!(docker(&host, &[dns[0], (Kuma::IpFamilyMode, "ipv4")]), []);
    assert_eq!(docker(&host, &[]), []);
}

#[test]
fn a_preview_without_rights_assumes_that_docker_answers_no_dns() {
    let dns = [(Kuma::CaptureAllDns, "true")];
    let (config, warnings) = read(&dns, &Pod { may_read_rules: false, ..POD }).expect("valid flags");
    assert_eq!(config, read(&dns, &POD).expect("valid flags").0);
    assert!(matches!(&warnings[..], [warning] if warning.contains("Docker")), "{warnings:?}");
}

#[test]
fn ports_of_users_are_left_alone_by_a_rule_for_each_protocol() {
    check(
        &[(Kuma::OutboundPortsForUids, "tcp:1900,1000-2000:106-108;123")],
        Family::V4,
        &[
            "-I OUTPUT 1 -m multiport -p tcp --dport 1900,1000:2000 -m owner --uid-owner 106:108 -j RETURN",
            "-I OUTPUT 2 -m multiport -p tcp --dport 1:65535 -m owner --uid-owner 123 -j RETURN",
            "-I OUTPUT 3 -m multiport -p udp --dport 1:65535 -m owner --uid-owner 123 -j RETURN",
        ],
    );
    check(
        &[(Kuma::OutboundPortsForUids, "*:22:0;udp:*:4294967294")],
        Family::V6,
        &[
            "-I OUTPUT 1 -m multiport -p tcp --dport 22 -m owner --uid-owner 0 -j RETURN",
            "-I OUTPUT 2 -m multiport -p udp --dport 22 -m owner --uid-owner 0 -j RETURN",
            "-I OUTPUT 3 -m multiport -p udp --dport 1:65535 -m owner --uid-owner 4294967294 -j RETURN",
        ],
    );
    check(
        &[(Kuma::OutboundPortsForUids, "tcp:1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31:9")],
        Family::V4,
        &[
            "-I OUTPUT 1 -m multiport -p tcp --dport 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29 -m owner --uid-owner 9 -j RETURN",
            "-I OUTPUT 2 -m multiport -p tcp --dport 31 -m owner --uid-owner 9 -j RETURN",
        ],
    );
}

#[test]
fn machines_of_virtual_networks_call_through_the_mesh() {
    let flags = [(Kuma::Vnet, "docker0:172.17.0.0/16,br+:172.18.0.0/16,br+:fd00::/64")];
    check(
        &flags,
        Family::V4,
        &[
            "-I PREROUTING 1 -i br+ -m udp -p udp --dport 53 -j REDIRECT --to-ports 15053",
            "-I PREROUTING 2 ! -d 172.18.0.0/16 -i br+ -p tcp -j REDIRECT --to-ports 15001",
            "-I PREROUTING 3 -i docker0 -m udp -p udp --dport 53 -j REDIRECT --to-ports 15053",
            "-I PREROUTING 4 ! -d 172.17.0.0/16 -i docker0 -p tcp -j REDIRECT --to-ports 15001",
            "-I PREROUTING 5 -p tcp -j KUMA_MESH_INBOUND",
        ],
    );
    check(
        &flags,
        Family::V6,
        &[
            "-I PREROUTING 1 -i br+ -m udp -p udp --dport 53 -j REDIRECT --to-ports 15053",
            "-I PREROUTING 2 ! -d fd00::/64 -i br+ -p tcp -j REDIRECT --to-ports 15001",
            "-I PREROUTING 3 -p tcp -j KUMA_MESH_INBOUND",
        ],
    );
}

#[test]
fn the_kernel_logs_and_drops_where_it_is_told_to() {
    check(
        &[(Kuma::Logs, "true"), (Kuma::DropInvalid, "true")],
        Family::V4,
        &[
            "-A PREROUTING -j LOG --log-prefix PREROUTING: --log-level 7",
            "-I OUTPUT 1 -j LOG --log-prefix OUTPUT: --log-level 7",
            "* mangle",
            "-A PREROUTING -m conntrack --ctstate INVALID -j DROP",
        ],
    );
    check(
        &[(Kuma::Logs, "true"), (Kuma::LogLevel, "4"), (Kuma::InboundInsert, "true")],
        Family::V4,
        &[
            "-A PREROUTING -j LOG --log-prefix PREROUTING: --log-level 4",
            "-I PREROUTING 1 -p tcp -j KUMA_MESH_INBOUND",
            "-I OUTPUT 1 -j LOG --log-prefix OUTPUT: --log-level 4",
        ],
    );
}

#[test]
fn an_inserted_jump_leaves_no_rule_behind_it_that_is_never_met() {
    let flags =
        [(Kuma::OutboundInsert, "true"), (Kuma::CaptureAllDns, "true"), (Kuma::SkipZoneSplit, "true")];
    check(
        &flags,
        Family::V4,
        &[
            "-I OUTPUT 1 -p udp --dport 53 -m owner --uid-owner 5678 -j RETURN",
            "-I OUTPUT 2 -p tcp --dport 53 -m owner ! --uid-owner 5678 -j RETURN",
            "-I OUTPUT 3 -p udp --dport 53 -j REDIRECT --to-ports 15053",
            "-I OUTPUT 4 -p tcp -j KUMA_MESH_OUTBOUND",
        ],
    );
}
