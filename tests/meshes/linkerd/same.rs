//! Upstream's commands, run by the real programs, and ours: the same listing, letter for letter, and the same end for
//! every packet.

use crate::meshes::linkerd::upstream::{Configuration, PORTS};
use crate::meshes::linkerd::{Namespace, call, listed};
use crate::support::random::{Random, number};
use crate::support::rows::rows;
use mesh::sources::{NullHost, Raw, pflag};
use mesh::{Capture, Mesh};
use rules::simulate::{Direction, Packet, Routing, Trace, View, walk};
use rules::{ConnState, Family, Gid, Protocol, Uid, parse};
use std::net::{IpAddr, SocketAddr};

fn programs(variant: &str, v6: bool) -> Vec<(Family, String)> {
    let mut programs = vec![(Family::V4, format!("iptables-{variant}"))];
    programs.extend(v6.then(|| (Family::V6, format!("ip6tables-{variant}"))));
    programs
}

/// A namespace in which upstream's commands were run: for the family of the networks alone, where there are any, as the
/// other one's program would refuse them.
fn by_upstream(configuration: &Configuration, variant: &str) -> Namespace {
    let pod = Namespace::new();
    for (family, program) in programs(variant, configuration.v6) {
        let subnets = match (family, configuration.v6) {
            (Family::V4, true) => Vec::new(),
            _ => configuration.subnets.clone(),
        };
        let own = Configuration { subnets, ..configuration.clone() };
        let script: Vec<String> =
            own.commands().iter().map(|arguments| format!("{program} {arguments}\n")).collect();
        pod.stdout("sh", &["-ec", &script.concat()]);
    }
    pod
}

/// The policy's configuration, by its own flags.
fn capture(flags: &[String]) -> Capture {
    let taken = pflag::Flags::of(mesh::settings::of(Mesh::Linkerd));
    let mut settings = vec![(mesh::Setting::Mesh, "linkerd".to_owned())];
    settings.push((mesh::linkerd::Linkerd::ProxyUid, "-1".to_owned()));
    let mut words = flags.iter();
    while let Some(word) = words.next() {
        let given = match pflag::word(word, &taken) {
            pflag::PflagWord::Flags(given) => given,
            pflag::PflagWord::NeedsValue(mut given, row) => {
                given.push((row, words.next().expect("a value").clone()));
                given
            }
            other => panic!("{word}: {other:?}"),
        };
        for (row, value) in given {
            settings.retain(|(setting, _)| {
                *setting != row.setting || *setting != mesh::linkerd::Linkerd::ProxyUid
            });
            settings.push((row.setting, value));
        }
    }
    let raw = Raw::new(settings, |_| true, |_| None);
    mesh::resolve(&raw, &NullHost, Vec::new()).expect("valid").capture
}

fn packet(random: &mut Random, family: Family) -> Packet {
    let address = |v4: &str, v6: &str| -> IpAddr {
        let text = if family == Family::V4 { v4 } else { v6 };
        text.parse().expect("an address")
    };
    let pod = address("10.77.0.2", "fd77::2");
    let others = [
        address("10.1.2.3", "fd00::1"),
        address("172.17.9.9", "2001:db8:0:1::9"),
        address("192.0.2.7", "2001:db8::7"),
        address("198.51.100.1", "2001:db9::1"),
    ];
    let loopback = address("127.0.0.1", "::1");
    let port = match random.one_in(4) {
        true => random.of(&[2, 79, 1000, 4141, 50_000]),
        false => random.of(&PORTS),
    };
    let protocol = random.of(&[Protocol::Tcp, Protocol::Tcp, Protocol::Tcp, Protocol::Udp]);
    let packet = |direction, source, destination| Packet {
        direction,
        protocol,
        source: SocketAddr::new(source, 40_000),
        destination: SocketAddr::new(destination, port),
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    };
    if random.one_in(2) {
        let inbound = Direction::Inbound { interface: "eth0".to_owned(), local: true };
        return packet(inbound, random.of(&others), pod);
    }
    let uid = Uid::new(random.of(&[0, 1, 1000, 2102, 4_294_967_294])).expect("an id");
    let gid = Gid::new(random.of(&[0, 1, 1000, 2102])).expect("an id");
    let to = random.of(&[pod, loopback, others[0], others[3]]);
    let interface = if to == pod || to == loopback { "lo" } else { "eth0" };
    packet(Direction::Outbound { interface: interface.to_owned(), uid, gid }, pod, to)
}

/// Tries its share of the configurations.
fn check(variant: &str) {
    let seed = number("LINKERD_SEED", 1);
    let mut random = Random::new(seed ^ u64::from(variant == "nft") << 32);
    for _ in 0..number("LINKERD_PAIRS", 300) / 2 {
        let configuration = Configuration::random(&mut random);
        let flags = configuration.flags();
        let theirs = by_upstream(&configuration, variant);
        let ours = Namespace::new();
        let words: Vec<&str> = ["linkerd-init", "--iptables-mode", variant]
            .into_iter()
            .chain(flags.iter().map(String::as_str))
            .collect();
        call(Some(&ours), &words).with(0, "linkerd");
        // Over upstream's rules it finds nothing to do.
        let again = call(Some(&theirs), &words).with(0, "linkerd");
        assert!(again.stderr.contains("changed=false"), "seed {seed}: {flags:?}\n{}", again.stderr);
        let capture = capture(&flags);
        for (family, program) in programs(variant, configuration.v6) {
            let expected = listed(&theirs, &program);
            assert_eq!(sorted(&listed(&ours, &program)), sorted(&expected), "seed {seed}: {flags:?}");
            let listing = parse::listing(&format!("{}\n", expected.join("\n")), family).expect("a listing");
            let (theirs, ours) = (View::of_listing(listing), View::of_rules(capture.rules(family).rules()));
            for _ in 0..100 {
                let packet = packet(&mut random, family);
                let end =
                    |view: &View| walk(view, &Routing::default(), &packet, &mut Trace::default()).verdict;
                assert_eq!(end(&ours), end(&theirs), "seed {seed}: {packet:?}\n{}", expected.join("\n"));
            }
        }
    }
}

/// A listing with its chains by name: programs of the legacy variant list them in the order of their making. The rules of
/// each stay in their order.
fn sorted(lines: &[String]) -> Vec<String> {
    let (mut lines, chain) = (lines.to_vec(), |line: &String| {
        let mut words = line.split(' ');
        let first = words.next().unwrap_or_default().to_owned();
        match first.as_str() {
            "-A" => (1, words.next().unwrap_or_default().to_owned()),
            "COMMIT" => (2, String::new()),
            _ => (0, first),
        }
    });
    lines.sort_by_key(chain);
    lines
}

rows! {
    legacy_rules_are_upstreams_letter_for_letter: check("legacy");
    nft_rules_are_upstreams_letter_for_letter: check("nft");
}

#[test]
fn without_a_mode_it_is_legacy_unless_the_rules_are_elsewhere_already() {
    let pod = Namespace::new();
    let has_rules = |variant: &str| {
        let lines = listed(&pod, &format!("iptables-{variant}"));
        lines.iter().any(|line| line.starts_with("-A PROXY_INIT_REDIRECT"))
    };
    let words = ["linkerd-init", "-p", "4143", "-o", "4140", "-u", "2102"];
    call(Some(&pod), &words).with(0, "linkerd");
    assert_eq!((has_rules("legacy"), has_rules("nft")), (true, false));
    call(Some(&pod), &[&words[..], &["--iptables-mode=nft"]].concat()).with(0, "linkerd");
    assert_eq!((has_rules("legacy"), has_rules("nft")), (false, true));
    let again = call(Some(&pod), &words).with(0, "linkerd");
    assert_eq!((has_rules("legacy"), has_rules("nft")), (false, true), "{}", again.stderr);
}
