//! Strategies for model values: rule sets that pass `check`, and tables shared with other programs.

use proptest::{collection::vec, option, prelude::*, sample::select, string::string_regex};
use rules::{
    Chain, Chains, Checked, Cidr, Comment, ConnState, ConnStates, Family, Gid, Hook, InterfaceName,
    ListedRule, LogLevel, LogPrefix, Mark, Match, Negatable, Ownership, PolicyRules, Port, PortRange,
    PortSet, Position, Protocol, Rule, RuleSet, State, Statement, Table, Target, Uid, UidRange, Zone,
    check::check, parse,
};
use std::fmt::Debug;
use std::net::{IpAddr, Ipv6Addr};
use std::{ops::RangeInclusive, str::FromStr};

pub(super) const OWNER: Ownership = Ownership {
    name: "the owner",
    mesh: "owner",
    chains: Chains::Prefix("ISTIO_"),
    conflicting_chains: &[],
    comment: "sidecar-init",
    comment_prefix: None,
    table: "sidecar_init",
    protocol: 137,
    policy_rules: PolicyRules::PLAIN,
    address: Some(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6)),
    predecessor: None,
    opt_out: "nothing is known",
    joined: &[],
};
pub(super) const EVERYBODY: Ownership = Ownership { chains: Chains::Prefix(""), ..OWNER };

pub(super) const OURS: &[&str] = &["ISTIO_A", "ISTIO_B", "ISTIO_C", "ISTIO_OUTPUT"];
pub(super) const ANY: &[&str] = &["ISTIO_A", "ISTIO_B", "OTHER", "other-1.x:y"];

/// Other programs' chains. If every chain is ours, `check` refuses jumps to these chains.
pub(super) const OTHERS: &[&str] = &["DOCKER_OUTPUT", "cali-OUTPUT"];

/// Other programs' rules; the last four lead to our chains, so they count as ours.
const FOREIGN: &[&str] = &[
    "-p icmp -j ACCEPT",
    "-j KUBE-SERVICES",
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP",
    "-p tcp -m tcp --dport 80 -j ACCEPT",
    "-j LOG --log-prefix \"a \\\"b\\\" c \"",
    "-m comment --comment \"cali:abc\" -j cali-PREROUTING",
    "-s 10.0.0.0/8",
    "-m set --match-set x src -j ISTIO_A",
    "-g ISTIO_B",
    "-j ISTIO_GONE",
    "-p icmp -m comment --comment sidecar-init -j RETURN",
];

pub(super) fn family() -> impl Strategy<Value = Family> {
    select(&Family::BOTH[..])
}

fn address(family: Family) -> BoxedStrategy<IpAddr> {
    match family {
        Family::V4 => any::<[u8; 4]>().prop_map(IpAddr::from).boxed(),
        Family::V6 => any::<[u16; 8]>().prop_map(IpAddr::from).boxed(),
    }
}

fn cidr(family: Family) -> impl Strategy<Value = Cidr> {
    let length = 0..=family.bits();
    (address(family), length).prop_map(|(address, length)| Cidr::new(address, length).expect("in bounds"))
}

fn port() -> impl Strategy<Value = Port> {
    (1..=u16::MAX).prop_map(|number| Port::new(number).expect("not 0"))
}

pub(super) fn range() -> impl Strategy<Value = PortRange> {
    let apart = (port(), port()).prop_map(|(a, b)| PortRange::new(a.min(b), a.max(b)).expect("in order"));
    prop_oneof![3 => port().prop_map(PortRange::from), 1 => apart]
}

fn users() -> impl Strategy<Value = UidRange> {
    let uid = || (0..u32::MAX).prop_map(|id| Uid::new(id).expect("in bounds"));
    let apart = (uid(), uid()).prop_map(|(a, b)| UidRange::new(a.min(b), a.max(b)).expect("in order"));
    prop_oneof![2 => uid().prop_map(UidRange::from), 1 => apart]
}

fn port_set() -> impl Strategy<Value = PortSet> {
    vec(range(), 1..8).prop_map(|ranges| PortSet::new(ranges).expect("at most 14 slots"))
}

fn interface() -> impl Strategy<Value = InterfaceName> {
    let names = string_regex("[A-Za-z0-9_][A-Za-z0-9_.@-]{0,13}\\+?").expect("a pattern");
    names.prop_map(|name| name.parse().expect("valid"))
}

fn comment() -> impl Strategy<Value = Comment> {
    texts(1..=Comment::LONGEST)
}

fn prefix() -> impl Strategy<Value = Comment> {
    texts(1..=Comment::LONGEST_PREFIX)
}

fn texts(length: RangeInclusive<usize>) -> impl Strategy<Value = Comment> {
    let letters = string_regex("[A-Za-z0-9 _.,:;/=+*()-]").expect("a pattern");
    vec(letters, length).prop_map(|letters| letters.concat().parse().expect("valid"))
}

fn log_prefix() -> impl Strategy<Value = LogPrefix> {
    let texts = string_regex("[A-Za-z0-9 _.,:;/=+*()-]{1,29}").expect("a pattern");
    texts.prop_map(|text| text.parse().expect("valid"))
}

fn mark() -> impl Strategy<Value = Mark> {
    let mask = prop_oneof![Just(u32::MAX), any::<u32>()];
    (any::<u32>(), mask).prop_map(|(value, mask)| Mark { value, mask })
}

fn states() -> impl Strategy<Value = ConnStates> {
    vec(select(&ConnState::ALL[..]), 1..5).prop_map(|states| ConnStates::new(states).expect("not empty"))
}

pub(super) fn negatable<T: Debug + Clone>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Negatable<T>> {
    let either = |(value, not)| if not { Negatable::Not(value) } else { Negatable::Is(value) };
    (value, prop::bool::weighted(0.3)).prop_map(either)
}

pub(super) fn parsed<T: FromStr<Err: Debug> + Debug>(
    texts: &'static [&'static str],
) -> impl Strategy<Value = T> {
    select(texts).prop_map(|text| text.parse().expect("valid"))
}

fn condition(family: Family) -> impl Strategy<Value = Match> {
    prop_oneof![
        negatable(cidr(family)).prop_map(Match::Source),
        negatable(cidr(family)).prop_map(Match::Destination),
        negatable(interface()).prop_map(Match::InInterface),
        negatable(interface()).prop_map(Match::OutInterface),
        select(&[Protocol::Tcp, Protocol::Udp][..]).prop_map(Match::Protocol),
        negatable(range()).prop_map(Match::SourcePort),
        negatable(range()).prop_map(Match::DestinationPort),
        negatable(port_set()).prop_map(Match::DestinationPorts),
        negatable(users()).prop_map(Match::UidOwner),
        negatable((0..u32::MAX).prop_map(|id| Gid::new(id).expect("in bounds"))).prop_map(Match::GidOwner),
        negatable(states()).prop_map(Match::ConnState),
        negatable(mark()).prop_map(Match::Mark),
        negatable(mark()).prop_map(Match::Connmark),
        comment().prop_map(Match::Comment),
        Just(Match::ProtocolModule(Protocol::Tcp)),
    ]
}

fn target(names: &'static [&'static str]) -> impl Strategy<Value = Target> {
    prop_oneof![
        1 => Just(Target::Accept),
        1 => Just(Target::Drop),
        1 => Just(Target::Return),
        5 => parsed(names).prop_map(Target::Jump),
        1 => parsed(OTHERS).prop_map(Target::JumpForeign),
        1 => range().prop_map(Target::Redirect),
        1 => (port(), mark()).prop_map(|(port, mark)| Target::Tproxy { port, mark }),
        1 => mark().prop_map(Target::SetMark),
        1 => Just(Target::SaveMark),
        1 => Just(Target::RestoreMark),
        1 => (1..=u16::MAX).prop_map(|zone| Target::SetZone(Zone::new(zone).expect("not 0"))),
        1 => (any::<u16>(), prefix()).prop_map(|(group, prefix)| Target::Nflog { group, prefix }),
        1 => mark().prop_map(Target::SetConnmark),
        1 => (log_prefix(), (0u32..8).prop_filter_map("a level", LogLevel::new))
            .prop_map(|(prefix, level)| Target::Log { prefix, level }),
    ]
}

fn chain(names: &'static [&'static str]) -> impl Strategy<Value = Chain> {
    prop_oneof![select(&Hook::ALL[..]).prop_map(Chain::Base), parsed(names).prop_map(Chain::User)]
}

/// Conditions for a parser that reads from left to right: the protocol before its ports, and unique conditions only once.
fn readable(matches: Vec<Match>, protocol: Protocol) -> Vec<Match> {
    let ports = |m: &Match| {
        matches!(m, Match::SourcePort(_) | Match::DestinationPort(_) | Match::DestinationPorts(_))
    };
    let repeatable = |m: &Match| {
        let owner = matches!(m, Match::UidOwner(_) | Match::GidOwner(_) | Match::ConnState(_));
        owner || matches!(m, Match::Mark(_) | Match::Connmark(_) | Match::Comment(_))
    };
    // Ports already load the protocol's own module.
    let with_ports = matches.iter().any(ports);
    let own = |m: Match| match m {
        Match::ProtocolModule(_) => (!with_ports).then_some(Match::ProtocolModule(protocol)),
        other => Some(other),
    };
    let matches: Vec<Match> = matches.into_iter().filter_map(own).collect();
    let mut kept: Vec<Match> = Vec::new();
    if matches.iter().any(|m| ports(m) || matches!(m, Match::ProtocolModule(_))) {
        kept.push(Match::Protocol(protocol));
    }
    for m in matches {
        let same = |other: &Match| std::mem::discriminant(other) == std::mem::discriminant(&m);
        if repeatable(&m) || !kept.iter().any(same) {
            kept.push(m);
        }
    }
    kept
}

fn rule(family: Family, names: &'static [&'static str]) -> impl Strategy<Value = Rule> {
    let protocol = select(&[Protocol::Tcp, Protocol::Udp][..]);
    let ours = option::of(Just(Match::Comment(OWNER.rule_comment())));
    (vec(condition(family), 0..5), protocol, ours, target(names)).prop_map(
        |(matches, protocol, ours, target)| {
            let with_ports = matches!(target, Target::Redirect(_) | Target::Tproxy { .. });
            let protocols = with_ports.then_some(Match::Protocol(protocol));
            let all = protocols.into_iter().chain(matches).chain(ours).collect();
            Rule { matches: readable(all, protocol), target }
        },
    )
}

fn statement(family: Family, names: &'static [&'static str]) -> impl Strategy<Value = Statement> {
    let position = prop_oneof![2 => Just(Position::Append), 1 => (1..4_usize).prop_map(Position::Insert)];
    (select(&Table::ALL[..]), chain(names), position, rule(family, names))
        .prop_map(|(table, chain, position, rule)| Statement { table, chain, position, rule, origin: None })
}

pub(super) fn checked_of(family: Family, names: &'static [&'static str]) -> impl Strategy<Value = Checked> {
    let owner = if names == ANY { EVERYBODY } else { OWNER };
    vec(statement(family, names), 0..24).prop_map(move |statements| lawful(family, statements, &owner))
}

pub(super) fn lawful(family: Family, mut statements: Vec<Statement>, owner: &Ownership) -> Checked {
    loop {
        match check(RuleSet { family, statements: statements.clone() }, owner) {
            Ok(checked) => return checked,
            Err(violations) => {
                let is_refused = |number| violations.iter().any(|violation| violation.number == number);
                let kept = (1..).zip(statements).filter(|(number, _)| !is_refused(*number));
                statements = kept.map(|(_, statement)| statement).collect();
            }
        }
    }
}

pub(super) fn checked(names: &'static [&'static str]) -> impl Strategy<Value = Checked> {
    family().prop_flat_map(move |family| checked_of(family, names))
}

pub(super) fn desired() -> impl Strategy<Value = State> {
    checked_of(Family::V4, OURS).prop_map(|checked| State::of(checked.rules()))
}

/// A shared state: our rules mixed with other programs' rules, and other programs' chains.
pub(super) fn live() -> impl Strategy<Value = State> {
    let hook = select(&Hook::ALL[..]);
    let strangers = vec((select(&Table::ALL[..]), hook, any::<prop::sample::Index>(), select(FOREIGN)), 0..8);
    let chains = vec((select(&Table::ALL[..]), select(&["KUBE-SEP", "DOCKER"][..]), select(FOREIGN)), 0..5);
    (desired(), strangers, chains).prop_map(|(mut state, strangers, chains)| {
        for (table, hook, index, text) in strangers.into_iter().filter(|s| s.0.hooks().contains(&s.1)) {
            let chains = state.tables.entry(table).or_default();
            let lines = chains.entry(Chain::Base(hook)).or_default();
            lines.insert(index.index(lines.len() + 1), line(text));
        }
        for (table, name, text) in chains {
            let chains = state.tables.entry(table).or_default();
            chains.entry(name.parse().expect("valid")).or_default().push(line(text));
        }
        state
    })
}

pub(super) fn line(text: &str) -> ListedRule {
    let listing = format!("*nat\n-A OUTPUT {text}\nCOMMIT\n");
    let state = parse::save(&listing, Family::V4, &OWNER).expect("a listing");
    state.lines(Table::Nat, &Chain::Base(Hook::Output))[0].clone()
}
