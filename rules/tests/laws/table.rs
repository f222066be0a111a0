//! Our table of nf_tables as rules that a walk can follow: each rule of the table as one of iptables for every
//! combination of the values that it asks for.

use rules::{
    Chain, Cidr, ConnState, ConnStates, Family, Gid, InterfaceName, Mark, Match, Negatable, Port, PortRange,
    Position, Protocol, Rule, RuleSet, Statement, Table, Target, Uid,
    nft::{self, Action, Condition, Field, Interval, family_number, protocol_number, state_bit},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the table says about one family.
pub(super) fn unfolded(table: &nft::Table, family: Family) -> RuleSet {
    let mut rules = RuleSet::empty(family);
    for chain in &table.chains {
        let (of_table, name) = chain.name.split_once('_').expect("named after its table");
        let of_table = Table::ALL.into_iter().find(|table| table.name() == of_table).expect("a table");
        let name: Chain = name.parse().expect("a chain");
        for rule in &chain.rules {
            let Some(target) = target(&rule.action) else { continue };
            let mut combinations = vec![Vec::new()];
            for test in &rule.tests {
                let alternatives = alternatives(&test.condition, family);
                combinations = combinations
                    .iter()
                    .flat_map(|before: &Vec<Match>| {
                        alternatives.iter().map(|more| [&before[..], &more[..]].concat())
                    })
                    .collect();
            }
            rules.statements.extend(combinations.into_iter().map(|matches| Statement {
                table: of_table,
                chain: name.clone(),
                position: Position::Append,
                rule: Rule { matches, target: target.clone() },
                origin: None,
            }));
        }
    }
    rules
}

/// Lists of conditions of which a packet fulfils exactly one list if it fulfils the condition, and none if not.
fn alternatives(condition: &Condition, family: Family) -> Vec<Vec<Match>> {
    let Condition { field, negated, values } = condition;
    let of_other_family = match field {
        Field::Family => {
            let is_ours = values.numbers().any(|number| number == u128::from(family_number(family)));
            return if is_ours == *negated { Vec::new() } else { vec![Vec::new()] };
        }
        Field::Source(of) | Field::Destination(of) => *of != family,
        _ => false,
    };
    if of_other_family {
        return Vec::new();
    }
    let matches: Vec<Match> =
        values.ranges().iter().flat_map(|interval| one(*field, *negated, *interval, family)).collect();
    match negated {
        true => vec![matches],
        false => matches.into_iter().map(|m| vec![m]).collect(),
    }
}

fn one(field: Field, negated: bool, interval: Interval, family: Family) -> Vec<Match> {
    fn either<T>(negated: bool, value: T) -> Negatable<T> {
        if negated { Negatable::Not(value) } else { Negatable::Is(value) }
    }
    let port = |number: u128| Port::new(number.try_into().expect("16 bits")).expect("not 0");
    let ports =
        || either(negated, PortRange::new(port(interval.first), port(interval.last)).expect("in order"));
    let cidrs = || cidrs(interval, family).into_iter().map(|cidr| either(negated, cidr));
    let numbers = interval.first..=interval.last;
    let number = |number: u128| u32::try_from(number).expect("32 bits");
    match field {
        Field::Family => unreachable!("answered before"),
        Field::InInterface => vec![Match::InInterface(either(negated, interface(interval)))],
        Field::OutInterface => vec![Match::OutInterface(either(negated, interface(interval)))],
        Field::Source(_) => cidrs().map(Match::Source).collect(),
        Field::Destination(_) => cidrs().map(Match::Destination).collect(),
        Field::Protocol => numbers
            .map(|n| {
                [Protocol::Tcp, Protocol::Udp].into_iter().find(|p| u128::from(protocol_number(*p)) == n)
            })
            .map(|protocol| Match::Protocol(protocol.expect("one of ours")))
            .collect(),
        Field::SourcePort => vec![Match::SourcePort(ports())],
        Field::DestinationPort => vec![Match::DestinationPort(ports())],
        Field::Uid => {
            numbers.map(|n| Match::UidOwner(either(negated, Uid::new(number(n)).expect("an id")))).collect()
        }
        Field::Gid => {
            numbers.map(|n| Match::GidOwner(either(negated, Gid::new(number(n)).expect("an id")))).collect()
        }
        Field::ConnState => {
            let is = |state: &ConnState| numbers.contains(&u128::from(state_bit(*state)));
            let states = ConnStates::new(ConnState::ALL.into_iter().filter(is)).expect("a state");
            vec![Match::ConnState(either(negated, states))]
        }
        Field::Mark(mask) => {
            numbers.map(|n| Match::Mark(either(negated, Mark { value: number(n), mask }))).collect()
        }
        Field::Connmark(mask) => {
            numbers.map(|n| Match::Connmark(either(negated, Mark { value: number(n), mask }))).collect()
        }
    }
}

/// The networks that together are a range of addresses.
fn cidrs(interval: Interval, family: Family) -> Vec<Cidr> {
    let bits = family.bits();
    let mut cidrs = Vec::new();
    let mut first = interval.first;
    loop {
        let fits = |free: &u8| {
            let host = 1u128.checked_shl(u32::from(*free)).map_or(u128::MAX, |size| size - 1);
            first & host == 0 && first.checked_add(host).is_some_and(|last| last <= interval.last)
        };
        let free = (0..=bits).rev().find(fits).expect("a single address fits");
        let address: IpAddr = match family {
            Family::V4 => Ipv4Addr::from_bits(u32::try_from(first).expect("32 bits")).into(),
            Family::V6 => Ipv6Addr::from_bits(first).into(),
        };
        cidrs.push(Cidr::new(address, bits - free).expect("in bounds"));
        let last = first + 1u128.checked_shl(u32::from(free)).map_or(u128::MAX, |size| size - 1);
        if last >= interval.last {
            return cidrs;
        }
        first = last + 1;
    }
}

fn interface(interval: Interval) -> InterfaceName {
    let text: Vec<u8> = interval.first.to_be_bytes().into_iter().take_while(|byte| *byte != 0).collect();
    let text = String::from_utf8(text).expect("a name");
    let name = if interval.is_single() { text } else { format!("{text}+") };
    name.parse().expect("a name")
}

/// `None` for what only reports.
fn target(action: &Action) -> Option<Target> {
    Some(match action {
        Action::Accept => Target::Accept,
        Action::Drop => Target::Drop,
        Action::Return => Target::Return,
        Action::Jump(chain) => {
            let name = chain.split_once('_').expect("named after its table").1;
            Target::Jump(name.parse().expect("a chain"))
        }
        Action::Redirect(ports) => Target::Redirect(*ports),
        Action::Tproxy { port, mark, .. } => Target::Tproxy { port: *port, mark: *mark },
        Action::SetMark(mark) => Target::SetMark(*mark),
        Action::SaveMark => Target::SaveMark,
        Action::RestoreMark => Target::RestoreMark,
        Action::SetZone(zone) => Target::SetZone(*zone),
        Action::Report => return None,
    })
}
