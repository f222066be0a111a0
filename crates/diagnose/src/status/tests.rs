//! Recognition of every mesh's rules: ours in their original form, and upstream's in listings.

use super::{CaptureStatus, Observation, status};
use crate::explain::{PodContext, RuleView};
use crate::finding::FindingReport;
use crate::packets::first_of;
use crate::random_tests::configured;
use mesh::linkerd::Linkerd;
use mesh::recognition::named;
use mesh::settings::Setting;
use mesh::{Capture, Mesh};
use rules::finding::{Code, Finding};
use rules::simulate::{Routing, View};
use rules::{ByFamily, Family, Table, parse, render};
use std::net::IpAddr;

fn capture(mesh: Mesh, flags: &[(Setting, &str)]) -> Capture {
    let flags: Vec<_> = flags.iter().map(|(setting, value)| (setting.row().name(), *value)).collect();
    configured(mesh, &flags).expect("valid flags").1
}

const LINKERD: [(Setting, &str); 5] = [
    (Linkerd::ProxyUid, "2102"),
    (Linkerd::ProxyGid, "2103"),
    (Linkerd::InboundPortsToIgnore, "4190,4191"),
    (Linkerd::OutboundPortsToIgnore, "4567-4570"),
    (Linkerd::SubnetsToIgnore, "10.2.0.0/16,fd02::/64"),
];

fn seen(views: &ByFamily<View>, addresses: &[IpAddr]) -> CaptureStatus {
    seen_of(None, views, addresses)
}

fn seen_of(only: Option<Mesh>, views: &ByFamily<View>, addresses: &[IpAddr]) -> CaptureStatus {
    let routing = || Routing { local_marks: Vec::new(), addresses: addresses.to_vec() };
    let [v4, v6] =
        Family::BOTH.map(|family| RuleView { family, view: views.get(family).clone(), routing: routing() });
    status(&Observation {
        rules: &ByFamily { v4, v6 },
        addresses,
        sockets: None,
        processes: &[],
        held: Vec::new(),
        only,
        findings: Vec::new(),
    })
}

#[test]
fn installed_meshes_are_named_for_a_mesh_without_rules() {
    let istio = capture(Mesh::Istio, &[(Setting::InboundPorts, "*")]).rules(Family::V4);
    let views = |v4| ByFamily { v4, v6: View::empty(Family::V6) };
    let summary = |v4| seen_of(Some(Mesh::Linkerd), &views(v4), &[]).summary;
    let captured = summary(View::of_rules(istio.rules()));
    assert_eq!(captured, "nothing is captured for linkerd; rules of Istio's sidecar exist");
    assert_eq!(summary(View::empty(Family::V4)), "nothing is captured for linkerd");
}

#[test]
fn foreign_rules_that_come_first_are_shown_with_a_packet() {
    let flags = [
        (Setting::InboundPorts, "80,443"),
        (Setting::ServiceCidr, "10.5.0.0/16"),
        (Setting::RedirectDns, "true"),
        (Setting::CaptureAllDns, "true"),
    ];
    let check_with = |flags: &[(Setting, &str)], chain: &str, rule: &str, expected: &[&str]| {
        let ours = render::iptables::restore(&capture(Mesh::Istio, flags).rules(Family::V4));
        let (before, nat) = ours.split_once("* nat\n").expect("the table");
        let (declared, rules) = nat.split_once("\n-A ").expect("rules");
        let text = format!("{before}* nat\n:{chain} ACCEPT [0:0]\n{declared}\n-A {chain} {rule}\n-A {rules}");
        let v4 = named(View::of_listing(parse::listing(&text, Family::V4).expect("a listing")));
        let views = ByFamily { v4, v6: View::empty(Family::V6) };
        let status = seen(&views, &["10.1.2.3".parse().expect("an address")]);
        let found: Vec<&str> = status.findings.iter().map(|finding| finding.text.as_str()).collect();
        let packets: Vec<&str> =
            found.iter().filter_map(|text| text.split_once(" should ")?.0.split(", ").next()).collect();
        assert_eq!(packets, expected, "{rule}: {found:#?}");
    };
    let check = |chain: &str, rule: &str, expected: &[&str]| check_with(&flags, chain, rule, expected);
    let to = |port: u16| format!("tcp 10.1.2.3:40000 -> 10.5.0.1:{port}");
    let query = "udp 10.1.2.3:40000 -> external:53";
    check("OUTPUT", "-p udp -m udp --dport 53 -j ACCEPT", &[query]);
    check("OUTPUT", "-d 10.5.0.0/16 -j ACCEPT", &[&to(8080)]);
    let from_outside = "tcp external:40000 -> 10.1.2.3:80";
    check("PREROUTING", "-p tcp -m tcp --dport 80 -j ACCEPT", &[from_outside]);
    check("OUTPUT", "-p tcp -m tcp --dport 9 -j ACCEPT", &[&to(9)]);
    check("OUTPUT", "-p udp -m udp --dport 9 -j ACCEPT", &[]);
    // Without `CaptureAllDns`, DNS rules name single servers, without a prefix length.
    let to_server = "udp 10.1.2.3:40000 -> 10.200.0.1:53";
    check_with(&flags[..3], "OUTPUT", "-p udp -m udp --dport 53 -j ACCEPT", &[to_server]);
}

#[test]
fn a_family_dropped_by_other_rules_bypasses_no_proxy() {
    let captured = render::iptables::restore(&capture(Mesh::Linkerd, &LINKERD).rules(Family::V4));
    let listed =
        |text: &str, family| named(View::of_listing(parse::listing(text, family).expect("a listing")));
    for (rules, bypasses) in [
        (":INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n", true),
        (":INPUT DROP [0:0]\n:OUTPUT DROP [0:0]\n", false),
        (":INPUT ACCEPT [0:0]\n:OUTPUT DROP [0:0]\n", true),
        (":INPUT DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -p tcp -m tcp --dport 8080 -j DROP\n", true),
    ] {
        let text = format!("*filter\n{rules}COMMIT\n");
        let views = ByFamily { v4: listed(&captured, Family::V4), v6: listed(&text, Family::V6) };
        let status = seen(&views, &["10.1.2.3", "fd00::3"].map(|text| text.parse().expect("an address")));
        let found = status.findings.iter().any(|finding| finding.is(Code::Ipv6Uncaptured));
        assert_eq!(found, bypasses, "{rules}: {:#?}", status.findings);
    }
}

/// Foreign programs choose the names of chains.
#[test]
fn foreign_names_are_escaped() {
    let views = ByFamily { v4: View::empty(Family::V4), v6: View::empty(Family::V6) };
    let mut status = seen(&views, &[]);
    status
        .findings
        .push(Finding::warning(Code::OthersFirst, "", "chain c\u{1b}[2J decides", "see c\u{7}").into());
    let text = crate::plain(&status.text(80, true));
    assert!(text.contains("chain c\\u{1b}[2J decides") && text.contains("-> see c\\u{7}"), "{text:?}");
}

/// In TPROXY mode, only the proxy's calls to its own pod are redirected to the inbound port.
#[test]
fn without_a_listener_tproxy_drops_and_redirect_refuses() {
    let flags =
        [(Setting::InboundPorts, "*"), (Setting::ServiceCidr, "*"), (Setting::InterceptionMode, "TPROXY")];
    let text = render::iptables::restore(&capture(Mesh::Istio, &flags).rules(Family::V4));
    let check = |tables: &[Table], expected: &[(u16, &str)]| {
        let mut listing = parse::listing(&text, Family::V4).expect("our own text");
        listing.chains.retain(|(table, _), _| tables.contains(table));
        let own: [IpAddr; 1] = ["10.1.2.3".parse().expect("an address")];
        let pod = PodContext::new(own, None);
        let v6 = RuleView { family: Family::V6, view: View::empty(Family::V6), routing: Routing::default() };
        let status = status(&Observation {
            rules: &ByFamily { v4: RuleView::of_listing(listing, &pod), v6 },
            addresses: &own,
            sockets: Some(&[]),
            processes: &[],
            held: Vec::new(),
            only: None,
            findings: Vec::new(),
        });
        let begins = "nothing listens: captured connections are ";
        let found =
            status.listeners.iter().map(|one| (one.port, one.text.strip_prefix(begins).unwrap_or("")));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{tables:?}");
    };
    check(&[Table::Mangle, Table::Nat], &[(15001, "refused"), (15006, "dropped or refused")]);
    check(&[Table::Mangle], &[(15006, "dropped")]);
}

#[test]
fn a_jump_after_a_catch_all_rule_is_not_a_missing_jump() {
    let jump = "-A OUTPUT -j ISTIO_OUTPUT\n";
    let check = |jumps: &str, code: Code, text: &str| {
        let rules = format!(
            "*nat\n:OUTPUT ACCEPT [0:0]\n:ISTIO_OUTPUT - [0:0]\n:ISTIO_REDIRECT - [0:0]\n{jumps}\
             -A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN\n-A ISTIO_OUTPUT -j ISTIO_REDIRECT\n\
             -A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001\nCOMMIT\n"
        );
        let findings = status_of(&rules).findings;
        let is_expected = |finding: &FindingReport| finding.is(code) && finding.text.contains(text);
        assert!(findings.iter().any(is_expected), "{jumps}: {findings:#?}");
    };
    check("", Code::IncompleteRules, "ISTIO_OUTPUT in IPv4 table nat");
    check(&format!("-A OUTPUT -j ACCEPT\n{jump}"), Code::Overruled, "rule 1 of OUTPUT");
}

#[test]
fn sums_of_counters_stop_at_the_largest_number() {
    let rule = "-A ISTIO_OUTPUT -d 127.0.0.1/32 -j RETURN\n";
    let most = u64::MAX;
    let text = format!(
        "*nat\n:OUTPUT ACCEPT [0:0]\n:ISTIO_OUTPUT - [0:0]\n:ISTIO_REDIRECT - [0:0]\n\
         -A OUTPUT -j ISTIO_OUTPUT\n\
         [{most}:{most}] {rule}[1:60] {rule}-A ISTIO_OUTPUT -j ISTIO_REDIRECT\n\
         -A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001\nCOMMIT\n"
    );
    let hits = status_of(&text).hits;
    let loopback = hits.iter().find(|hit| hit.rules.len() == 2).expect("two rules of one meaning");
    assert_eq!((loopback.packets, loopback.bytes), (most, most));
    let places = loopback.rules.iter().map(|rule| (rule.chain.as_str(), rule.rule, rule.packets));
    assert_eq!(places.collect::<Vec<_>>(), [("ISTIO_OUTPUT", 1, most), ("ISTIO_OUTPUT", 2, 1)]);
}

#[test]
fn a_range_of_ports_counts_as_its_ports() {
    let check = |items: &str, expected: &str| {
        let items: Vec<String> = items.split(' ').map(str::to_owned).collect();
        assert_eq!(first_of(&items, super::hits::SHOWN), expected);
    };
    check("1 2 3 4 5 6", "1, 2, 3, 4, 5, 6");
    check("1 2 3 4 5 6 7-10 20", "1, 2, 3, 4, 5, 6 and 5 more");
    check("1-3 4 5 6 7 8 10.0.0.0/8", "1-3, 4, 5, 6, 7, 8 and 1 more");
}

fn status_of(listing: &str) -> CaptureStatus {
    let listing = parse::listing(listing, Family::V4).expect("a listing");
    let views = ByFamily { v4: named(View::of_listing(listing)), v6: View::empty(Family::V6) };
    seen(&views, &["10.1.2.3".parse().expect("an address")])
}

fn rows(status: &CaptureStatus) -> Vec<String> {
    let text = crate::plain(&status.text(120, true));
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Rules of proxy-init, as listed by `iptables-save`.
const BY_PROXY_INIT: &str = r#"*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:PROXY_INIT_OUTPUT - [0:0]
:PROXY_INIT_REDIRECT - [0:0]
[0:0] -A PREROUTING -m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT
[0:0] -A OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT
[0:0] -A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -m comment --comment "proxy-init/ignore-proxy-user-id" -j RETURN
[0:0] -A PROXY_INIT_OUTPUT -o lo -m comment --comment "proxy-init/ignore-loopback" -j RETURN
[5:300] -A PROXY_INIT_OUTPUT -p tcp -m multiport --dports 4567,4568 -m comment --comment "proxy-init/ignore-port-4567,4568" -j RETURN
[7:420] -A PROXY_INIT_OUTPUT -p tcp -m comment --comment "proxy-init/redirect-all-outgoing-to-proxy-port" -j REDIRECT --to-ports 4140
[0:0] -A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 4190,4191 -m comment --comment "proxy-init/ignore-port-4190,4191" -j RETURN
[0:0] -A PROXY_INIT_REDIRECT -s 10.2.0.0/16 -m comment --comment "proxy-init/ignore-subnet-10.2.0.0/16" -j RETURN
[0:0] -A PROXY_INIT_REDIRECT -p tcp -m comment --comment "proxy-init/redirect-all-incoming-to-proxy-port" -j REDIRECT --to-ports 4143
COMMIT
"#;

/// DNS capture of Istio 1.8 and 1.9, with port 22 excluded first.
#[test]
fn older_rules_for_dns_are_the_agents() {
    let rules = "*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:ISTIO_INBOUND - [0:0]\n\
                 :ISTIO_IN_REDIRECT - [0:0]\n:ISTIO_OUTPUT - [0:0]\n:ISTIO_REDIRECT - [0:0]\n\
                 -A PREROUTING -p tcp -j ISTIO_INBOUND\n-A OUTPUT -p tcp -j ISTIO_OUTPUT\n\
                 -A OUTPUT -p udp -m udp --dport 53 -m owner --uid-owner 7 -j RETURN\n\
                 -A OUTPUT -p udp -m udp --dport 53 -j DNAT --to-destination 127.0.0.1:15053\n\
                 -A POSTROUTING -p udp -m udp --dport 15053 -j SNAT --to-source 127.0.0.1\n\
                 -A ISTIO_INBOUND -p tcp -m tcp --dport 22 -j RETURN\n-A ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT\n\
                 -A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006\n\
                 -A ISTIO_OUTPUT ! -d 127.0.0.1/32 -o lo -m owner --uid-owner 7 -j ISTIO_IN_REDIRECT\n\
                 -A ISTIO_OUTPUT -m owner --uid-owner 7 -j RETURN\n-A ISTIO_OUTPUT -j ISTIO_REDIRECT\n\
                 -A ISTIO_REDIRECT -p tcp -m tcp --dport 53 -j REDIRECT --to-ports 15053\n\
                 -A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001\nCOMMIT\n";
    let status = status_of(rules);
    let rows = rows(&status);
    for row in [
        "captured ==> Envoy 15001 all other TCP (-p)",
        "captured ==> agent 15053 DNS, TCP and UDP port 53 (--redirect-dns)",
        "not captured --> application TCP port 22 (-d)",
        "not captured --> network all other UDP and ICMP",
    ] {
        assert!(rows.iter().any(|one| one == row), "{row}: {rows:#?}");
    }
    let listeners: Vec<_> = status.listeners.iter().map(|one| (one.port, &*one.protocol)).collect();
    assert_eq!(listeners, [(15001, "tcp"), (15006, "tcp"), (15053, "tcp"), (15053, "udp")]);
    assert!(!status.findings.iter().any(|finding| finding.is(Code::Overruled)), "{:?}", status.findings);
}

#[test]
fn two_meshes_at_once_are_distinguished() {
    let sidecar = "*nat\n:OUTPUT ACCEPT [0:0]\n:ISTIO_OUTPUT - [0:0]\n:ISTIO_REDIRECT - [0:0]\n\
                   -A OUTPUT -j ISTIO_OUTPUT\n-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN\n\
                   -A ISTIO_OUTPUT -j ISTIO_REDIRECT\n\
                   -A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001\nCOMMIT\n";
    let mut view = View::of_listing(parse::listing(sidecar, Family::V4).expect("a listing"));
    view.add_listing(parse::listing(BY_PROXY_INIT, Family::V4).expect("a listing"), Some("other"));
    let views = ByFamily { v4: named(view), v6: View::empty(Family::V6) };
    let status = seen(&views, &["10.1.2.3".parse().expect("an address")]);
    assert_eq!(status.meshes, ["istio", "linkerd"]);
    assert!(status.summary.ends_with(", for Istio's sidecar and linkerd"), "{}", status.summary);
    let of = |mesh: &str| {
        let ports = status.listeners.iter().filter(|one| one.meshes == [mesh]).map(|one| one.port);
        ports.collect::<Vec<_>>()
    };
    assert_eq!((of("istio"), of("linkerd")), (vec![15001], vec![4140, 4143]));
    let hits: Vec<_> =
        status.hits.iter().filter(|hit| hit.packets > 0).map(|hit| (&*hit.mesh, hit.packets)).collect();
    assert_eq!(hits, [("linkerd", 5), ("linkerd", 7)]);
}
