//! Regression tests of the oracle: other programs' rules beside a mesh's, and for each case a packet whose predicted verdict must
//! match its real destination.

use crate::oracle::claims;
use crate::oracle::command::Command;
use crate::oracle::configurations::Configuration;
use crate::oracle::packets::Packet;
use crate::oracle::scene::{Disposition, Scene, Setup};
use crate::support::pod::APP;
use crate::support::setting::{Family, Variant};
use crate::support::traffic::{Identity, Protocol};
use mesh::Mesh;
use rules::simulate::Verdict;
use std::net::SocketAddr;

type Flags = &'static [(&'static str, &'static str)];

const LINKERD: Flags = &[("proxy-uid", "2102")];
const TRANSPARENT: Flags = &[
    ("istio-inbound-ports", "*"),
    ("istio-service-cidr", "*"),
    ("istio-inbound-interception-mode", "TPROXY"),
];

fn scene(mesh: Mesh, flags: Flags, before: &[Command]) -> Scene {
    let configuration = Configuration { mesh, flags: flags.to_vec() };
    let setup = Setup { configuration, backend: "nftables", before: before.to_vec(), after: Vec::new() };
    let scene = Scene::new(&setup);
    assert_eq!(scene.setup.before.as_slice(), before, "the programs take all commands");
    assert_eq!(scene.refused, None);
    scene
}

/// Sends a packet; the predicted and the observed verdict must agree.
fn disposition(scene: &mut Scene, packet: Packet) -> Disposition {
    let disposition = scene.dispositions(&[packet]).pop().expect("a sent packet");
    assert!(
        disposition.agrees(&disposition.predicted),
        "{disposition:?}\n{}",
        scene.explanation(&disposition)
    );
    disposition
}

fn check(mesh: Mesh, flags: Flags, before: &[Command], packet: Packet, expected: Verdict) {
    let mut scene = scene(mesh, flags, before);
    let disposition = disposition(&mut scene, packet);
    assert_eq!(disposition.predicted.verdict, expected, "{}", scene.explanation(&disposition));
}

fn nft(lines: &[&str]) -> Vec<Command> {
    lines.iter().map(|line| Command::Nft((*line).to_owned())).collect()
}

fn iptables(table: &'static str, line: &str) -> Command {
    Command::Iptables(Variant::Nft, Family::V4, table, line.to_owned())
}

fn out(to: &str) -> Packet {
    let to: SocketAddr = to.parse().expect("an address");
    Packet { protocol: Protocol::Tcp, is_inbound: false, identity: APP, mark: 0, from: None, to }
}

/// A packet from linkerd's proxy, whose calls pass linkerd's rules.
fn out_of_proxy(to: &str) -> Packet {
    Packet { identity: Identity { uid: 2102, gid: 1000 }, ..out(to) }
}

fn inbound(to: &str) -> Packet {
    Packet { is_inbound: true, ..out(to) }
}

#[test]
fn supplementary_groups_of_a_process_are_unknown() {
    for not in ["", "! "] {
        let rule = format!("-A OUTPUT -m owner {not}--gid-owner 77 --suppl-groups -j DROP");
        let rules = vec![iptables("filter", &rule)];
        check(Mesh::Linkerd, LINKERD, &rules, out_of_proxy("10.99.0.1:80"), Verdict::Unknown);
    }
}

#[test]
fn a_local_address_may_be_local_to_another_interface() {
    for (chain, flag, packet) in
        [("OUTPUT", "out", out("10.77.0.2:9090")), ("INPUT", "in", out("10.77.0.2:9090"))]
    {
        let rule = format!("-A {chain} -p tcp -m addrtype ! --dst-type LOCAL --limit-iface-{flag} -j DROP");
        let rules = vec![iptables("filter", &rule)];
        check(Mesh::Linkerd, LINKERD, &rules, packet, Verdict::Unknown);
    }
}

#[test]
fn behind_tproxy_a_packet_has_the_listeners_socket() {
    let rules = nft(&[
        "add table inet other",
        "add chain inet other in { type filter hook input priority 0; policy accept; }",
        "add rule inet other in meta skuid 0-4294967294 drop",
    ]);
    let packet = inbound("10.77.0.2:8080");
    check(Mesh::Istio, TRANSPARENT, &rules, packet, Verdict::Unknown);
    // Without TPROXY, the packet has no socket yet, so it passes the rule.
    let mut scene = scene(Mesh::Linkerd, LINKERD, &rules);
    let disposition = disposition(&mut scene, inbound("10.77.0.2:8080"));
    assert!(matches!(disposition.predicted.verdict, Verdict::Redirect(_)), "{disposition:?}");
}

#[test]
fn packets_changed_in_mangle_may_be_routed_elsewhere() {
    for change in ["MARK --set-mark 0x77", "TOS --set-tos 0x10", "DSCP --set-dscp 0x08"] {
        let rules = vec![
            iptables("mangle", &format!("-A OUTPUT -j {change}")),
            iptables("mangle", "-A POSTROUTING -o eth0 -j DROP"),
        ];
        check(Mesh::Linkerd, LINKERD, &rules, out_of_proxy("10.99.0.1:80"), Verdict::Unknown);
    }
}

#[test]
fn nat_chains_ignore_untracked_connections() {
    let rules = nft(&[
        "add table ip6 other",
        "add chain ip6 other in { type nat hook prerouting priority 100; policy drop; }",
    ]);
    const IPV4: Flags = &[("proxy-uid", "2102"), ("ipv6", "false")];
    let mut scene = scene_of_iptables(IPV4, rules);
    assert_eq!(disposition(&mut scene, inbound("[fd77::2]:8080")).predicted.verdict, Verdict::Pass);
}

/// NAT to an IPv4 address does not make the kernel track IPv6, though the table has both families.
#[test]
fn ipv4_nat_does_not_track_ipv6() {
    let rules = nft(&[
        "add table inet other",
        "add chain inet other out { type nat hook output priority -150; }",
        "add rule inet other out tcp dport 80 drop",
        "add rule inet other out tcp dport 443 dnat ip to 10.99.0.1",
    ]);
    const IPV4: Flags = &[("proxy-uid", "2102"), ("ipv6", "false")];
    let mut scene = scene_of_iptables(IPV4, rules);
    let mut verdict = |to| disposition(&mut scene, out(to)).predicted.verdict;
    assert_eq!(["10.99.0.1:80", "[fd99::1]:80"].map(&mut verdict), [Verdict::Drop, Verdict::Pass]);
}

/// After DNAT the kernel looks up the route again, also by the mark of ambient's policy rule.
#[test]
fn dnat_routes_a_packet_again_by_its_mark() {
    let rules = nft(&[
        "add table ip other",
        "add chain ip other out { type nat hook output priority -150; }",
        "add rule ip other out dnat to 10.77.0.1",
    ]);
    let mut scene = scene(Mesh::Ambient, &[], &rules);
    let disposition = disposition(&mut scene, Packet { mark: 0x111, ..out("10.77.0.2:9090") });
    assert_eq!(disposition.predicted.verdict, Verdict::Unknown);
}

fn scene_of_iptables(flags: Flags, before: Vec<Command>) -> Scene {
    let configuration = Configuration { mesh: Mesh::Linkerd, flags: flags.to_vec() };
    Scene::new(&Setup { configuration, backend: "iptables-legacy", before, after: Vec::new() })
}

#[test]
fn a_source_nat_chain_may_drop() {
    let rules = nft(&[
        "add table inet other",
        "add chain inet other in { type nat hook input priority 100; policy accept; }",
        "add rule inet other in ct original ip daddr 127.0.0.1 accept",
        "add rule inet other in tcp dport >= 443 drop",
    ]);
    check(Mesh::Linkerd, LINKERD, &rules, inbound("10.77.0.2:8080"), Verdict::Unknown);
}

#[test]
fn loopback_addresses_do_not_travel() {
    let rules = vec![iptables("nat", "-A OUTPUT -p tcp -j DNAT --to-destination 10.77.0.1:7777")];
    check(Mesh::Linkerd, LINKERD, &rules, out("127.0.0.1:8080"), Verdict::Unknown);
    let rule = "-A PREROUTING -j DNAT --to-destination ::1".to_owned();
    let rules = vec![Command::Iptables(Variant::Nft, Family::V6, "nat", rule)];
    let mut scene = scene_of_iptables(&[("proxy-uid", "2102"), ("ipv6", "false")], rules);
    assert_eq!(disposition(&mut scene, inbound("[fd77::2]:8080")).predicted.verdict, Verdict::Unknown);
}

/// A packet keeps a connection it already has, even a zone's template.
#[test]
fn notrack_has_no_effect_on_tracked_connections() {
    let chain = |priority: i32| {
        format!("add chain inet other c {{ type filter hook output priority {priority}; policy accept; }}")
    };
    let notrack = "add rule inet other c meta l4proto tcp notrack";
    let zone = "add rule inet other c ct zone set 7";
    for (priority, rules) in [(-150, &[notrack][..]), (-310, &[zone, notrack])] {
        let place = chain(priority);
        let lines = [&["add table inet other", &place][..], rules].concat();
        let mut scene = scene(Mesh::Linkerd, LINKERD, &nft(&lines));
        let disposition = disposition(&mut scene, out("10.99.0.1:80"));
        assert!(matches!(disposition.predicted.verdict, Verdict::Redirect(_)), "{priority}: {disposition:?}");
    }
    let rules = nft(&["add table inet other", &chain(-310), notrack]);
    check(Mesh::Linkerd, LINKERD, &rules, out("10.99.0.1:80"), Verdict::Pass);
}

/// At ingress, no packet is tracked yet, so a rule that reads `ct mark` never matches.
#[test]
fn an_untracked_packet_fails_a_ct_mark_rule() {
    let rules = nft(&[
        "add table inet other",
        "add chain inet other c { type filter hook ingress device eth0 priority -310; policy drop; }",
        "add rule inet other c meta mark set ct mark accept",
    ]);
    check(Mesh::Linkerd, LINKERD, &rules, inbound("10.77.0.2:8080"), Verdict::Drop);
}

/// A connection's template has a mark in some kernel versions.
#[test]
fn a_template_may_fail_a_ct_mark_rule() {
    let rules = nft(&[
        "add table inet other",
        "add chain inet other zone { type filter hook output priority -310; policy accept; }",
        "add rule inet other zone ct zone set 7",
        "add chain inet other c { type filter hook output priority -290; policy accept; }",
        "add rule inet other c meta mark set ct mark drop",
    ]);
    check(Mesh::Linkerd, LINKERD, &rules, out("10.99.0.1:80"), Verdict::Unknown);
}

#[test]
fn rules_of_devices_are_followed() {
    let chain = |hook: &str| {
        format!(
            "add chain netdev other c {{ type filter hook {hook} device eth0 priority 0; policy accept; }}"
        )
    };
    for (hook, packet) in [("ingress", inbound("10.77.0.2:8080")), ("egress", out_of_proxy("10.99.0.1:80"))] {
        let rules =
            nft(&["add table netdev other", &chain(hook), "add rule netdev other c meta l4proto tcp drop"]);
        check(Mesh::Linkerd, LINKERD, &rules, packet, Verdict::Drop);
    }
}

/// Verdicts are unknown for packets over a bridge, whose rules are not followed, and known for other packets.
#[test]
fn bridge_rules_make_verdicts_unknown() {
    let mut rules = vec![Command::Ip("link add br0 type bridge".to_owned())];
    rules.extend(nft(&[
        "add table bridge other",
        "add chain bridge other c { type filter hook output priority 0; policy accept; }",
        "add rule bridge other c drop",
    ]));
    let mut scene = scene(Mesh::Linkerd, LINKERD, &rules);
    assert!(matches!(disposition(&mut scene, out("10.99.0.1:80")).predicted.verdict, Verdict::Redirect(_)));
    let explained = |interface: &str| {
        let question = ["explain", "--live", "--output=json", "--uid=2102", "--destination=10.99.0.1:80"];
        let words =
            question.iter().map(|word| (*word).to_owned()).chain([format!("--out-interface={interface}")]);
        let output = scene.run_tool(&words.collect::<Vec<_>>());
        let answer: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
        answer["verdict"].clone()
    };
    assert_eq!((explained("eth0"), explained("br0")), ("not_captured".into(), "unknown".into()));
}

/// `diff` reports foreign rules that divert the mesh's typical packets, even if the mesh's own rules are as desired.
#[test]
fn diff_checks_usual_packets() {
    let rule = iptables("mangle", "-A OUTPUT -p tcp -j MARK --set-mark 0x539");
    let mut scene = scene(Mesh::Ambient, &[], &[rule]);
    let dispositions = scene.dispositions(&crate::oracle::question::usual(&scene.capture.clone()));
    assert!(
        dispositions.iter().any(|disposition| !disposition.agrees(&disposition.meant)),
        "the mark takes packets past the mesh: {dispositions:?}"
    );
    let (answer, code) = scene.answer("diff", true);
    let changes = answer["changes"].as_array().expect("a list");
    assert!(code == Some(3) && !changes.is_empty(), "{code:?} {answer:#}");
    let found = claims::all(&scene, &dispositions);
    assert!(found.is_empty(), "{}", found.iter().map(|one| one.text.as_str()).collect::<String>());
}

/// A source NAT rule that may match may set a mark, or decide the source so that later NAT chains are skipped.
#[test]
fn unknown_source_nat_leaves_marks_and_later_chains_unknown() {
    for (unknown, later, rule) in [
        (
            "meta mark set 0x2000 accept",
            "nat hook postrouting priority 101; policy drop",
            "meta mark 0 accept",
        ),
        ("masquerade", "nat hook postrouting priority 101", "drop"),
        ("meta mark set 0x2000", "filter hook postrouting priority 150", "meta mark 0x2000 drop"),
    ] {
        let rules = nft(&[
            "add table ip other",
            "add chain ip other first { type nat hook postrouting priority 100; }",
            &format!("add rule ip other first ct direction original {unknown}"),
            &format!("add chain ip other second {{ type {later}; }}"),
            &format!("add rule ip other second {rule}"),
        ]);
        check(Mesh::Linkerd, LINKERD, &rules, out_of_proxy("10.99.0.1:80"), Verdict::Unknown);
    }
}

/// The kernel calls the most recently registered chain first, and the order of registration can't be read.
#[test]
fn beside_nat_and_conntrack_of_equal_priority_a_chain_may_come_first_or_last() {
    let verdict = |priority: i32, rule: &str| {
        let chain = format!("add chain inet other out {{ type filter hook output priority {priority}; }}");
        let rule = format!("add rule inet other out tcp dport 80 {rule}");
        let rules = nft(&["add table inet other", &chain, &rule]);
        let mut scene = scene(Mesh::Linkerd, LINKERD, &rules);
        disposition(&mut scene, out("10.99.0.1:80")).predicted.verdict
    };
    assert_eq!([-101, -100].map(|priority| verdict(priority, "drop")), [Verdict::Drop, Verdict::Unknown]);
    assert!(matches!(verdict(-99, "drop"), Verdict::Redirect(_)));
    assert_eq!([-201, -200].map(|priority| verdict(priority, "notrack")), [Verdict::Pass, Verdict::Unknown]);
    assert!(matches!(verdict(-199, "notrack"), Verdict::Redirect(_)));
}
