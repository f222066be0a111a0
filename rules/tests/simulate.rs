//! Packets and their verdicts: the catalogue's rules, and listings in other tools' styles. The expectations are kernel behaviour;
//! the tool's oracle compares the same walk with a kernel. These cases are few, named, and need no kernel.

use rules::nft::{Base, Kind, LiveChain, LiveRule, LiveTable};
use rules::simulate::{Direction, Packet, Routing, Verdict, View, ViewChain, trace, walk};
use rules::{Action, ConnState, Family, Gid, Hook, Policy, Protocol, Uid, parse};
use std::collections::BTreeSet;
use testkit::scenarios::Case;

const POD: &str = "10.44.0.7";

fn routing() -> Routing {
    Routing {
        local_marks: vec![rules::Mark::whole(1337)],
        addresses: vec![POD.parse().expect("valid"), "fd44::7".parse().expect("valid")],
    }
}

fn view(text: &str) -> View {
    View::of_listing(parse::listing(text, Family::V4).expect("a listing"))
}

fn add_chain(view: &mut View, name: &str, base: (Base, Policy), rule: Option<(Vec<Action>, Action)>) {
    let rule = rule.map(|(first, action)| LiveRule {
        text: String::new(),
        conditions: Vec::new(),
        first,
        action,
        comment: String::new(),
        hits: None,
    });
    let rules = rule.into_iter().collect();
    let chains = vec![LiveChain { name: name.to_owned(), base: Some(base), rules }];
    view.add_nftables(LiveTable { family: None, name: "inet other".to_owned(), chains });
}

fn from_process(protocol: Protocol, id: u32, destination: &str) -> Packet {
    let destination: std::net::SocketAddr = destination.parse().expect("valid");
    let stays = destination.ip().is_loopback() || routing().addresses.contains(&destination.ip());
    let own = if destination.is_ipv4() { "10.44.0.7:40000" } else { "[fd44::7]:40000" };
    Packet {
        direction: Direction::Outbound {
            interface: if stays { "lo" } else { "eth0" }.to_owned(),
            uid: Uid::new(id).expect("valid"),
            gid: Gid::new(id).expect("valid"),
        },
        protocol,
        source: own.parse().expect("valid"),
        destination,
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    }
}

fn from_outside(port: u16) -> Packet {
    Packet {
        direction: Direction::Inbound { interface: "eth0".to_owned(), local: true },
        protocol: Protocol::Tcp,
        source: "10.44.0.1:40000".parse().expect("valid"),
        destination: format!("{POD}:{port}").parse().expect("valid"),
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    }
}

fn redirect(port: u16) -> Verdict {
    Verdict::Redirect(rules::Port::new(port).expect("valid").into())
}

fn tproxy(port: u16) -> Verdict {
    Verdict::Tproxy(rules::Port::new(port).expect("valid"))
}

fn check(text: &str, cases: &[(Packet, Verdict)]) {
    let view = view(text);
    for (packet, expected) in cases {
        let (outcome, steps) = trace(&view, &routing(), packet);
        assert_eq!(outcome.verdict, *expected, "{packet:?}\n{steps:#?}\n{text}");
    }
}

use Protocol::{Tcp, Udp};

/// Found by random packets: a virtual machine behind the pod calls an excluded port, and its connection fails.
#[test]
fn tproxy_takes_the_answer_to_a_forwarded_connection_for_the_proxys() {
    let text = Case::named("tproxy-all-inbound").text("v4.rules").expect("rules");
    let view = view(&text);
    let answer = Packet {
        direction: Direction::Inbound { interface: "eth0".to_owned(), local: false },
        destination: "10.79.0.2:40000".parse().expect("valid"),
        state: ConnState::Established,
        ..from_outside(40_000)
    };
    let outcome = walk(&view, &routing(), &answer);
    assert_eq!((outcome.verdict, outcome.stays), (Verdict::Pass, true));
}

#[test]
fn tproxy_of_a_packet_for_another_machine_needs_the_policy_rule() {
    let text =
        "*mangle\n-A PREROUTING -p tcp -j TPROXY --on-port 15006 --tproxy-mark 0x539/0xffffffff\nCOMMIT\n";
    let view = view(text);
    let packet = Packet {
        direction: Direction::Inbound { interface: "eth0".to_owned(), local: false },
        destination: "10.9.9.9:80".parse().expect("valid"),
        ..from_outside(80)
    };
    assert_eq!(walk(&view, &routing(), &packet).verdict, tproxy(15006));
    assert_eq!(walk(&view, &Routing::default(), &packet).verdict, Verdict::Drop);
}

#[test]
fn packet_without_its_mark_leaves() {
    let tproxy_all =
        "-A PREROUTING -p tcp -j TPROXY --on-port 15006 --tproxy-mark 0x539/0xffffffff\nCOMMIT\n";
    let unmarks = "-A OUTPUT -j MARK --set-xmark 0x0/0xffffffff\n";
    let marked = |to: &str| Packet { mark: 1337, ..from_process(Tcp, 0, to) };
    let (other, own) = (marked("10.9.9.9:80"), marked("10.44.0.7:80"));
    check(&format!("*mangle\n{tproxy_all}"), &[(other.clone(), tproxy(15006)), (own.clone(), tproxy(15006))]);
    let text = format!("*mangle\n{unmarks}{tproxy_all}");
    check(&text, &[(other, Verdict::Pass), (own, tproxy(15006))]);
}

#[test]
fn a_packet_with_a_local_mark_stays_also_where_its_destination_is_translated() {
    let text = "*nat\n-A OUTPUT -p tcp -j DNAT --to-destination 10.9.9.10:81\nCOMMIT\n";
    let view = view(text);
    for (mark, stays) in [(1337, true), (1338, false)] {
        let packet = Packet { mark, ..from_process(Tcp, 0, "10.9.9.9:80") };
        let outcome = walk(&view, &routing(), &packet);
        assert_eq!((outcome.verdict, outcome.stays), (Verdict::Pass, stays), "{mark}");
    }
}

/// `nft_notrack_ops` has no `init`, and `xt_ct_tg_check` registers nothing for `--notrack`.
#[test]
fn a_rule_against_tracking_does_not_make_the_kernel_track() {
    let verdict = |more: &str| {
        let text = format!(
            "*raw\n-A OUTPUT -p udp -j NOTRACK\nCOMMIT\n*nat\n-A OUTPUT -p tcp -m tcp --dport 80 -j DROP\n{more}COMMIT\n"
        );
        let mut view = View::empty(Family::V4);
        view.add_listing(parse::listing(&text, Family::V4).expect("valid"), None);
        walk(&view, &routing(), &from_process(Tcp, 0, "10.9.9.9:80")).verdict
    };
    assert_eq!(verdict(""), Verdict::Pass);
    assert_eq!(verdict("-A OUTPUT -p tcp -m tcp --dport 81 -j REDIRECT --to-ports 1\n"), Verdict::Drop);
}

#[test]
fn a_rule_of_nf_tables_ends_where_it_reads_the_mark_of_a_missing_connection() {
    let verdict = |mark: rules::Mark| {
        let base = Base { kind: Kind::Filter, hook: Hook::Output, priority: -300 };
        let first = vec![Action::Target(rules::Target::SetConnmark(mark))];
        let rule = (first, Action::Target(rules::Target::Accept));
        let mut view = View::empty(Family::V4);
        add_chain(&mut view, "early", (base, Policy::Drop), Some(rule));
        walk(&view, &routing(), &from_process(Tcp, 0, "10.9.9.9:80")).verdict
    };
    assert_eq!(verdict(rules::Mark { value: 1, mask: 0xf }), Verdict::Drop);
    assert_eq!(verdict(rules::Mark::whole(1)), Verdict::Pass);
}

#[test]
fn tproxy_does_not_keep_a_packet_from_outside_that_is_sent_to_a_loopback_address() {
    let text = "*mangle\n-A PREROUTING -p tcp -j TPROXY --on-port 15006 --on-ip 0.0.0.0 --tproxy-mark 0x539/0xffffffff\nCOMMIT\n\
                *nat\n-A PREROUTING -p tcp -m tcp --dport 80 -j DNAT --to-destination 127.0.0.1\nCOMMIT\n";
    // The kernel drops it, unless the interface's `route_localnet` is set.
    check(text, &[(from_outside(80), Verdict::Unknown), (from_outside(81), tproxy(15006))]);
}

#[test]
fn a_match_that_is_not_known_makes_the_verdict_unknown_only_where_it_could_matter() {
    let text = "*nat
-A OUTPUT -d 10.1.0.0/16 -m set --match-set mesh dst -j REDIRECT --to-ports 9000
-A OUTPUT -m statistic --mode random --probability 0.5 -j LOG --log-prefix \"odd - \"
-A OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 4140
COMMIT
";
    check(
        text,
        &[
            (from_process(Tcp, 0, "10.1.2.3:80"), Verdict::Unknown),
            (from_process(Tcp, 0, "10.2.2.3:80"), redirect(4140)),
            (from_process(Tcp, 0, "10.2.2.3:81"), Verdict::Pass),
        ],
    );
}

#[test]
fn firewall_drops_passed_and_redirected_packets() {
    let text = "*filter
:INPUT DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -i lo -p tcp --dport 15001 -j ACCEPT
-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT
-A OUTPUT -d 10.6.6.6/32 -j REJECT --reject-with icmp-port-unreachable
COMMIT
*nat
-A OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 15001
-A OUTPUT -p tcp --dport 81 -j REDIRECT --to-ports 15002
COMMIT
";
    check(
        text,
        &[
            (from_process(Tcp, 0, "10.2.2.3:80"), redirect(15001)),
            (from_process(Tcp, 0, "10.2.2.3:81"), Verdict::Drop),
            (from_process(Tcp, 0, "10.6.6.6:443"), Verdict::Drop),
            (from_process(Tcp, 0, "10.6.6.6:80"), redirect(15001)),
            (from_outside(22), Verdict::Drop),
            (Packet { state: ConnState::Established, ..from_outside(22) }, Verdict::Pass),
        ],
    );
}

#[test]
fn gotos_notrack_and_translations_are_followed() {
    let text = "*raw
-A OUTPUT -d 169.254.20.10/32 -p udp -m udp --dport 53 -j NOTRACK
COMMIT
*nat
:HELD - [0:0]
-A OUTPUT -d 169.254.20.10/32 -j REDIRECT --to-ports 15053
-A OUTPUT -d 10.3.0.0/16 -g HELD
-A OUTPUT -p tcp -j REDIRECT --to-ports 1
-A HELD -d 10.3.1.1/32 -p tcp -j DNAT --to-destination 127.0.0.11:4053
COMMIT
";
    check(
        text,
        &[
            (from_process(Udp, 0, "169.254.20.10:53"), Verdict::Pass),
            (from_process(Tcp, 0, "169.254.20.10:53"), redirect(15053)),
            (from_process(Tcp, 0, "10.3.9.9:80"), Verdict::Pass),
            (from_process(Tcp, 0, "10.4.9.9:80"), redirect(1)),
        ],
    );
    let view = view(text);
    let outcome = walk(&view, &routing(), &from_process(Tcp, 0, "10.3.1.1:80"));
    assert_eq!(outcome.verdict, Verdict::Pass);
    assert_eq!(outcome.translated.map(|to| to.to_string()).as_deref(), Some("127.0.0.11:4053"));
}

#[test]
fn chains_of_nat_come_before_ours_by_their_priorities() {
    let others = [
        (Kind::Nat, Hook::Output, -101),
        (Kind::Nat, Hook::Output, -100),
        (Kind::Nat, Hook::Prerouting, -99),
        (Kind::Nat, Hook::Postrouting, -200),
        (Kind::Filter, Hook::Output, -300),
    ];
    let rules = "*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A PREROUTING -p udp -j RETURN\n-A OUTPUT -j ISTIO_A\n-A ISTIO_A -j RETURN\nCOMMIT\n";
    let mut view = view(rules);
    for (kind, hook, priority) in others {
        let base = (Base { kind, hook, priority }, Policy::Accept);
        let rule = (Vec::new(), Action::Continue("counter".to_owned()));
        add_chain(&mut view, &priority.to_string(), base, Some(rule));
    }
    let before = |ours: &dyn Fn(&ViewChain) -> bool| {
        let found = view.nat_before(ours).into_iter();
        found.map(|chain| view.chains()[chain].chain.clone()).collect::<BTreeSet<_>>()
    };
    // The order of equal priorities is unknown.
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(before(&|chain| chain.chain == "OUTPUT"), set(&["-101", "-100"]));
    assert_eq!(before(&|chain| chain.chain == "-101"), set(&[]));
    assert_eq!(before(&|chain| chain.chain == "-99"), set(&["PREROUTING"]));
    // Without ours: chains before iptables', and iptables' chains.
    assert_eq!(before(&|_| false), set(&["PREROUTING", "-101", "OUTPUT", "-100"]));
}

/// Found by random packets: after a chain that translates, the kernel calls no other NAT chain.
#[test]
fn nat_of_a_chain_may_keep_another_of_its_priority_from_dropping() {
    let rules = "*nat\n-A OUTPUT -p tcp -j REDIRECT --to-ports 9\nCOMMIT\n";
    for (kind, protocol, expected) in [
        (Kind::Nat, Tcp, Verdict::Unknown),
        (Kind::Nat, Udp, Verdict::Drop),
        (Kind::Filter, Tcp, Verdict::Drop),
    ] {
        let base = (Base { kind, hook: Hook::Output, priority: -100 }, Policy::Drop);
        let mut view = view(rules);
        add_chain(&mut view, "c", base, None);
        let outcome = walk(&view, &routing(), &from_process(protocol, 0, "10.1.1.1:80"));
        assert_eq!(outcome.verdict, expected, "{kind:?} {protocol}");
    }
}

#[test]
fn chains_that_call_each_other_without_end_are_unknown() {
    let text = "*nat\n-A OUTPUT -j A\n-A A -j B\n-A B -j A\nCOMMIT\n";
    check(text, &[(from_process(Tcp, 0, "10.1.1.1:1"), Verdict::Unknown)]);
    let mut text = "*nat\n-A OUTPUT -j C0\n".to_owned();
    for n in 0..60 {
        text += &format!("-A C{n} -j C{0}\n-A C{n} -j C{0}\n", n + 1);
    }
    text += ":C60 - [0:0]\nCOMMIT\n";
    check(&text, &[(from_process(Tcp, 0, "10.1.1.1:1"), Verdict::Unknown)]);
}

mod any_text {
    //! Bounded runs of the fuzz targets: no text causes a panic or an endless walk.

    use super::{Family, Routing, Tcp, View, from_outside, from_process, parse, walk};
    use proptest::prelude::{ProptestConfig, proptest};
    use testkit::scope;

    const WORDS: &str = "(\\*(nat|mangle|raw|filter)\n|COMMIT\n|:[A-C] - \\[0:0\\]\n|-A (OUTPUT|PREROUTING|INPUT|[A-C])( (! )?-(s|d) (10\\.0\\.0\\.0/8|0/0|x)| -p (tcp|udp|6|icmp)| -(m|j|g) ([A-C]|tcp|owner|MARK|ACCEPT|RETURN|DROP|CT)| --(dport|on-port|to-ports|set-xmark|zone|uid-owner) [0-9]{1,6}){0,5}\n)";

    proptest! {
        #![proptest_config(ProptestConfig { cases: scope::runs(400, 100), failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn is_walked_without_a_panic(lines in proptest::collection::vec(WORDS, 0..40)) {
            let text = lines.concat();
            if let Ok(listing) = parse::listing(&text, Family::V4) {
                let view = View::of_listing(listing);
                for packet in [from_outside(80), from_process(Tcp, 0, "10.0.0.1:80"), from_process(Tcp, 0, "127.0.0.1:1")] {
                    walk(&view, &Routing::default(), &packet);
                }
            }
        }
    }
}

#[test]
fn a_zone_that_is_perhaps_set_decides_nothing() {
    let zoned = |target: &str| {
        format!(
            "*raw\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -m foreign --condition -j {target}\nCOMMIT\n*nat\n:OUTPUT ACCEPT [0:0]\n\
             -A OUTPUT -p tcp -j REDIRECT --to-ports 15001\nCOMMIT\n"
        )
    };
    let packet = from_process(Tcp, 1000, "192.0.2.1:80");
    check(&zoned("CT --zone 1"), &[(packet.clone(), redirect(15001))]);
    check(&zoned("DROP"), &[(packet, Verdict::Unknown)]);
}
