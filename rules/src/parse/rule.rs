//! Parser of a rule's words: exact if the model can express the rule, otherwise with unknown conditions and targets as text.
//! Accepts our spelling and the kernel's (`--set-mark 1337`, `--set-xmark 0x539/0xffffffff`; `iptables-extensions(8)`).

use super::target;
use crate::{
    Action, Cidr, ConnState, ConnStates, Family, Foreign, ListedCondition, ListedRule, Match, Negatable,
    PortRange, Protocol, Rule,
};
use std::str::FromStr;

pub(super) struct Read {
    pub(super) line: ListedRule,
    pub(super) is_our_spelling: bool,
}

pub(super) fn read(words: &[String], text: &str, family: Family) -> Read {
    let mut reader = Reader { family, conditions: Vec::new(), module: None, is_exact: true };
    let mut options = options(words).into_iter();
    let mut action = None;
    while let Some(option) = options.next() {
        match (option.name, option.values.as_slice()) {
            ("-j", [name, values @ ..]) if !option.negated => {
                let rest = options.by_ref().flat_map(|option| option.words().collect::<Vec<_>>());
                let values: Vec<&str> = values.iter().copied().chain(rest).collect();
                let (does, is_exact) = target::action(name, &values);
                reader.is_exact &= is_exact;
                action = Some(does);
            }
            ("-g", [name]) if !option.negated => {
                let chain = name.parse().map_or_else(|_| Action::Unknown((*name).to_owned()), Action::Goto);
                action = Some(chain);
            }
            _ => reader.option(&option),
        }
    }
    reader.leave_module();
    reader.finish(words, text, action.unwrap_or_else(|| Action::Continue(String::new())))
}

struct Words<'a> {
    negated: bool,
    name: &'a str,
    values: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let not = self.negated.then_some("!");
        not.into_iter().chain([self.name]).chain(self.values.clone())
    }

    fn text(&self) -> String {
        self.words().collect::<Vec<_>>().join(" ")
    }
}

fn options(words: &[String]) -> Vec<Words<'_>> {
    let mut options: Vec<Words<'_>> = Vec::new();
    let mut negated = false;
    for word in words {
        // These are followed by free text, which may look like an option.
        let is_free = |name| matches!(name, "--comment" | "--nflog-prefix" | "--log-prefix");
        let in_text = options.last().is_some_and(|option| is_free(option.name) && option.values.is_empty());
        match word.as_str() {
            "!" if !in_text => negated = true,
            name if name.starts_with('-') && !in_text => {
                options.push(Words { negated, name, values: Vec::new() });
                negated = false;
            }
            value => match options.last_mut() {
                Some(option) if !negated => option.values.push(value),
                // A value without an option, or an old `! value`: unknown.
                _ => {
                    options.push(Words { negated, name: value, values: Vec::new() });
                    negated = false;
                }
            },
        }
    }
    options
}

struct Module<'a> {
    name: &'a str,
    place: usize,
    is_used: bool,
}

struct Reader<'a> {
    family: Family,
    conditions: Vec<ListedCondition>,
    module: Option<Module<'a>>,
    /// True if the model can express everything read so far.
    is_exact: bool,
}

impl<'a> Reader<'a> {
    fn option(&mut self, option: &Words<'a>) {
        if let ("-m", false, [name]) = (option.name, option.negated, option.values.as_slice()) {
            self.leave_module();
            self.module = Some(Module { name, place: self.conditions.len(), is_used: false });
            match *name {
                // Not conditions without options.
                "tcp" | "udp" | "icmp" | "icmp6" | "comment" | "multiport" | "owner" | "conntrack"
                | "state" | "mark" | "connmark" | "addrtype" => {}
                _ => self.conditions.push(ListedCondition::Unknown(option.text())),
            }
            return;
        }
        if !option.negated && matches!((option.name, option.values.as_slice()), ("-p", ["all" | "0"])) {
            return; // A match for every packet, which listings omit.
        }
        if self.widens(option) {
            return;
        }
        let condition = self.condition(option).unwrap_or_else(|| ListedCondition::Unknown(option.text()));
        if let Some(module) = &mut self.module {
            module.is_used |= option.name.starts_with("--");
        }
        self.conditions.push(condition);
    }

    /// True if an option changes the meaning of the condition before it: both are then kept as text only. `owner_mt` can match
    /// supplementary groups, and `addrtype_mt_v1` only the interface's addresses.
    fn widens(&mut self, option: &Words<'a>) -> bool {
        let module = self.module.as_ref().map_or("", |module| module.name);
        let before = |condition: &ListedCondition| match (condition, option.name, module) {
            (ListedCondition::Known(Match::GidOwner(group)), "--suppl-groups", "owner") => {
                Some(format!("{}--gid-owner {}", group.sign(), group.value()))
            }
            (
                ListedCondition::DestinationLocal(local),
                "--limit-iface-in" | "--limit-iface-out",
                "addrtype",
            ) => Some(format!("{}--dst-type LOCAL", local.sign())),
            _ => None,
        };
        for condition in self.conditions.iter_mut().rev() {
            if let Some(before) = before(condition) {
                *condition = ListedCondition::Unknown(format!("{before} {}", option.text()));
                return true;
            }
        }
        false
    }

    /// Records a module without options: the model can express only a protocol's own module.
    fn leave_module(&mut self) {
        let Some(Module { name, place, is_used: false }) = self.module else { return };
        let protocol = named_protocol(&self.conditions[..place]).filter(|one| one.to_string() == name);
        match protocol {
            Some(protocol) => {
                self.conditions.insert(place, ListedCondition::Known(Match::ProtocolModule(protocol)));
            }
            None => self.is_exact = false,
        }
    }

    /// True if a protocol module's options are accepted here: iptables loads that module by itself.
    fn speaks_of_ports(&self) -> bool {
        let protocol = named_protocol(&self.conditions).map(|protocol| protocol.to_string());
        let is_own = |module: &Module<'_>| protocol.as_deref() == Some(module.name) || module.is_used;
        protocol.is_some() && self.module.as_ref().is_none_or(is_own)
    }

    fn condition(&mut self, option: &Words<'_>) -> Option<ListedCondition> {
        let Words { negated, name, values } = option;
        let negated = *negated;
        let module = self.module.as_ref().map_or("", |module| module.name);
        let value = match (*name, values.as_slice()) {
            ("--tcp-flags", [mask, set]) if !negated => {
                let matches_syn = matches_syn(mask, set);
                return Some(ListedCondition::TcpFlags { matches_syn, text: option.text() });
            }
            (_, [value]) => *value,
            _ => return None,
        };
        Some(ListedCondition::Known(match (*name, module) {
            ("-s", _) => Match::Source(self.network(negated, value)?),
            ("-d", _) => Match::Destination(self.network(negated, value)?),
            ("-i", _) => Match::InInterface(negatable(negated, value)?),
            ("-o", _) => Match::OutInterface(negatable(negated, value)?),
            ("-p", _) => return protocol(negated, value),
            ("--sport", _) if self.speaks_of_ports() => Match::SourcePort(ports(negated, value)?),
            ("--dport", _) if self.speaks_of_ports() => Match::DestinationPort(ports(negated, value)?),
            ("--dports", "multiport") => Match::DestinationPorts(negatable(negated, value)?),
            ("--uid-owner", "owner") => Match::UidOwner(negatable(negated, value)?),
            ("--gid-owner", "owner") => Match::GidOwner(negatable(negated, value)?),
            ("--ctstate", "conntrack") => Match::ConnState(with(negated, states(value)?)),
            ("--state", "state") => {
                // We never write the older `state` module, so our text can't delete its rules.
                self.is_exact = false;
                Match::ConnState(with(negated, states(value)?))
            }
            ("--mark", "mark") => Match::Mark(negatable(negated, value)?),
            ("--mark", "connmark") => Match::Connmark(negatable(negated, value)?),
            ("--comment", "comment") if !negated => match value.parse() {
                Ok(comment) => Match::Comment(comment),
                Err(_) => return Some(ListedCondition::Always(option.text())),
            },
            ("--dst-type", "addrtype") if value == "LOCAL" => {
                return Some(ListedCondition::DestinationLocal(with(negated, ())));
            }
            _ => return None,
        }))
    }

    /// An address without a length is a host, as in iptables.
    fn network(&self, negated: bool, value: &str) -> Option<Negatable<Cidr>> {
        let cidr = match value.parse() {
            Ok(address) => Cidr::host(address),
            Err(_) => value.parse().ok()?,
        };
        (cidr.family() == self.family).then(|| with(negated, cidr))
    }

    fn finish(self, words: &[String], text: &str, action: Action) -> Read {
        let known = |condition: &ListedCondition| match condition {
            ListedCondition::Known(m) => Some(m.clone()),
            _ => None,
        };
        let matches: Option<Vec<Match>> = self.conditions.iter().map(known).collect();
        if let (true, Some(matches), Action::Target(target)) = (self.is_exact, matches, &action) {
            let rule = Rule { matches, target: target.clone() };
            let is_our_spelling = is_as_we_write_it(&rule, words);
            return Read { line: ListedRule::Typed(rule), is_our_spelling };
        }
        let comment = words.windows(2).find(|pair| pair[0] == "--comment").map(|pair| pair[1].clone());
        let (text, conditions) = (text.to_owned(), self.conditions);
        let foreign = Foreign { text, conditions, action, comment, is_inherited: false };
        Read { line: ListedRule::Foreign(foreign), is_our_spelling: false }
    }
}

fn named_protocol(conditions: &[ListedCondition]) -> Option<Protocol> {
    conditions.iter().find_map(|condition| match condition {
        ListedCondition::Known(Match::Protocol(protocol)) => Some(*protocol),
        _ => None,
    })
}

/// True if our spelling has the same conditions in the same order and modules, as iptables requires for deletion.
fn is_as_we_write_it(rule: &Rule, words: &[String]) -> bool {
    let modules =
        words.windows(2).filter(|pair| pair[0] == "-m" && !matches!(pair[1].as_str(), "tcp" | "udp"));
    let needed = rule.matches.iter().filter(|m| !matches!(m, Match::ProtocolModule(_)));
    let needed = needed.filter_map(Match::module);
    rule.canonical() == *rule && modules.count() == needed.count()
}

fn with<T>(negated: bool, value: T) -> Negatable<T> {
    if negated { Negatable::Not(value) } else { Negatable::Is(value) }
}

fn negatable<T: FromStr>(negated: bool, value: &str) -> Option<Negatable<T>> {
    value.parse().ok().map(|value| with(negated, value))
}

/// Ranges in matches have a colon; a dash belongs to service names.
fn ports(negated: bool, value: &str) -> Option<Negatable<PortRange>> {
    (!value.contains('-')).then(|| negatable(negated, value))?
}

/// `None` for `! all`, which no packet fulfils and iptables refuses.
fn protocol(negated: bool, value: &str) -> Option<ListedCondition> {
    let protocol = match value {
        "tcp" | "6" => Some(Protocol::Tcp),
        "udp" | "17" => Some(Protocol::Udp),
        "all" | "0" => return None,
        _ => None,
    };
    Some(match (protocol, negated) {
        (Some(protocol), false) => ListedCondition::Known(Match::Protocol(protocol)),
        (protocol, _) => ListedCondition::Protocol(with(negated, protocol)),
    })
}

/// `None` for any unknown state; `UNTRACKED`, `SNAT` and `DNAT` are unknown.
fn states(value: &str) -> Option<ConnStates> {
    let state = |name: &str| ConnState::ALL.into_iter().find(|state| state.name() == name);
    ConnStates::new(value.split(',').map(state).collect::<Option<Vec<_>>>()?)
}

/// True if a segment with SYN alone has exactly the `set` flags among the `mask` flags.
fn matches_syn(mask: &str, set: &str) -> bool {
    let looks = mask == "ALL" || mask.split(',').any(|flag| flag == "SYN");
    match set {
        "NONE" => !looks,
        "SYN" => looks,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
