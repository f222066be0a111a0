//! `nft` syntax: our table as a script for `nft -f`, in the spelling of the oldest supported version (1.0.6): priorities as
//! numbers, and no match that `nft` adds by itself, such as the family before an address.

use crate::nft::{
    Base, Condition, DataType, Effect, Field, InetChain, InetRule, InetTable, Interval, Intervals,
    NEVER_DAYS, Set, Test, UNTRACKED_BIT, family_number, protocol_number, state_bit,
};
use crate::{ConnState, Family, Mark, Policy, Protocol, Target, listed, net::address};
use std::fmt::{Display, Write};
use std::net::IpAddr;

pub fn script(table: &InetTable) -> String {
    let blocks: Vec<String> = table.sets.iter().map(set).chain(table.chains.iter().map(chain)).collect();
    format!("table inet {} {{\n{}}}\n", table.name, blocks.join("\n"))
}

pub fn rule(rule: &InetRule) -> String {
    let mut words = conditions(&rule.tests);
    words.push("counter".to_owned());
    words.extend(rule.report.as_ref().map(|report| target(report, None)));
    match &rule.effect {
        Effect::Target(target) => words.push(self::target(target, rule.family())),
        Effect::Jump(chain) => words.push(format!("jump {chain}")),
        Effect::Goto(chain) => words.push(format!("goto {chain}")),
        Effect::None => {}
    }
    if !rule.comment.is_empty() {
        words.push(format!("comment \"{}\"", rule.comment));
    }
    words.join(" ")
}

/// Conditions of a rule, except the ones that `nft` adds by itself.
pub fn conditions(tests: &[Test]) -> Vec<String> {
    let has = |desired: fn(Field) -> bool| tests.iter().any(|test| desired(test.condition.field));
    let has_address = has(|field| field.family().is_some());
    let has_port = has(Field::is_port);
    let named = tests.iter().find_map(named_protocol);
    // Port header in `nft`: the protocol's, or `th` for any protocol with ports.
    let header = named.map_or_else(|| "th".to_owned(), |protocol| protocol.to_string());
    let is_implied = |test: &&Test| match test.condition.field {
        Field::Family => has_address && !test.condition.negated,
        Field::Protocol => has_port && named.is_some() && named_protocol(test) == named,
        _ => false,
    };
    tests.iter().filter(|test| !is_implied(test)).map(|test| self::test(test, &header)).collect()
}

/// A condition with all its values. `header` is the port header: `tcp`, `udp`, or `th` for any.
pub fn condition(condition: &Condition, header: &str) -> String {
    test(&Test { condition: condition.clone(), set: None }, header)
}

pub fn values(condition: &Condition) -> Vec<String> {
    texts(condition.field.data_type(), &condition.values)
}

pub fn texts(kind: DataType, values: &Intervals) -> Vec<String> {
    values.ranges().iter().map(|interval| value(kind, *interval)).collect()
}

/// In `nft` syntax, if there is an equivalent.
pub fn action_text(action: &listed::Action) -> String {
    let text = match action {
        listed::Action::Target(target) => return self::target(target, None),
        listed::Action::Goto(chain) => return format!("goto {chain}"),
        listed::Action::Call { chain, returns: true } => return format!("jump {chain}"),
        listed::Action::Call { chain, returns: false } => return format!("goto {chain}"),
        listed::Action::Reject => "reject",
        listed::Action::RedirectSamePort => "redirect",
        listed::Action::Notrack => "notrack",
        listed::Action::Destination { address, ports } => {
            let port = ports.map(|ports| format!(":{}", ports.dashed())).unwrap_or_default();
            let address = address.map(|address| match (address, ports) {
                (IpAddr::V6(address), Some(_)) => format!("[{address}]"),
                (address, _) => address.to_string(),
            });
            return format!("dnat to {}{port}", address.unwrap_or_default());
        }
        listed::Action::Continue(text)
        | listed::Action::Source(text)
        | listed::Action::UnknownMark(text)
        | listed::Action::UnknownZone(text)
        | listed::Action::Unknown(text) => text,
    };
    text.to_owned()
}

fn set(set: &Set) -> String {
    let mut text = format!("\tset {} {{\n", set.name);
    line(&mut text, format_args!("type {}", set.kind.data_type.name()));
    if set.kind.has_ranges {
        line(&mut text, "flags interval");
    }
    let elements: Vec<String> =
        set.elements().into_iter().map(|interval| value(set.kind.data_type, interval)).collect();
    if set.kind.asks_for_hash() {
        line(&mut text, "flags timeout");
        line(&mut text, format_args!("size {}", elements.len()));
        line(&mut text, format_args!("gc-interval {NEVER_DAYS}d"));
    }
    line(&mut text, format_args!("elements = {{ {} }}", elements.join(", ")));
    text + "\t}\n"
}

fn chain(chain: &InetChain) -> String {
    let mut text = format!("\tchain {} {{\n", chain.name);
    if let Some(base) = chain.base {
        line(&mut text, self::base(base, Policy::Accept));
    }
    for rule in &chain.rules {
        line(&mut text, self::rule(rule));
    }
    text + "\t}\n"
}

pub fn base(Base { kind, hook, priority }: Base, policy: Policy) -> String {
    let (kind, hook) = (kind.name(), hook.name().to_ascii_lowercase());
    let policy = match policy {
        Policy::Accept => "accept",
        Policy::Drop => "drop",
    };
    format!("type {kind} hook {hook} priority {priority}; policy {policy};")
}

fn named_protocol(test: &Test) -> Option<Protocol> {
    let Test { condition: Condition { field: Field::Protocol, negated: false, values }, set: None } = test
    else {
        return None;
    };
    let single = values.single().filter(|interval| interval.is_single())?;
    protocol_of(single.first)
}

fn test(test: &Test, header: &str) -> String {
    let Condition { field, negated, values } = &test.condition;
    let right = match (&test.set, &self::values(&test.condition)[..]) {
        _ if *field == Field::ConnState => return states(*negated, values.numbers()),
        (Some(set), _) => format!("@{set}"),
        (None, [one]) => one.clone(),
        (None, several) => format!("{{ {} }}", several.join(", ")),
    };
    // A bare value after a masked field would read as a mask.
    let is_masked = matches!(field, Field::Mark(mask) | Field::Connmark(mask) if *mask != u32::MAX);
    let left = match field {
        port if port.is_port() => format!("{header} {}", port.name()),
        Field::Mark(mask) | Field::Connmark(mask) if is_masked => format!("{} & {mask:#x}", field.name()),
        _ => field.name().to_owned(),
    };
    match (negated, is_masked) {
        (true, _) => format!("{left} != {right}"),
        (false, true) => format!("{left} == {right}"),
        (false, false) => format!("{left} {right}"),
    }
}

fn value(kind: DataType, interval: Interval) -> String {
    match kind {
        DataType::InterfaceName => interface(interval),
        DataType::Family if interval.first == u128::from(family_number(Family::V4)) => "ipv4".to_owned(),
        DataType::Family => "ipv6".to_owned(),
        DataType::Address(family) => addresses(family, interval),
        DataType::Protocol if interval.is_single() => protocol(interval.first),
        DataType::Protocol
        | DataType::Port
        | DataType::Uid
        | DataType::Gid
        | DataType::ConnState
        | DataType::Mark => dashed(interval, |number| number.to_string()),
    }
}

fn states(negated: bool, bits: impl Iterator<Item = u128>) -> String {
    let name = |bit| {
        let known = ConnState::ALL.into_iter().find(|&state| u128::from(state_bit(state)) == bit);
        let untracked = (bit == u128::from(UNTRACKED_BIT)).then(|| "untracked".to_owned());
        known.map(|state| state.name().to_ascii_lowercase()).or(untracked)
    };
    let names: Vec<String> = bits.filter_map(name).collect();
    match negated {
        true => format!("ct state & ({}) == 0", names.join(" | ")),
        false => format!("ct state {}", names.join(",")),
    }
}

fn protocol_of(number: u128) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp].into_iter().find(|p| u128::from(protocol_number(*p)) == number)
}

fn protocol(number: u128) -> String {
    protocol_of(number).map_or_else(|| number.to_string(), |protocol| protocol.to_string())
}

fn interface(interval: Interval) -> String {
    let bytes = interval.first.to_be_bytes();
    let name = String::from_utf8_lossy(&bytes);
    let star = if interval.is_single() { "" } else { "*" };
    format!("\"{}{star}\"", name.trim_end_matches('\0'))
}

fn addresses(family: Family, interval: Interval) -> String {
    let write = |number: u128| address(family, number).to_string();
    match interval.prefix_length(family.bits()) {
        Some(length) if length == family.bits() => write(interval.first),
        Some(length) => format!("{}/{length}", write(interval.first)),
        None => dashed(interval, write),
    }
}

fn dashed(interval: Interval, write: impl Fn(u128) -> String) -> String {
    match interval.is_single() {
        true => write(interval.first),
        false => format!("{}-{}", write(interval.first), write(interval.last)),
    }
}

/// TPROXY may apply to one family only.
pub fn target(target: &Target, family: Option<Family>) -> String {
    match target {
        Target::Accept => "accept".to_owned(),
        Target::Drop => "drop".to_owned(),
        Target::Return => "return".to_owned(),
        Target::Jump(chain) | Target::JumpForeign(chain) => format!("jump {chain}"),
        Target::Redirect(ports) => format!("redirect to :{}", ports.dashed()),
        Target::Tproxy { port, mark } => {
            let family = match family {
                Some(Family::V4) => "ip ",
                Some(Family::V6) => "ip6 ",
                None => "",
            };
            format!("tproxy {family}to :{port} {} accept", set_mark("meta mark", *mark))
        }
        Target::SetMark(mark) => set_mark("meta mark", *mark),
        Target::SetConnmark(mark) => set_mark("ct mark", *mark),
        Target::SaveMark => "ct mark set meta mark".to_owned(),
        Target::RestoreMark => "meta mark set ct mark".to_owned(),
        Target::SetZone(zone) => format!("ct zone set {zone}"),
        Target::Nflog { group, prefix } => format!("log prefix \"{prefix}\" group {group}"),
        Target::Log { prefix, level } => format!("log prefix \"{prefix}\" level {}", level.name()),
    }
}

/// Keeps bits outside the mask; sets bits inside to the value's bits.
fn set_mark(of: &str, mark: Mark) -> String {
    match mark.is_whole() {
        true => format!("{of} set {}", mark.value),
        false => format!("{of} set {of} & {:#x} ^ {:#x}", !mark.mask, mark.value),
    }
}

fn line(text: &mut String, content: impl Display) {
    writeln!(text, "\t\t{content}").expect("writing to a string can't fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(protocols: &[(bool, Interval)], expected: &str) {
        let test = |field, (negated, values): (bool, Interval)| Test {
            condition: Condition { field, negated, values: std::iter::once(values).collect() },
            set: None,
        };
        let mut tests: Vec<Test> = protocols.iter().map(|one| test(Field::Protocol, *one)).collect();
        tests.push(test(Field::DestinationPort, (false, Interval::one(53))));
        assert_eq!(conditions(&tests).join(" "), expected);
    }

    #[test]
    fn ports_are_looked_for_in_the_header_of_the_only_protocol() {
        let (tcp, udp) = (Interval::one(6), Interval::one(17));
        check(&[], "th dport 53");
        check(&[(false, udp)], "udp dport 53");
        check(&[(true, udp)], "meta l4proto != udp th dport 53");
        check(&[(true, udp), (false, tcp)], "meta l4proto != udp tcp dport 53");
        check(&[(false, Interval::one(132))], "meta l4proto 132 th dport 53");
        check(&[(false, Interval { first: 6, last: 17 })], "meta l4proto 6-17 th dport 53");
    }

    #[test]
    fn an_address_of_ipv6_before_a_port_has_brackets() {
        for (address, port, expected) in [
            (Some("fd00::1"), Some("80"), "dnat to [fd00::1]:80"),
            (Some("fd00::1"), None, "dnat to fd00::1"),
            (Some("10.0.0.1"), Some("80"), "dnat to 10.0.0.1:80"),
            (None, Some("80"), "dnat to :80"),
        ] {
            let action = listed::Action::Destination {
                address: address.map(|address| address.parse().expect("an address")),
                ports: port.map(|port| port.parse().expect("a port")),
            };
            assert_eq!(action_text(&action), expected);
        }
    }
}
