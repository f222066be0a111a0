//! A verdict does not change when rules are written down and read back: scenarios of the catalogue, and random
//! configurations, each with random packets. In process; the differential tests do the same by way of the kernel.

use crate::support::catalogue;
use crate::support::configurations::{self, Configuration};
use crate::support::random::Random;
use crate::support::scope;
use mesh::{CapturePolicy, Mesh};
use rules::simulate::{Direction, Packet, Routing, Verdict, View, walk};
use rules::{ConnState, Family, Gid, Mark, Protocol, RuleSet, State, Uid, parse, render};
use std::net::SocketAddr;

const PACKETS: usize = 20;

/// All ways by which the rules can come back.
fn views(rules: &RuleSet, mesh: Mesh) -> [(&'static str, View); 3] {
    let checked =
        rules::check::check(rules.clone(), &mesh.ownership()).expect("the policy makes valid rules");
    let family = rules.family;
    let text = render::iptables::restore(&checked);
    [
        ("the rule set", View::of_rules(rules)),
        ("its state", View::of_state(&State::of(rules), family)),
        ("its text", View::of_listing(parse::listing(&text, family).expect("our own text"))),
    ]
}

fn check(rules: &RuleSet, mesh: Mesh, routing: &Routing, packets: &[Packet], printed: &str) {
    let [(_, first), others @ ..] = views(rules, mesh);
    for packet in packets {
        let expected = walk(&first, routing, packet, &mut ());
        assert_ne!(expected.verdict, Verdict::Unknown, "{printed}: {packet:?}");
        for (name, view) in &others {
            let outcome = walk(view, routing, packet, &mut ());
            assert_eq!(outcome.verdict, expected.verdict, "{printed}: {packet:?} over {name}");
        }
    }
}

fn packet(random: &mut Random, family: Family) -> Packet {
    let addresses: &[&str] = match family {
        Family::V4 => {
            &["10.77.0.2", "127.0.0.1", "127.0.0.6", "10.99.0.1", "10.98.0.1", "10.88.0.10", "8.8.8.8"]
        }
        Family::V6 => &["fd77::2", "::1", "::6", "fd99::1", "fd98::1", "fd88::10", "2001:db8::8"],
    };
    let address =
        |random: &mut Random, port| SocketAddr::new(random.of(addresses).parse().expect("an address"), port);
    let direction = if random.one_in(3) {
        Direction::Inbound {
            interface: random.of(&["eth0", "net1", "vm0"]).to_owned(),
            local: random.one_in(2),
        }
    } else {
        Direction::Outbound {
            interface: random.of(&["lo", "eth0", "net1"]).to_owned(),
            uid: Uid::new(random.of(&[0, 1000, 1337, 2000])).expect("a user"),
            gid: Gid::new(random.of(&[0, 1000, 1337, 2000])).expect("a group"),
        }
    };
    let port = random.of(&[53, 80, 443, 8080, 9080, 15001, 15006, 15008, 65535]);
    let state = random.of(&[ConnState::New, ConnState::New, ConnState::Established, ConnState::Invalid]);
    // Only a connection that was seen before has a mark.
    let connmark = random.of(&[0, 0, 1337]);
    Packet {
        direction,
        protocol: random.of(&[Protocol::Tcp, Protocol::Tcp, Protocol::Udp]),
        source: address(random, 40_000),
        destination: address(random, port),
        mark: random.of(&[0, 0, 0, 1337, 1338]),
        connmark: if state == ConnState::Established { connmark } else { 0 },
        state,
    }
}

#[test]
fn random_configurations() {
    let mut random = Random::new(scope::seed());
    for turn in 0..scope::runs(1_000, 250) {
        let configuration = Configuration::random(&mut random);
        let config = configuration.resolve(random.of(&["REDIRECT", "TPROXY"]));
        for family in Family::BOTH {
            let packets: Vec<Packet> = (0..PACKETS).map(|_| packet(&mut random, family)).collect();
            let marks = config.proxy().listeners.transparent.filter(|_| config.captures_inbound());
            let routing = Routing { local_marks: marks.into_iter().collect(), addresses: Vec::new() };
            let printed = format!("TEST_SEED={}, {turn}: {:?}", scope::seed(), configuration.parts);
            check(&configurations::rules(&config, family), Mesh::Istio, &routing, &packets, &printed);
        }
    }
}

#[test]
fn scenarios() {
    let mut random = Random::new(12);
    for case in catalogue::scenarios(|_| true) {
        let mesh: Mesh = case.mesh().map(|name| name.parse().expect("a mesh")).unwrap_or_default();
        for (family, file) in [(Family::V4, "v4.rules"), (Family::V6, "v6.rules")] {
            let Some(text) = case.text(file) else { continue };
            let rules = parse::restore(&text, family).expect("a golden is ours");
            let packets: Vec<Packet> = (0..100).map(|_| packet(&mut random, family)).collect();
            let routing = Routing { local_marks: vec![Mark::whole(1337)], addresses: Vec::new() };
            check(&rules, mesh, &routing, &packets, case.name());
        }
    }
}

/// What `iptables-save` prints in a pod that the init container of Istio 1.20 has set up with its usual flags. It
/// hands over TCP alone.
const ISTIO: &str = "*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:ISTIO_INBOUND - [0:0]
:ISTIO_IN_REDIRECT - [0:0]
:ISTIO_OUTPUT - [0:0]
:ISTIO_REDIRECT - [0:0]
-A PREROUTING -p tcp -j ISTIO_INBOUND
-A OUTPUT -p tcp -j ISTIO_OUTPUT
-A ISTIO_INBOUND -p tcp -m tcp --dport 15008 -j RETURN
-A ISTIO_INBOUND -p tcp -m tcp --dport 15090 -j RETURN
-A ISTIO_INBOUND -p tcp -m tcp --dport 15021 -j RETURN
-A ISTIO_INBOUND -p tcp -m tcp --dport 15020 -j RETURN
-A ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT
-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006
-A ISTIO_OUTPUT -s 127.0.0.6/32 -o lo -j RETURN
-A ISTIO_OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m tcp ! --dport 15008 -m owner --uid-owner 1337 -j ISTIO_IN_REDIRECT
-A ISTIO_OUTPUT -o lo -m owner ! --uid-owner 1337 -j RETURN
-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN
-A ISTIO_OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m tcp ! --dport 15008 -m owner --gid-owner 1337 -j ISTIO_IN_REDIRECT
-A ISTIO_OUTPUT -o lo -m owner ! --gid-owner 1337 -j RETURN
-A ISTIO_OUTPUT -m owner --gid-owner 1337 -j RETURN
-A ISTIO_OUTPUT -d 127.0.0.1/32 -j RETURN
-A ISTIO_OUTPUT -j ISTIO_REDIRECT
-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001
COMMIT
";

#[test]
fn a_listing_of_istio_means_what_our_rules_mean() {
    let text = catalogue::Case::named("istio-init-container").text("v4.rules").expect("rules");
    let ours = View::of_rules(&parse::restore(&text, Family::V4).expect("a golden is ours"));
    let theirs = View::of_listing(parse::listing(ISTIO, Family::V4).expect("a listing"));
    let mut random = Random::new(13);
    let mut captured = 0;
    for _ in 0..1_000 {
        let mut packet = packet(&mut random, Family::V4);
        if random.one_in(4) {
            packet.destination.set_port(random.of(&[15020, 15021, 15090]));
        }
        let routing = Routing::default();
        let verdict = walk(&theirs, &routing, &packet, &mut ()).verdict;
        assert_eq!(verdict, walk(&ours, &routing, &packet, &mut ()).verdict, "{packet:?}");
        match (packet.protocol, verdict) {
            (Protocol::Udp, verdict) => assert_eq!(verdict, Verdict::Pass, "{packet:?}"),
            (Protocol::Tcp, verdict) => captured += u32::from(verdict != Verdict::Pass),
        }
    }
    assert!((100..600).contains(&captured), "{captured} packets captured say little");
}
