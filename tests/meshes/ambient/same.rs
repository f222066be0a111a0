//! The same packets through the agent's rules and ours: one end for each, by the walk through what it and we load into
//! nf_tables, read back from the kernel. Those of iptables are equal letter for letter (`upstream.rs`).

use crate::meshes::ambient::agent::{Options, for_nft};
use crate::meshes::ambient::scene::{config, tables_of};
use crate::support::namespace::Namespace;
use crate::support::random::Random;
use crate::support::scope;

use mesh::{Capture, CapturePolicy};
use rules::nft::LiveTable;
use rules::simulate::{Direction, Packet, Routing, Verdict, View, walk};
use rules::{ConnState, Family, Gid, Protocol, Uid, render};
use std::net::{IpAddr, SocketAddr};

/// Packets tried in each family of each configuration.
const PACKETS: usize = 60;

fn packet(random: &mut Random, given: &Options, family: Family) -> Packet {
    let own = ["10.77.0.2", "fd77::2"][family as usize];
    let others: &[&str] = match family {
        Family::V4 => &[own, "127.0.0.1", "127.0.0.53", "10.1.2.3", "169.254.7.127", given.probe[0]],
        Family::V6 => &[own, "::1", "fd00::1", "2001:db8::1", given.probe[1]],
    };
    let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let port = |random: &mut Random| random.of(&[53, 53, 80, 443, 8080, 15001, 15006, 15008, 15053, 65535]);
    let (source, destination) = (address(random.of(others)), address(random.of(others)));
    let is_own = destination.is_loopback() || destination == address(own);
    let direction = match random.one_in(2) {
        true => Direction::Inbound {
            interface: random.of(&["eth0", "vm0", "eth1", "net-a.b", "tap_0", "br7", "br", "lo"]).to_owned(),
            local: is_own,
        },
        false => Direction::Outbound {
            interface: if is_own { "lo" } else { "eth0" }.to_owned(),
            uid: Uid::new(random.of(&[0, 1000, 1337])).expect("a user"),
            gid: Gid::new(0).expect("a group"),
        },
    };
    let state = random.of(&[ConnState::New, ConnState::New, ConnState::Established, ConnState::Invalid]);
    // Only a connection that was seen before has a mark.
    let connmark = random.of(&[0, 0, 0x111, 0xab111, 0x539]);
    let connmark = if state == ConnState::Established { connmark } else { 0 };
    Packet {
        direction,
        protocol: random.of(&[Protocol::Tcp, Protocol::Tcp, Protocol::Udp]),
        source: SocketAddr::new(source, random.of(&[40_000, 53])),
        destination: SocketAddr::new(destination, port(random)),
        mark: random.of(&[0, 0, 0x539, 0xab539, 0x111, 0xab111, 0x538]),
        connmark,
        state,
    }
}

fn compare(random: &mut Random, given: &Options, family: Family, views: &[(&str, &View)], met: &mut Ends) {
    let routing = Routing {
        local_marks: vec![mesh::ambient::defaults::CONNECTION_MARK],
        addresses: vec!["10.77.0.2".parse().expect("an address"), "fd77::2".parse().expect("an address")],
    };
    for _ in 0..PACKETS {
        let packet = packet(random, given, family);
        let end = |view: &View| {
            let outcome = walk(view, &routing, &packet, &mut ());
            (outcome.verdict, outcome.stays)
        };
        let (first, view) = views[0];
        let expected = end(view);
        assert_ne!(expected.0, Verdict::Unknown, "{first}: {packet:?} of {given:?}");
        for (name, view) in &views[1..] {
            assert_eq!(end(view), expected, "{name} beside {first}: {packet:?} of {given:?}");
        }
        met.count(expected.0);
    }
}

/// Packets by their ends: a test that meets but one end has compared nothing.
#[derive(Default)]
struct Ends([usize; 4]);

impl Ends {
    fn count(&mut self, verdict: Verdict) {
        let at = match verdict {
            Verdict::Pass => 0,
            Verdict::Redirect(ports) => match ports.first().number() {
                15001 => 1,
                15006 => 2,
                15053 => 3,
                other => panic!("nothing listens at {other}"),
            },
            Verdict::Tproxy(_) | Verdict::Drop | Verdict::Unknown => panic!("{verdict:?}"),
        };
        self.0[at] += 1;
    }

    fn are_all_met(&self) {
        let all: usize = self.0.iter().sum();
        assert!(self.0.iter().all(|count| *count > all / 200), "{:?} of {all}", self.0);
    }
}

/// Tables of so many configurations stand in the kernel at the same time, each pair under names of its own: loading and
/// reading them one by one would be mostly waiting.
const AT_ONCE: usize = 50;

/// The tables of a configuration, named by its place: the agent's as it says them, and ours.
fn tables(at: usize, given: &Options, capture: &Capture) -> String {
    let policy: &dyn CapturePolicy = &**capture;
    let mut ours = policy.desired().nft_table().expect("it captures");
    ours.name = format!("ours-{at}-");
    for_nft(given).replace("istio-ambient-", &format!("theirs-{at}-")) + &render::nft::script(&ours)
}

fn view(all: &[LiveTable], name: &str, family: Family) -> View {
    let mut view = View::empty(family);
    for table in all.iter().filter(|table| table.name.starts_with(&format!("inet {name}"))) {
        view.add_nftables(table.clone());
    }
    assert!(!view.chains().is_empty(), "no table is called {name}");
    view
}

#[test]
fn every_packet_ends_as_by_the_agents_rules_of_nf_tables() {
    let mut random = Random::new(crate::support::random::number("AMBIENT_SEED", 1) ^ 1 << 32);
    let mut met = Ends::default();
    let configurations: Vec<(Options, Capture)> = (0..crate::support::random::number("AMBIENT_PAIRS", 300))
        .map(|_| Options::random(&mut random).without_prefixes())
        .map(|given| (given.clone(), config(&given.flags())))
        .collect();
    let pod = Namespace::new();
    for some in scope::of(configurations, AT_ONCE).chunks(AT_ONCE) {
        let texts = some.iter().enumerate().map(|(at, (given, capture))| tables(at, given, capture));
        let text = format!("flush ruleset\n{}", texts.collect::<String>());
        pod.load(&text);
        for (family, all) in Family::BOTH.into_iter().zip(tables_of(&pod)) {
            for (at, (given, capture)) in some.iter().enumerate() {
                let theirs = view(&all, &format!("theirs-{at}-"), family);
                let ours = view(&all, &format!("ours-{at}-"), family);
                let made = View::of_rules(capture.rules(family).rules());
                let views = [("the agent's", &theirs), ("ours", &ours), ("ours as they were made", &made)];
                // Without IPv6 the agent still catches some of its packets. Ours catch none.
                let views = if family == Family::V4 || given.ipv6 { &views[..] } else { &views[1..] };
                compare(&mut random, given, family, views, &mut met);
            }
        }
    }
    met.are_all_met();
}
