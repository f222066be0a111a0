//! Strategies for values from a small range, so that rules meet each other and packets meet rules.

use super::arbitrary::{EVERYBODY, negatable, parsed};
use proptest::{collection::vec, option, prelude::*, sample::select};
use rules::{
    Chain, ConnState, ConnStates, Gid, LogLevel, Mark, Match, PortRange, PortSet, Position, Protocol, Rule,
    Statement, Table, Target, Uid, UidRange, Zone,
    simulate::{Direction, Packet, Routing},
};
use std::net::{IpAddr, SocketAddr};

const ADDRESSES: [&str; 5] = ["10.0.0.1", "10.0.0.2", "10.0.1.1", "10.1.0.1", "127.0.0.1"];
const NETWORKS: [&str; 6] =
    ["10.0.0.1/32", "10.0.0.0/31", "10.0.0.0/24", "10.0.0.0/16", "10.0.0.0/8", "0.0.0.0/0"];
const INTERFACES: [&str; 4] = ["lo", "eth0", "eth1", "eth+"];
const CHAINS: [&str; 4] = ["A", "B", "C", "D"];

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
        2 => negatable(parsed::<UidRange>(&["0", "1", "2", "0-1", "1-2"])).prop_map(Match::UidOwner),
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
        2 => mark().prop_map(Target::SetConnmark),
        2 => Just(Target::SaveMark),
        2 => Just(Target::RestoreMark),
        1 => (1..3u16).prop_map(|zone| Target::SetZone(Zone::new(zone).expect("not 0"))),
        1 => parsed(&["seen:", "seen "]).prop_map(|prefix| Target::Log { prefix, level: LogLevel::DEBUG }),
    ]
}

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
        1 => mark().prop_map(Target::SetConnmark),
        1 => toggled.prop_map(Target::SetMark),
        1 => Just(Target::SaveMark),
        1 => Just(Target::RestoreMark),
        2 => parsed(&CHAINS).prop_map(Target::Jump),
    ];
    (vec(condition, 1..3), Just(Some(Protocol::Tcp)), target).prop_map(rule_of)
}

pub(super) fn statement() -> impl Strategy<Value = Statement> {
    let table = prop_oneof![
        1 => Just(Table::Raw), 5 => Just(Table::Mangle), 3 => Just(Table::Nat), 1 => Just(Table::Filter),
    ];
    let base = select(&["OUTPUT", "PREROUTING", "INPUT", "FORWARD", "POSTROUTING"][..]);
    let chain = prop_oneof![1 => select(&["OUTPUT", "PREROUTING"][..]), 1 => base, 1 => select(&CHAINS[..])];
    (table, chain, rule()).prop_map(put)
}

pub(super) fn mark_statement() -> impl Strategy<Value = Statement> {
    let chain = prop_oneof![3 => Just("OUTPUT"), 1 => Just("A"), 1 => Just("B")];
    (Just(Table::Mangle), chain, mark_rule()).prop_map(put)
}

fn put((table, chain, rule): (Table, &str, Rule)) -> Statement {
    let chain: Chain = chain.parse().expect("a chain");
    Statement { table, chain, position: Position::Append, rule, origin: None }
}

pub(super) fn packet() -> impl Strategy<Value = Packet> {
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

pub(super) fn routing() -> Routing {
    Routing { local_marks: vec![Mark::whole(1)], addresses: vec!["10.0.0.1".parse().expect("valid")] }
}
