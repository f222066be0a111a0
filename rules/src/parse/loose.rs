//! The words of a rule of another tool, read as far as they are known.
//!
//! A condition that is not known stays as text, and so does a target; what stands beside it is kept all the
//! same. Options and their meaning are those of `iptables-extensions(8)`, in the spelling of `iptables-save`.

use super::rule;
use crate::{Action, Condition, ConnState, ConnStates, Family, Listed, Match, PortRange, Protocol, Target};
use std::net::{IpAddr, SocketAddr};

/// Reads a rule. Whatever it says, something comes out.
pub(super) fn rule(words: &[String], text: String, family: Family) -> Listed {
    if let Some(rule) = rule::rule(words, family) {
        return Listed { text, ..Listed::from(&rule) };
    }
    let mut conditions = Vec::new();
    let mut module = "";
    let mut rest = groups(words);
    while let Some((group, after)) = rest.split_first() {
        match (group.option, group.values.as_slice()) {
            ("-j", [name, options @ ..]) if !group.negated => {
                let options = options.iter().copied().chain(after.iter().flat_map(Group::words));
                let action = action(name, &options.collect::<Vec<_>>());
                return Listed { text, conditions, action };
            }
            ("-g", [name]) if !group.negated => {
                let action = name.parse().map_or_else(|_| Action::Unknown((*name).to_owned()), Action::Goto);
                return Listed { text, conditions, action };
            }
            ("-m", [name]) if !group.negated => {
                module = name;
                if !TRANSPARENT.contains(name) {
                    conditions.push(Condition::Unknown(format!("-m {name}")));
                }
            }
            _ => conditions.push(condition(group, module, family)),
        }
        rest = after.to_vec();
    }
    Listed { text, conditions, action: Action::Continue(String::new()) }
}

/// Modules that ask nothing by themselves: their options do.
const TRANSPARENT: [&str; 12] = [
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "comment",
    "multiport",
    "owner",
    "conntrack",
    "state",
    "mark",
    "connmark",
    "addrtype",
];

/// An option with what follows it up to the next one.
#[derive(Clone)]
struct Group<'a> {
    negated: bool,
    option: &'a str,
    values: Vec<&'a str>,
}

impl<'a> Group<'a> {
    fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let not = self.negated.then_some("!");
        not.into_iter().chain([self.option]).chain(self.values.clone())
    }

    fn text(&self) -> String {
        self.words().collect::<Vec<_>>().join(" ")
    }
}

fn groups(words: &[String]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut negated = false;
    for word in words {
        // A comment may be any text, be it one that looks like an option.
        let in_comment = groups.last().is_some_and(|g| g.option == "--comment" && g.values.is_empty());
        match word.as_str() {
            "!" if !in_comment => negated = true,
            option if option.starts_with('-') && !in_comment => {
                groups.push(Group { negated, option, values: Vec::new() });
                negated = false;
            }
            value => match groups.last_mut() {
                Some(group) if !negated => group.values.push(value),
                // A value without an option, or an old `! value`: nothing that is known.
                _ => groups.push(Group { negated, option: value, values: Vec::new() }),
            },
        }
    }
    groups
}

fn condition(group: &Group<'_>, module: &str, family: Family) -> Condition {
    known(group, module, family).unwrap_or_else(|| Condition::Unknown(group.text()))
}

fn known(group: &Group<'_>, module: &str, family: Family) -> Option<Condition> {
    let Group { negated, option, values } = group;
    let negated = *negated;
    let [value] = values[..] else {
        return match (*option, &values[..]) {
            ("--tcp-flags", [mask, set]) if !negated => {
                Some(Condition::TcpFlags { takes_first: takes_first(mask, set), text: group.text() })
            }
            _ => None,
        };
    };
    Some(Condition::Known(match (*option, module) {
        ("-s", _) => Match::Source(rule::network(negated, value, family)?),
        ("-d", _) => Match::Destination(rule::network(negated, value, family)?),
        ("-i", _) => Match::InInterface(rule::sense(negated, value)?),
        ("-o", _) => Match::OutInterface(rule::sense(negated, value)?),
        ("-p", _) => return protocol(negated, value),
        ("--sport", "tcp" | "udp") => Match::SourcePort(rule::ports(negated, value)?),
        ("--dport", "tcp" | "udp") => Match::DestinationPort(rule::ports(negated, value)?),
        ("--dports", "multiport") => Match::DestinationPorts(rule::sense(negated, value)?),
        ("--uid-owner", "owner") => Match::UidOwner(rule::sense(negated, value)?),
        ("--gid-owner", "owner") => Match::GidOwner(rule::sense(negated, value)?),
        ("--ctstate", "conntrack") | ("--state", "state") => {
            Match::ConnState(rule::with(negated, states(value)?))
        }
        ("--mark", "mark") => Match::Mark(rule::sense(negated, value)?),
        ("--mark", "connmark") => Match::Connmark(rule::sense(negated, value)?),
        ("--comment", "comment") if !negated => return Some(Condition::Always(group.text())),
        ("--dst-type", "addrtype") if value == "LOCAL" => {
            return Some(Condition::DestinationLocal(rule::with(negated, ())));
        }
        _ => return None,
    }))
}

/// `None` for `all`, which asks nothing and is not listed either.
fn protocol(negated: bool, value: &str) -> Option<Condition> {
    let protocol = match value {
        "tcp" | "6" => Some(Protocol::Tcp),
        "udp" | "17" => Some(Protocol::Udp),
        "all" | "0" => return None,
        _ => None,
    };
    Some(Condition::Protocol(rule::with(negated, protocol)))
}

/// States of which all are known; `UNTRACKED`, `SNAT` and `DNAT` are not.
fn states(value: &str) -> Option<ConnStates> {
    let state = |name: &str| ConnState::ALL.into_iter().find(|state| state.name() == name);
    ConnStates::new(value.split(',').map(state).collect::<Option<Vec<_>>>()?)
}

/// Whether a segment with SYN alone has, of the flags in `mask`, exactly those in `set`.
fn takes_first(mask: &str, set: &str) -> bool {
    let looks = mask == "ALL" || mask.split(',').any(|flag| flag == "SYN");
    match set {
        "NONE" => !looks,
        "SYN" => looks,
        _ => false,
    }
}

fn action(name: &str, options: &[&str]) -> Action {
    let text = || [&[name], options].concat().join(" ");
    match (name, options) {
        ("REJECT", _) => Action::Reject,
        ("REDIRECT", [] | ["--random"]) => Action::RedirectSamePort,
        ("REDIRECT", ["--to-ports", ports, "--random"]) => {
            rule::redirect(ports).map_or_else(|| Action::Unknown(text()), Action::Target)
        }
        ("DNAT", ["--to-destination", to] | ["--to-destination", to, "--random" | "--persistent"]) => {
            destination(to).unwrap_or_else(|| Action::Unknown(text()))
        }
        ("SNAT" | "MASQUERADE" | "NETMAP", _) => Action::Source(text()),
        ("NOTRACK", []) | ("CT", ["--notrack"]) => Action::Notrack,
        ("CT", ["--zone" | "--helper" | "--ctevents" | "--timeout", ..]) => Action::Continue(text()),
        ("CONNMARK" | "MARK", _) => Action::Marks(text()),
        ("ACCEPT", _) => Action::Target(Target::Accept),
        (
            "AUDIT" | "CHECKSUM" | "CLASSIFY" | "CONNSECMARK" | "DSCP" | "HL" | "LOG" | "NFLOG" | "RATEEST"
            | "SECMARK" | "SET" | "TCPMSS" | "TCPOPTSTRIP" | "TOS" | "TRACE" | "TTL",
            _,
        ) => Action::Continue(text()),
        (_, options) => rule::target(name, options).map_or_else(|| Action::Unknown(text()), Action::Target),
    }
}

/// `ADDRESS`, `ADDRESS:PORTS`, `:PORTS`, or with the address in brackets. Ranges of addresses are not known.
fn destination(text: &str) -> Option<Action> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Action::Destination { address: Some(address), ports: None });
    }
    let (address, ports) = text.rsplit_once(':')?;
    let ports: PortRange = ports.parse().ok()?;
    let address = match address {
        "" => None,
        // Only the standard library's own notation has brackets where they belong.
        address => Some(format!("{address}:{}", ports.first()).parse::<SocketAddr>().ok()?.ip()),
    };
    Some(Action::Destination { address, ports: Some(ports) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sense;

    fn check(text: &str, conditions: &[Condition], action: &Action) {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let listed = rule(&words, text.to_owned(), Family::V4);
        assert_eq!((listed.conditions.as_slice(), &listed.action), (conditions, action), "{text:?}");
    }

    fn unknown(text: &str) -> Condition {
        Condition::Unknown(text.to_owned())
    }

    #[test]
    fn what_is_known_of_a_foreign_rule_is_kept_beside_what_is_not() {
        let destination = Condition::Known(Match::Destination(Sense::Is("10.0.0.0/8".parse().unwrap())));
        check(
            "-d 10.0.0.0/8 -m set --match-set block src -j DROP",
            &[destination, unknown("-m set"), unknown("--match-set block src")],
            &Action::Target(Target::Drop),
        );
        check("-p icmp -j ACCEPT", &[Condition::Protocol(Sense::Is(None))], &Action::Target(Target::Accept));
        check(
            "! -p tcp -j ACCEPT",
            &[Condition::Protocol(Sense::Not(Some(Protocol::Tcp)))],
            &Action::Target(Target::Accept),
        );
        check(
            "-m comment --comment it's -g OTHER",
            &[Condition::Always("--comment it's".to_owned())],
            &Action::Goto("OTHER".parse().unwrap()),
        );
    }

    #[test]
    fn targets_of_other_tools_are_known_as_far_as_they_can_be() {
        let to = |text: &str| destination(text);
        let both = Action::Destination {
            address: Some("127.0.0.11".parse().unwrap()),
            ports: Some("4053".parse().unwrap()),
        };
        assert_eq!(to("127.0.0.11:4053"), Some(both));
        assert_eq!(to("10.0.0.1-10.0.0.9"), None);
        assert!(to("[fd00::1]:53").is_some());
        assert!(to("fd00::1:53").is_some()); // an address
        check("-j MASQUERADE --random-fully", &[], &Action::Source("MASQUERADE --random-fully".to_owned()));
        check("-j NFQUEUE --queue-num 1", &[], &Action::Unknown("NFQUEUE --queue-num 1".to_owned()));
        check("-j CT --notrack", &[], &Action::Notrack);
        check(
            "-s 10.0.0.0/255.0.255.0 -j DROP",
            &[unknown("-s 10.0.0.0/255.0.255.0")],
            &Action::Target(Target::Drop),
        );
    }

    #[test]
    fn flags_are_asked_of_the_first_segment() {
        assert!(takes_first("FIN,SYN,RST,ACK", "SYN") && takes_first("FIN,ACK", "NONE"));
        assert!(!takes_first("FIN,SYN", "FIN,SYN") && !takes_first("SYN,RST", "NONE"));
    }
}
