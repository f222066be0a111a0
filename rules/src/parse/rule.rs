//! The words of one rule, read into the model where the model can say exactly the same.
//!
//! Spellings differ between what we print and what the kernel's listing prints (`--set-mark 1337` against
//! `--set-xmark 0x539/0xffffffff`, `-p tcp --dport 80` against `-p tcp -m tcp --dport 80`); both are read.
//! Anything else, be it a module without options, makes the rule foreign rather than nearly right.

use crate::{ConnState, ConnStates, Family, Mark, Match, PortRange, Protocol, Rule, Sense, Target, Zone};
use std::str::FromStr;

/// The rule, or `None` where the model has no words for it.
pub(super) fn rule(words: &[String], family: Family) -> Option<Rule> {
    let mut words = words.iter().map(String::as_str);
    let mut matches: Vec<Match> = Vec::new();
    let mut module = "";
    let mut module_used = true;
    loop {
        let word = words.next()?;
        if word == "-j" {
            let target = target(words.next()?, &words.collect::<Vec<_>>())?;
            return module_used.then_some(Rule { matches, target });
        }
        if word == "-m" {
            if !module_used {
                return None;
            }
            (module, module_used) = (words.next()?, false);
            continue;
        }
        let (negated, option) = if word == "!" { (true, words.next()?) } else { (false, word) };
        let value = words.next()?;
        let ported = matches.iter().find_map(|m| match m {
            Match::Protocol(protocol) => Some(protocol.to_string()),
            _ => None,
        });
        let implied = ported.is_some_and(|protocol| module == protocol || module.is_empty() || module_used);
        matches.push(match option {
            "-s" => Match::Source(network(negated, value, family)?),
            "-d" => Match::Destination(network(negated, value, family)?),
            "-i" => Match::InInterface(sense(negated, value)?),
            "-o" => Match::OutInterface(sense(negated, value)?),
            "-p" if !negated => Match::Protocol(protocol(value)?),
            "--sport" if implied => Match::SourcePort(ports(negated, value)?),
            "--dport" if implied => Match::DestinationPort(ports(negated, value)?),
            "--dports" if module == "multiport" => Match::DestinationPorts(sense(negated, value)?),
            "--uid-owner" if module == "owner" => Match::UidOwner(sense(negated, value)?),
            "--gid-owner" if module == "owner" => Match::GidOwner(sense(negated, value)?),
            "--ctstate" if module == "conntrack" => Match::ConnState(with(negated, states(value)?)),
            "--mark" if module == "mark" => Match::Mark(sense(negated, value)?),
            "--mark" if module == "connmark" => Match::Connmark(sense(negated, value)?),
            "--comment" if module == "comment" && !negated => Match::Comment(value.parse().ok()?),
            _ => return None,
        });
        module_used = module_used || option.starts_with("--");
    }
}

/// Whether our spelling of the rule has the same conditions in the same order and modules. iptables finds a
/// rule to delete by nothing less.
pub(super) fn is_as_we_write_it(rule: &Rule, words: &[String]) -> bool {
    let modules =
        words.windows(2).filter(|pair| pair[0] == "-m" && !matches!(pair[1].as_str(), "tcp" | "udp"));
    let needed = rule.matches.iter().filter_map(Match::module);
    rule.canonical() == *rule && modules.count() == needed.count()
}

pub(super) fn with<T>(negated: bool, value: T) -> Sense<T> {
    if negated { Sense::Not(value) } else { Sense::Is(value) }
}

pub(super) fn sense<T: FromStr>(negated: bool, value: &str) -> Option<Sense<T>> {
    value.parse().ok().map(|value| with(negated, value))
}

/// An address without a length is a host, as iptables takes it.
pub(super) fn network(negated: bool, value: &str, family: Family) -> Option<Sense<crate::Cidr>> {
    let cidr = match value.parse() {
        Ok(address) => crate::Cidr::host(address),
        Err(_) => value.parse().ok()?,
    };
    (cidr.family() == family).then(|| with(negated, cidr))
}

/// Matches write ranges with a colon; a dash would be a service name to iptables.
pub(super) fn ports(negated: bool, value: &str) -> Option<Sense<PortRange>> {
    (!value.contains('-')).then(|| sense(negated, value))?
}

fn protocol(value: &str) -> Option<Protocol> {
    match value {
        "tcp" => Some(Protocol::Tcp),
        "udp" => Some(Protocol::Udp),
        _ => None,
    }
}

fn states(value: &str) -> Option<ConnStates> {
    let state = |name: &str| ConnState::ALL.into_iter().find(|state| state.name() == name);
    let states: Vec<ConnState> = value.split(',').map(state).collect::<Option<_>>()?;
    ConnStates::new(states)
}

pub(super) fn target(name: &str, options: &[&str]) -> Option<Target> {
    match (name, options) {
        ("ACCEPT", []) => Some(Target::Accept),
        ("DROP", []) => Some(Target::Drop),
        ("RETURN", []) => Some(Target::Return),
        ("REDIRECT", ["--to-ports", ports]) => redirect(ports),
        ("TPROXY", options) => tproxy(options),
        ("MARK", ["--set-xmark", mark]) => mark.parse().ok().map(Target::SetMark),
        ("MARK", ["--set-mark", mark]) => {
            mark.parse().ok().filter(|mark: &Mark| mark.is_whole()).map(Target::SetMark)
        }
        ("CONNMARK", [verb, masks @ ..]) if whole_masks(masks) => match *verb {
            "--save-mark" => Some(Target::SaveMark),
            "--restore-mark" => Some(Target::RestoreMark),
            _ => None,
        },
        ("CT", ["--zone", zone]) => zone.parse().ok().and_then(Zone::new).map(Target::SetZone),
        ("NFLOG", ["--nflog-prefix", prefix, "--nflog-group", group]) => {
            Some(Target::Log { group: group.parse().ok()?, prefix: prefix.parse().ok()? })
        }
        // What is left without options and in lower case or with a prefix is the name of a chain.
        (chain, []) if !BUILT_IN.contains(&chain) => chain.parse().ok().map(Target::Jump),
        _ => None,
    }
}

/// Targets of the kernel that need no options, and so could be taken for chains.
const BUILT_IN: [&str; 14] = [
    "CHECKSUM",
    "CLUSTERIP",
    "CONNMARK",
    "CT",
    "LOG",
    "MASQUERADE",
    "NETMAP",
    "NFLOG",
    "NFQUEUE",
    "NOTRACK",
    "QUEUE",
    "REDIRECT",
    "REJECT",
    "TRACE",
];

pub(super) fn redirect(ports: &str) -> Option<Target> {
    (!ports.contains(':')).then(|| ports.parse().ok().map(Target::Redirect))?
}

fn tproxy(options: &[&str]) -> Option<Target> {
    let (mut port, mut mark) = (None, Mark { value: 0, mask: 0 });
    for pair in options.chunks(2) {
        match pair {
            ["--on-port", value] => port = value.parse().ok(),
            ["--tproxy-mark", value] => mark = value.parse().ok()?,
            ["--on-ip", "0.0.0.0" | "::"] => {}
            _ => return None,
        }
    }
    port.map(|port| Target::Tproxy { port, mark })
}

fn whole_masks(masks: &[&str]) -> bool {
    masks.chunks(2).all(|pair| matches!(pair, ["--nfmask" | "--ctmask" | "--mask", "0xffffffff"]))
}
