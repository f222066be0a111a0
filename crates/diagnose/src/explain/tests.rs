//! Ambient mode's limits, each on the path of an affected packet; and questions with open properties.

use super::{PodContext, QuestionContext, RuleView, VerdictKind, explain};
use crate::random_tests::configured;
use crate::{Subject, painted, plain};
use mesh::Mesh;
use mesh::Setting;
use mesh::ambient::defaults::{PROBE_V4, PROBE_V6};
use mesh::sources::{NullHost, Raw, SettingReader};
use rules::simulate::{Direction, Packet, Verdict};
use rules::{ConnState, Family, Gid, Protocol, Uid};
use std::net::SocketAddr;

/// `route` is `by INTERFACE` or `at INTERFACE`.
fn packet(route: &str, protocol: Protocol, mark: u32, source: &str, destination: &str) -> Packet {
    let [source, destination] = [source, destination].map(|text| {
        let address: SocketAddr = text.parse().expect("an address");
        address
    });
    let direction = match route.split_once(' ') {
        Some(("by", interface)) => Direction::Outbound {
            interface: interface.to_owned(),
            uid: Uid::new(1000).expect("a user"),
            gid: Gid::new(1000).expect("a group"),
        },
        Some(("at", interface)) => {
            Direction::Inbound { interface: interface.to_owned(), local: interface != "vm0" }
        }
        _ => panic!("{route}"),
    };
    Packet { direction, protocol, source, destination, mark, connmark: 0, state: ConnState::New }
}

fn check(flags: &[(&str, &str)], packet: &Packet, port: Option<u16>, expected: &[&str]) {
    let (_, capture) = configured(Mesh::Ambient, flags).expect("good words");
    let own = ["10.1.0.9", "fd00:1::9"].map(|text| text.parse().expect("an address"));
    let rule_view = RuleView::of_config(&*capture, packet.family(), &PodContext::new(own, Some(&*capture)));
    let explained = explain(&rule_view.view, &rule_view.routing, packet);
    let ends = match explained.outcome().verdict {
        Verdict::Redirect(ports) => Some(ports.first().number()),
        Verdict::Pass => None,
        other => panic!("{other:?}"),
    };
    let limits = explained.limits();
    let codes: Vec<&str> = limits.iter().map(|limit| &*limit.code).collect();
    let text = plain(&painted(&explained.report().way(true), usize::MAX));
    assert_eq!((ends, &codes[..]), (port, expected), "{flags:?}: {packet:?}\n{text}");
    for limit in &limits {
        assert!(text.contains(&format!("note: {}\n      -> {}\n", limit.text, limit.remedy)), "{text}");
        assert!(!limit.text.contains("{}") && !limit.remedy.contains("{}"), "{limit:?}");
    }
    assert_eq!(explained.report().limits, limits);
    let is_proxys = port.is_none() && packet.mark & 0xfff == 0x539;
    assert_eq!(explained.reason().starts_with("packets with its mark, 0x"), is_proxys, "{text}");
}

#[test]
fn every_path_has_its_port_and_its_limits() {
    use Protocol::{Tcp, Udp};
    let routes = [
        // Outbound packets, of the application and of processes with ztunnel's mark.
        (packet("by eth0", Tcp, 0, "10.1.0.9:4000", "192.0.2.1:80"), Some(15001), &[][..]),
        (packet("by eth0", Tcp, 0x539, "10.1.0.9:4000", "192.0.2.1:80"), None, &["SI023"]),
        (packet("by eth0", Tcp, 0xab539, "10.1.0.9:4000", "192.0.2.1:80"), None, &["SI023"]),
        (packet("by eth0", Udp, 0x539, "10.1.0.9:4000", "192.0.2.53:53"), None, &[]),
        (packet("by eth0", Tcp, 0x538, "10.1.0.9:4000", "192.0.2.1:80"), Some(15001), &[]),
        (packet("by lo", Tcp, 0, "10.1.0.9:4000", "10.1.0.9:80"), None, &[]),
        (packet("by eth0", Udp, 0, "10.1.0.9:4000", "192.0.2.53:53"), Some(15053), &[]),
        (packet("by eth0", Tcp, 0, "10.1.0.9:4000", "192.0.2.53:53"), Some(15053), &[]),
        (packet("by lo", Udp, 0, "127.0.0.1:4000", "127.0.0.53:53"), None, &["SI024"]),
        (packet("by lo", Tcp, 0, "127.0.0.1:4000", "127.0.0.53:53"), Some(15053), &["SI024"]),
        (packet("by lo", Tcp, 0, "[fd00:1::9]:4000", "[fd00:1::9]:53"), Some(15053), &["SI024"]),
        (packet("by lo", Udp, 0, "127.0.0.1:4000", "127.0.0.1:53"), None, &[]),
        (packet("by lo", Tcp, 0, "[::1]:4000", "[::1]:53"), None, &[]),
        // Inbound packets: from other hosts, through the tunnel, from the host.
        (packet("at eth0", Tcp, 0, "192.0.2.9:4000", "10.1.0.9:80"), Some(15006), &[]),
        (packet("at eth0", Tcp, 0, "192.0.2.9:4000", "10.1.0.9:15008"), None, &[]),
    ];
    for (packet, port, codes) in &routes {
        check(&[], packet, *port, codes);
    }
    for (address, own) in [(PROBE_V4.to_string(), "10.1.0.9"), (format!("[{PROBE_V6}]"), "[fd00:1::9]")] {
        let (host, own) = (format!("{address}:4000"), format!("{own}:80"));
        check(&[], &packet("at eth0", Tcp, 0, &host, &own), None, &["SI021", "SI022"]);
        let to_host = packet("by eth0", Tcp, 0, &own, &host);
        check(&[], &to_host, None, &[]);
    }
    let vm = [("reroute-virtual-interfaces", "vm+")];
    let call = |protocol| packet("at vm0", protocol, 0, "10.9.0.2:4000", "192.0.2.53:53");
    check(&vm, &call(Tcp), Some(15001), &["SI025", "SI026"]);
    check(&vm, &call(Udp), None, &[]);
}

#[test]
fn open_properties_of_a_question_cover_all_their_values() {
    let check = |rules: &str,
                 question: &[(Setting, &str)],
                 captured: Option<bool>,
                 cases: &[(&str, &str)]| {
        let rules = format!(
            "*nat\n-A PREROUTING -p tcp -j REDIRECT --to-ports 15006\n-A OUTPUT -p tcp -m owner ! --uid-owner 1337 \
             -j REDIRECT --to-ports 15001\nCOMMIT\n*mangle\n{rules}COMMIT\n"
        );
        let pod = PodContext::new(["10.1.0.9".parse().expect("an address")], None);
        let listing = rules::parse::listing(&rules, Family::V4).expect("a listing");
        let rule_view = RuleView::of_listing(listing, &pod);
        let raw = Raw::of_flags(question.iter().copied());
        let mut reader = SettingReader::new(&raw, Vec::new());
        let place = QuestionContext { pod: &pod, routes: &pod, names: &|_| None };
        let query = super::packet(&mut reader, &place).expect("a question");
        let subject = Subject::of_flags(raw.clone(), Vec::new(), |_| Box::new(NullHost));
        let explained = subject.explain(&rule_view, &query);
        let report = explained.report();
        let found: Vec<(&str, &str)> =
            report.cases.iter().map(|case| (&*case.text, case.end.verdict.word())).collect();
        assert_eq!((explained.is_captured(), &found[..]), (captured, cases), "{rules} {question:?}");
        assert_eq!(report.end.verdict == VerdictKind::Depends, !cases.is_empty());
    };
    let (inbound, outbound) = ([(Setting::Destination, "8080")], [(Setting::Destination, "192.0.2.1:80")]);
    let from_ten = "-A PREROUTING -s 10.0.0.0/8 -j DROP\n";
    let of_caller = [("from addresses other than 10.0.0.0/8", "captured"), ("from 10.0.0.0/8", "dropped")];
    check("", &inbound, Some(true), &[]);
    check("", &outbound, Some(true), &[]);
    check(from_ten, &inbound, None, &of_caller);
    check(from_ten, &[inbound[0], (Setting::PacketSource, "192.0.2.9")], Some(true), &[]);
    check("-A PREROUTING -p tcp -m tcp --sport 1:1023 -j DROP\n", &outbound, Some(true), &[]);
    let of_port = [("from ports other than 1-1023", "captured"), ("from ports 1-1023", "dropped")];
    check("-A PREROUTING -p tcp -m tcp --sport 1:1023 -j DROP\n", &inbound, None, &of_port);
    let of_user = [("by users other than 33", "captured"), ("by user 33", "dropped")];
    let user = "-A OUTPUT -m owner --uid-owner 33 -j DROP\n";
    check(user, &outbound, None, &of_user);
    check(user, &[outbound[0], (Setting::SenderUid, "34")], Some(true), &[]);
    check("-A OUTPUT -m owner --uid-owner 1337 -j DROP\n", &outbound, Some(true), &[]);
}
