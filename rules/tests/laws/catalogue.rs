//! The scenarios' rule sets: they parse back unchanged, the native table is equivalent to both families' lists, and sample
//! packets have the right verdicts. `UPDATE_GOLDENS=1` rewrites the files below `catalogue`.

use super::arbitrary::EVERYBODY;
use rules::{
    Checked, ConnState, Family, Gid, Mark, Ownership, Protocol, Uid,
    check::check,
    nft, parse,
    render::{iptables, nft::script},
    simulate::{Direction, Packet, Routing, Verdict, View, Work, unreached, walk},
};
use std::{
    collections::BTreeSet,
    fmt::Write,
    net::{IpAddr, SocketAddr},
    path::Path,
};
use testkit::scenarios::{self as catalogue, Case};

fn scenarios() -> Vec<Case> {
    catalogue::scenarios(|_| true)
}

fn written(scenario: &Case, family: Family) -> String {
    let file = match family {
        Family::V4 => "v4.rules",
        Family::V6 => "v6.rules",
    };
    scenario.text(file).unwrap_or_default()
}

/// Kuma marks its rules by comments with a common prefix.
fn owner(scenario: &Case) -> Ownership {
    let comment_prefix = (scenario.mesh() == Some("kuma")).then_some("kuma/mesh/transparent/proxy/");
    Ownership { comment_prefix, ..EVERYBODY }
}

fn checked(scenario: &Case, family: Family) -> Checked {
    let rules = parse::restore(&written(scenario, family), family)
        .unwrap_or_else(|error| panic!("{}: {error}", scenario.name()));
    check(rules, &owner(scenario)).unwrap_or_else(|violations| panic!("{}: {violations:?}", scenario.name()))
}

fn golden(file: &str, text: &str) {
    testkit::golden(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/catalogue").join(file), text);
}

#[test]
fn rules_read_back_to_the_letter() {
    for scenario in scenarios() {
        for family in Family::BOTH {
            let rules = checked(&scenario, family);
            assert_eq!(iptables::restore(&rules), written(&scenario, family), "{}", scenario.name());
        }
    }
}

/// Comments are specific to a rule's author.
fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split(" comment \"").next().unwrap_or_default());
    lines.map(|line| line.to_owned() + "\n").collect()
}

fn rules_of(table: &str) -> usize {
    let chains = table.split("\tchain ").skip(1).filter_map(|chain| chain.split("\n\t}").next());
    chains.flat_map(|chain| chain.lines().skip(1)).filter(|line| !line.starts_with("\t\ttype ")).count()
}

/// Compares tables literally, except tables with sets, which options may share: these only must not have more rules.
#[test]
fn the_native_table_is_that_of_the_scenario() {
    let mut compared = 0;
    for scenario in scenarios() {
        let [v4, v6] = Family::BOTH.map(|family| checked(&scenario, family));
        let expected = scenario.text("table.nft").expect("a table");
        let called = expected.split_whitespace().nth(2).unwrap_or("sidecar_init");
        let table = nft::table(called, &v4, (!v6.rules().statements.is_empty()).then_some(&v6));
        let text = table.map(|table| script(&table)).unwrap_or_default();
        assert!(rules_of(&text) <= rules_of(&expected), "{}\n{text}", scenario.name());
        if [&text, &expected].iter().all(|text| !text.contains("\tset ")) {
            assert_eq!(without_comments(&text), without_comments(&expected), "{}", scenario.name());
            compared += 1;
        }
    }
    assert!(compared > 80, "{compared}");
}

#[test]
fn rules_that_are_never_reached() {
    let mut text = String::new();
    let mut known = BTreeSet::new();
    for scenario in scenarios() {
        for family in Family::BOTH {
            let rules = checked(&scenario, family);
            for found in unreached(rules.rules(), &mut Work::new(1_000_000)) {
                let pair = [found.rule, found.by].map(iptables::statement);
                if known.insert(pair.clone()) {
                    let [rule, by] = pair;
                    writeln!(text, "{}: {rule}\n  by {by}", scenario.name()).expect("memory");
                }
            }
        }
    }
    golden("unreached.txt", &text);
}

/// Each packet's name describes its sender and content.
fn packets(family: Family) -> Vec<(&'static str, Packet)> {
    let v4 = family == Family::V4;
    let address = |v4_text: &str, v6_text: &str| -> IpAddr {
        (if v4 { v4_text } else { v6_text }).parse().expect("an address")
    };
    let (pod, loopback) = (address("10.44.0.7", "fd44::7"), address("127.0.0.1", "::1"));
    let (six, outside) = (address("127.0.0.6", "::6"), address("10.9.9.9", "fd99::9"));
    let resolver = address("10.96.0.10", "fd96::10");
    let from = |uid, gid, protocol, source: IpAddr, destination: IpAddr, port| {
        let stays = destination == pod || destination.is_loopback() || destination == six;
        Packet {
            direction: Direction::Outbound {
                interface: if stays { "lo" } else { "eth0" }.to_owned(),
                uid: Uid::new(uid).expect("valid"),
                gid: Gid::new(gid).expect("valid"),
            },
            protocol,
            source: SocketAddr::new(source, 40_000),
            destination: SocketAddr::new(destination, port),
            mark: 0,
            connmark: 0,
            state: ConnState::New,
        }
    };
    let into = |interface: &str, source: IpAddr, port| Packet {
        direction: Direction::Inbound { interface: interface.to_owned(), local: true },
        ..from(0, 0, Protocol::Tcp, source, pod, port)
    };
    use Protocol::{Tcp, Udp};
    let mut packets = vec![
        ("application to 80", from(1000, 1000, Tcp, pod, outside, 80)),
        ("application to 443", from(1000, 1000, Tcp, pod, outside, 443)),
        ("application to 3306", from(1000, 1000, Tcp, pod, outside, 3306)),
        ("application to 10.1", from(1000, 1000, Tcp, pod, address("10.1.2.3", "fd00:1::3"), 80)),
        ("application to 172.16", from(1000, 1000, Tcp, pod, address("172.16.0.9", "fd16::9"), 80)),
        ("application, UDP", from(1000, 1000, Udp, pod, outside, 443)),
        ("application, DNS", from(1000, 1000, Udp, pod, resolver, 53)),
        ("application, DNS by TCP", from(1000, 1000, Tcp, pod, resolver, 53)),
        ("application to itself", from(1000, 1000, Tcp, loopback, loopback, 8080)),
        ("application to its pod", from(1000, 1000, Tcp, pod, pod, 8080)),
        ("group 2000 to 80", from(1000, 2000, Tcp, pod, outside, 80)),
        ("user 1001 to 80", from(1001, 1001, Tcp, pod, outside, 80)),
        ("root to 80", from(0, 0, Tcp, pod, outside, 80)),
    ];
    for (proxy, uid) in [("1337", 1337), ("2102", 2102), ("5678", 5678)] {
        let called = |what: &str| -> &'static str { format!("{proxy} {what}").leak() };
        packets.push((called("to 80"), from(uid, uid, Tcp, pod, outside, 80)));
        packets.push((called("to its pod"), from(uid, uid, Tcp, pod, pod, 8080)));
        packets.push((called("from 127.0.0.6"), from(uid, uid, Tcp, six, pod, 8080)));
        packets.push((called("to itself"), from(uid, uid, Tcp, loopback, loopback, 15000)));
        packets.push((called("to 15008"), from(uid, uid, Tcp, pod, pod, 15008)));
        packets.push((called("DNS"), from(uid, uid, Udp, pod, resolver, 53)));
        packets.push((called("group to 80"), from(0, uid, Tcp, pod, outside, 80)));
    }
    for port in [80, 8080, 9090, 15008, 15020, 15090, 4143, 25] {
        packets.push((format!("inbound {port}").leak(), into("eth0", outside, port)));
    }
    packets.extend([
        ("inbound 8080, known", Packet { state: ConnState::Established, ..into("eth0", outside, 8080) }),
        ("inbound 8080, invalid", Packet { state: ConnState::Invalid, ..into("eth0", outside, 8080) }),
        ("inbound 8080, UDP", Packet { protocol: Udp, ..into("eth0", outside, 8080) }),
        ("inbound 8080 by net1", into("net1", outside, 8080)),
        ("inbound 8080, marked 1337", Packet { mark: 1337, ..into("eth0", outside, 8080) }),
        ("inbound 8080, marked 0x539", Packet { connmark: 0x539, ..into("eth0", outside, 8080) }),
        ("probe", into("eth0", address("169.254.7.127", "fd16:9254:7127:1337:ffff:ffff:ffff:ffff"), 8080)),
        ("from 127.0.0.6", into("lo", six, 8080)),
        (
            "machine to 80",
            Packet {
                direction: Direction::Inbound { interface: "vnet0".to_owned(), local: false },
                destination: SocketAddr::new(outside, 80),
                ..into("vnet0", address("10.79.0.2", "fd79::2"), 80)
            },
        ),
    ]);
    packets
}

/// Verdicts on the packets by scenario and family: `-` passes, `x` is dropped, `?` is unknown, a letter is captured, as its line
/// explains.
#[test]
fn verdicts() {
    let routing = Routing {
        local_marks: vec![Mark::whole(1337)],
        addresses: vec!["10.44.0.7".parse().expect("valid"), "fd44::7".parse().expect("valid")],
    };
    let mut text = String::new();
    for (number, (what, _)) in packets(Family::V4).iter().enumerate() {
        writeln!(text, "{:>2} {what}", number + 1).expect("memory");
    }
    for scenario in scenarios() {
        for family in Family::BOTH {
            let made = View::of_rules(checked(&scenario, family).rules());
            let listing = parse::listing(&written(&scenario, family), family).expect("a listing");
            let listed = View::of_listing(listing);
            let (mut ports, mut line) = (Vec::new(), String::new());
            for (what, packet) in packets(family) {
                let verdict = walk(&made, &routing, &packet).verdict;
                let as_listed = walk(&listed, &routing, &packet).verdict;
                assert_eq!(verdict, as_listed, "{}: {what}", scenario.name());
                line.push(match verdict {
                    Verdict::Pass => '-',
                    Verdict::Drop => 'x',
                    Verdict::Unknown => '?',
                    Verdict::Redirect(_) | Verdict::Tproxy(_) => {
                        let known = ports.iter().position(|known| *known == verdict);
                        let port = known.unwrap_or_else(|| {
                            ports.push(verdict);
                            ports.len() - 1
                        });
                        char::from(b'a' + u8::try_from(port).expect("few ports"))
                    }
                });
            }
            for (port, letter) in ports.iter().zip('a'..) {
                match port {
                    Verdict::Redirect(ports) => write!(line, " {letter}={ports}"),
                    Verdict::Tproxy(port) => write!(line, " {letter}=TPROXY {port}"),
                    _ => unreachable!("no port"),
                }
                .expect("memory");
            }
            writeln!(text, "{line} {} {family}", scenario.name()).expect("memory");
        }
    }
    golden("verdicts.txt", &text);
}
