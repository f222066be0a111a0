//! A packet ends the same way whoever holds the rules: as they were made, as the table of nf_tables that is made of
//! them, and as a listing that is written and read back.

use super::arbitrary::{EVERYBODY, lawful};
use super::{listing, table::unfolded};
use proptest::{collection::vec, option, prelude::*, sample::select, test_runner::TestCaseResult};
use rules::{
    Chain, Checked, ConnState, ConnStates, Family, Gid, Mark, Match, Negatable, PortRange, PortSet, Position,
    Protocol, Rule, RuleSet, State, Statement, Table, Target, Uid, Zone,
    check::check,
    nft, parse,
    shadow::{Work, shadowed},
    simulate::{Direction, Packet, Routing, Verdict, View, walk},
};
use std::net::{IpAddr, SocketAddr};

const ADDRESSES: [&str; 5] = ["10.0.0.1", "10.0.0.2", "10.0.1.1", "10.1.0.1", "127.0.0.1"];
const NETWORKS: [&str; 6] =
    ["10.0.0.1/32", "10.0.0.0/31", "10.0.0.0/24", "10.0.0.0/16", "10.0.0.0/8", "0.0.0.0/0"];
const INTERFACES: [&str; 4] = ["lo", "eth0", "eth1", "eth+"];
const CHAINS: [&str; 4] = ["A", "B", "C", "D"];

fn negatable<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Negatable<T>> {
    let either = |(value, not)| if not { Negatable::Not(value) } else { Negatable::Is(value) };
    (value, prop::bool::weighted(0.3)).prop_map(either)
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug>(
    texts: &'static [&'static str],
) -> impl Strategy<Value = T> {
    select(texts).prop_map(|text| text.parse().expect("valid"))
}

fn range() -> impl Strategy<Value = PortRange> {
    parsed(&["1", "2", "3", "1-2", "2-4"])
}

fn mark() -> impl Strategy<Value = Mark> {
    let mask = prop_oneof![4 => Just(u32::MAX), 1 => Just(1u32), 1 => Just(2u32), 1 => Just(0u32)];
    (0u32..4, mask).prop_map(|(value, mask)| Mark { value, mask })
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![3 => Just(Protocol::Tcp), 1 => Just(Protocol::Udp)]
}

fn condition() -> impl Strategy<Value = Match> {
    let states = vec(select(&ConnState::ALL[..]), 1..3);
    prop_oneof![
        1 => negatable(parsed(&NETWORKS)).prop_map(Match::Source),
        2 => negatable(parsed(&NETWORKS)).prop_map(Match::Destination),
        1 => negatable(parsed(&INTERFACES)).prop_map(Match::InInterface),
        1 => negatable(parsed(&INTERFACES)).prop_map(Match::OutInterface),
        1 => protocol().prop_map(Match::Protocol),
        1 => negatable(range()).prop_map(Match::SourcePort),
        2 => negatable(range()).prop_map(Match::DestinationPort),
        1 => negatable(parsed::<PortSet>(&["1,3", "2-3", "4"])).prop_map(Match::DestinationPorts),
        1 => negatable((0..3u32).prop_map(|id| Uid::new(id).expect("an id"))).prop_map(Match::UidOwner),
        1 => negatable((0..3u32).prop_map(|id| Gid::new(id).expect("an id"))).prop_map(Match::GidOwner),
        1 => negatable(states.prop_map(|s| ConnStates::new(s).expect("a state"))).prop_map(Match::ConnState),
        5 => negatable(mark()).prop_map(Match::Mark),
        3 => negatable(mark()).prop_map(Match::Connmark),
    ]
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        3 => Just(Target::Accept),
        4 => Just(Target::Drop),
        4 => Just(Target::Return),
        5 => parsed(&CHAINS).prop_map(Target::Jump),
        3 => range().prop_map(Target::Redirect),
        2 => (range(), mark()).prop_map(|(range, mark)| Target::Tproxy { port: range.first(), mark }),
        5 => mark().prop_map(Target::SetMark),
        2 => Just(Target::SaveMark),
        2 => Just(Target::RestoreMark),
        1 => (1..3u16).prop_map(|zone| Target::SetZone(Zone::new(zone).expect("not 0"))),
    ]
}

/// The rule of these parts, its conditions in the order in which iptables takes them.
fn rule_of((mut matches, protocol, target): (Vec<Match>, Option<Protocol>, Target)) -> Rule {
    matches.extend(protocol.map(Match::Protocol));
    matches.push(Match::Comment(EVERYBODY.rule_comment()));
    matches.sort();
    matches.dedup_by(|a, b| a.module().is_none() && std::mem::discriminant(a) == std::mem::discriminant(b));
    Rule { matches, target }
}

fn rule() -> impl Strategy<Value = Rule> {
    (vec(condition(), 0..4), option::of(protocol()), target()).prop_map(rule_of)
}

/// A rule about marks, of so few kinds that rules meet.
fn mark_rule() -> impl Strategy<Value = Rule> {
    let mark = || (0u32..2).prop_map(Mark::whole);
    let condition = prop_oneof![
        4 => negatable(mark()).prop_map(Match::Mark),
        1 => negatable(mark()).prop_map(Match::Connmark),
        2 => negatable(parsed(&["1", "2"])).prop_map(Match::DestinationPort),
    ];
    let toggled = (0u32..2).prop_map(|value| Mark { value, mask: 0 });
    let target = prop_oneof![
        3 => Just(Target::Drop),
        2 => Just(Target::Return),
        3 => mark().prop_map(Target::SetMark),
        1 => toggled.prop_map(Target::SetMark),
        1 => Just(Target::SaveMark),
        1 => Just(Target::RestoreMark),
        2 => parsed(&CHAINS).prop_map(Target::Jump),
    ];
    (vec(condition, 1..3), Just(Some(Protocol::Tcp)), target).prop_map(rule_of)
}

fn statement() -> impl Strategy<Value = Statement> {
    let table = prop_oneof![
        1 => Just(Table::Raw), 5 => Just(Table::Mangle), 3 => Just(Table::Nat), 1 => Just(Table::Filter),
    ];
    let base = select(&["OUTPUT", "PREROUTING", "INPUT", "FORWARD", "POSTROUTING"][..]);
    let chain = prop_oneof![1 => select(&["OUTPUT", "PREROUTING"][..]), 1 => base, 1 => select(&CHAINS[..])];
    (table, chain, rule()).prop_map(put)
}

fn mark_statement() -> impl Strategy<Value = Statement> {
    let chain = prop_oneof![3 => Just("OUTPUT"), 1 => Just("A"), 1 => Just("B")];
    (Just(Table::Mangle), chain, mark_rule()).prop_map(put)
}

fn put((table, chain, rule): (Table, &str, Rule)) -> Statement {
    let chain: Chain = chain.parse().expect("a chain");
    Statement { table, chain, position: Position::Append, rule, origin: None }
}

fn packet() -> impl Strategy<Value = Packet> {
    let id = 0..3u32;
    let outbound = (select(&["lo", "eth0", "eth1"][..]), id.clone(), id).prop_map(|(interface, uid, gid)| {
        Direction::Outbound {
            interface: interface.to_owned(),
            uid: Uid::new(uid).expect("an id"),
            gid: Gid::new(gid).expect("an id"),
        }
    });
    let inbound = (select(&["eth0", "eth1"][..]), any::<bool>())
        .prop_map(|(interface, local)| Direction::Inbound { interface: interface.to_owned(), local });
    let end =
        || (parsed::<IpAddr>(&ADDRESSES), 1..5u16).prop_map(|(address, port)| SocketAddr::new(address, port));
    let state = prop_oneof![2 => Just(ConnState::New), 1 => select(&ConnState::ALL[..])];
    (prop_oneof![outbound, inbound], protocol(), end(), end(), 0..4u32, 0..4u32, state).prop_map(
        |(direction, protocol, source, destination, mark, connmark, state)| Packet {
            direction,
            protocol,
            source,
            destination,
            mark,
            connmark,
            state,
        },
    )
}

fn routing() -> Routing {
    Routing { local_marks: vec![Mark::whole(1)], addresses: vec!["10.0.0.1".parse().expect("valid")] }
}

/// The three holders of the rules, and the rules without those that nothing is said to reach.
fn views(rules: &Checked, v6: Option<&Checked>) -> [View; 4] {
    let family = rules.rules().family;
    let table = nft::table("t", rules, v6).map(|table| unfolded(&table, family));
    let mut work = Work::new(1_000_000);
    let idle: Vec<&Statement> = shadowed(rules.rules(), &mut work).iter().map(|found| found.rule).collect();
    let mut reached = rules.rules().clone();
    // By their places: an equal rule may be reached elsewhere.
    reached.statements = rules
        .rules()
        .statements
        .iter()
        .filter(|statement| !idle.iter().any(|idle| std::ptr::eq(*idle, *statement)))
        .cloned()
        .collect();
    let listed = listing(&State::of(rules.rules()));
    [
        View::of_rules(rules.rules()),
        View::of_rules(&table.unwrap_or(RuleSet::empty(family))),
        View::of_listing(parse::listing(&listed, family).expect("a listing")),
        View::of_rules(&reached),
    ]
}

fn check_verdicts(rules: &Checked, v6: Option<&Checked>, packets: &[Packet]) -> TestCaseResult {
    let [made, table, listed, reached] = views(rules, v6);
    for packet in packets {
        let end = |view: &View| walk(view, &routing(), packet, &mut ()).verdict;
        let expected = end(&made);
        prop_assert_eq!(end(&listed), expected, "listed: {:?}", packet);
        // What is not known of a packet may not matter any more in fewer rules.
        for shorter in [&table, &reached].map(end) {
            let same = expected == Verdict::Unknown || shorter == expected;
            prop_assert!(same, "{:?} became {:?}: {:?}", expected, shorter, packet);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_verdict_is_the_same_of_rules_table_and_listing(
        statements in prop_oneof![vec(statement(), 1..24), vec(mark_statement(), 6..24)],
        v6 in option::of(vec(any::<bool>(), 24)),
        packets in vec(packet(), 40),
    ) {
        // Of the other family some rules that are the same, so that the two have rules in common.
        let v6 = v6.map(|kept| {
            let kept = statements.iter().zip(kept).filter(|(_, kept)| *kept).map(|(statement, _)| statement);
            lawful(Family::V6, kept.cloned().collect(), &EVERYBODY)
        });
        check_verdicts(&lawful(Family::V4, statements, &EVERYBODY), v6.as_ref(), &packets)?;
    }
}

/// What becomes of a packet that a process sends, with these rules in `mangle` OUTPUT, in each of the three.
fn check_sent(rules: &str, expected: Verdict) {
    check_sent_as(ConnState::New, rules, expected);
}

fn check_sent_as(state: ConnState, rules: &str, expected: Verdict) {
    let text = format!("*mangle\n{rules}COMMIT\n");
    let rules = check(parse::restore(&text, Family::V4).expect("rules"), &EVERYBODY).expect("lawful");
    let (uid, gid) = (Uid::new(1).expect("an id"), Gid::new(1).expect("an id"));
    let packet = Packet {
        direction: Direction::Outbound { interface: "eth0".to_owned(), uid, gid },
        protocol: Protocol::Tcp,
        source: "10.0.0.1:1".parse().expect("valid"),
        destination: "10.0.1.1:1".parse().expect("valid"),
        mark: 0,
        connmark: 0,
        state,
    };
    for view in views(&rules, None) {
        assert_eq!(walk(&view, &routing(), &packet, &mut ()).verdict, expected, "{text}");
    }
}

#[test]
fn a_rule_behind_one_that_sets_its_mark_is_kept() {
    check_sent(
        "-A A -m mark --mark 2 -j RETURN\n-A A -j MARK --set-mark 2\n-A A -m mark --mark 2 -j DROP\n\
         -A OUTPUT -j A\n",
        Verdict::Drop,
    );
}

#[test]
fn a_rule_behind_a_chain_that_sets_its_mark_is_kept() {
    check_sent(
        "-A B -j MARK --set-mark 2\n-A C -j B\n-A A -m mark --mark 2 -j RETURN\n-A A -j C\n\
         -A A -m mark --mark 2 -j DROP\n-A OUTPUT -j A\n",
        Verdict::Drop,
    );
}

#[test]
fn rules_do_not_move_before_one_that_makes_them_hold() {
    check_sent(
        "-A A -p tcp --dport 9 -m mark --mark 2 -j DROP\n-A A -m mark --mark 0 -j MARK --set-mark 2\n\
         -A A -p tcp --dport 1 -m mark --mark 2 -j DROP\n-A OUTPUT -j A\n",
        Verdict::Drop,
    );
}

#[test]
fn bits_are_toggled_as_often_as_rules_say() {
    check_sent(
        "-A A -p tcp --dport 1:2 -j MARK --set-xmark 2/0\n-A A -p tcp --dport 1 -j MARK --set-xmark 2/0\n\
         -A A -m mark --mark 2 -j DROP\n-A OUTPUT -j A\n",
        Verdict::Pass,
    );
}

#[test]
fn a_packet_without_a_connection_has_neither_a_mark_of_it_nor_another() {
    check_sent_as(
        ConnState::Invalid,
        "-A A -m connmark --mark 1 -j RETURN\n-A A -m connmark ! --mark 1 -j RETURN\n-A A -j DROP\n\
         -A OUTPUT -j A\n",
        Verdict::Drop,
    );
}

#[test]
fn an_address_that_is_not_known_lies_in_the_network_of_all() {
    // The redirect leaves open which of the machine's addresses it is.
    let text = "*nat\n-A PREROUTING -p tcp -j R\n-A R -p tcp -j REDIRECT --to-ports 2\nCOMMIT\n\
                *mangle\n-A INPUT -j A\n-A A -d 0.0.0.0/0 -j DROP\nCOMMIT\n";
    let rules = check(parse::restore(text, Family::V4).expect("rules"), &EVERYBODY).expect("lawful");
    let packet = Packet {
        direction: Direction::Inbound { interface: "eth0".to_owned(), local: true },
        protocol: Protocol::Tcp,
        source: "10.0.1.1:1".parse().expect("valid"),
        destination: "10.0.0.1:1".parse().expect("valid"),
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    };
    for view in views(&rules, None) {
        assert_eq!(walk(&view, &routing(), &packet, &mut ()).verdict, Verdict::Drop);
    }
}
