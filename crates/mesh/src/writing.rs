//! Writing of a policy's rules: short words for chains, matches and targets, and the writer that keeps them in order.

use crate::facts::{PASSTHROUGH_V4, PASSTHROUGH_V6, loopback};
use crate::reason::Cause;
use rules::{
    Action, Chain, ChainName, Cidr, Comment, ConnState, ConnStates, Family, Gid, Hook, InterfaceName,
    ListedCondition, Mark, Match, Negatable, Ownership, Port, PortRange, PortSet, Position, Protocol, Rule,
    RuleSet, Statement, Table, Target, UidRange,
};
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
pub(crate) enum ChainPlace {
    Base(Hook),
    Own(&'static str),
}

pub(crate) const PREROUTING: ChainPlace = ChainPlace::Base(Hook::Prerouting);
pub(crate) const OUTPUT: ChainPlace = ChainPlace::Base(Hook::Output);

pub(crate) const fn own(name: &'static str) -> ChainPlace {
    ChainPlace::Own(name)
}

impl From<ChainPlace> for Chain {
    fn from(place: ChainPlace) -> Self {
        match place {
            ChainPlace::Base(hook) => Self::Base(hook),
            ChainPlace::Own(name) => Self::User(chain(name)),
        }
    }
}

fn chain(name: &'static str) -> ChainName {
    name.parse().expect("names in the policy are valid")
}

#[derive(Clone, Copy)]
pub(crate) enum Comments {
    /// Rules in base chains that nothing else identifies, after the conditions.
    Last,
    /// The same, before the conditions.
    First,
    /// Every rule, before the conditions: its purpose.
    OfEach(fn(Cause) -> Comment),
}

pub(crate) struct RuleWriter<'a, C> {
    pub(crate) config: &'a C,
    rules: RuleSet,
    inserted: BTreeMap<(Table, Chain), usize>,
    /// Recognizes our rules; one in a base chain that it would not recognize gets a comment.
    owner: &'static Ownership,
    comments: Comments,
    /// The NFLOG group to which each rule reports its hits, if it does.
    log_group: Option<u16>,
}

impl<'a, C> RuleWriter<'a, C> {
    pub(crate) fn new(
        config: &'a C,
        family: Family,
        owner: &'static Ownership,
        comments: Comments,
        log_group: Option<u16>,
    ) -> Self {
        Self { config, rules: RuleSet::empty(family), inserted: BTreeMap::new(), owner, comments, log_group }
    }

    pub(crate) fn finish(self) -> RuleSet {
        self.rules
    }

    pub(crate) fn family(&self) -> Family {
        self.rules.family
    }

    /// The source of what the proxy hands to the application: 127.0.0.6, or `::6`.
    pub(crate) fn passthrough(&self) -> Cidr {
        Cidr::host(match self.family() {
            Family::V4 => PASSTHROUGH_V4.into(),
            Family::V6 => PASSTHROUGH_V6.into(),
        })
    }

    pub(crate) fn localhost(&self) -> Cidr {
        Cidr::host(loopback(self.family()))
    }

    pub(crate) fn own_family(&self, cidrs: &[Cidr]) -> Vec<Cidr> {
        cidrs.iter().copied().filter(|cidr| cidr.family() == self.family()).collect()
    }

    pub(crate) fn append(
        &mut self,
        table: Table,
        place: ChainPlace,
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        cause: impl Into<Cause>,
    ) {
        let (rule, cause) = (Rule::new(matches, target), cause.into());
        if let Some(group) = self.log_group {
            self.put(table, place, Position::Append, log(&rule, group, cause), cause);
        }
        self.put(table, place, Position::Append, rule, cause);
    }

    /// Inserts a rule as the chain's rule `number`, counting only rules of the policy.
    pub(crate) fn insert(
        &mut self,
        table: Table,
        place: ChainPlace,
        number: usize,
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        cause: impl Into<Cause>,
    ) {
        let (rule, cause) = (Rule::new(matches, target), cause.into());
        if let Some(group) = self.log_group {
            // Every rule of the chain has a log rule before it, so places count double.
            self.put(table, place, Position::Insert(2 * number - 1), log(&rule, group, cause), cause);
            self.put(table, place, Position::Insert(2 * number), rule, cause);
        } else {
            self.put(table, place, Position::Insert(number), rule, cause);
        }
    }

    pub(crate) fn insert_next(
        &mut self,
        table: Table,
        place: ChainPlace,
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        cause: impl Into<Cause>,
    ) {
        let before = self.inserted.get(&(table, place.into())).copied().unwrap_or_default();
        // A rule with its log rule is two statements.
        let of_each = if self.log_group.is_some() { 2 } else { 1 };
        self.insert(table, place, before / of_each + 1, matches, target, cause);
    }

    fn put(&mut self, table: Table, place: ChainPlace, position: Position, mut rule: Rule, cause: Cause) {
        let chain = Chain::from(place);
        let conditions: Vec<ListedCondition> =
            rule.matches.iter().cloned().map(ListedCondition::Known).collect();
        let is_base = matches!(chain, Chain::Base(_));
        let origin = cause.origin(is_base, &conditions, &Action::Target(rule.target.clone()));
        let needs_owner = is_base && !self.owner.owns_rule(&rule);
        let owner = needs_owner.then(|| Match::Comment(self.owner.rule_comment()));
        match self.comments {
            Comments::Last => rule.matches.extend(owner),
            Comments::First => drop(rule.matches.splice(..0, owner)),
            Comments::OfEach(comment) => rule.matches.insert(0, Match::Comment(comment(cause))),
        }
        if matches!(position, Position::Insert(_)) {
            *self.inserted.entry((table, chain.clone())).or_default() += 1;
        }
        self.rules.statements.push(Statement { table, chain, position, rule, origin: Some(origin) });
    }
}

fn log(rule: &Rule, group: u16, cause: Cause) -> Rule {
    let prefix = cause.reason.name().parse().expect("names of rules are valid comments");
    Rule { matches: rule.matches.clone(), target: Target::Nflog { group, prefix } }
}

pub(crate) fn jump(place: ChainPlace) -> Target {
    match place {
        ChainPlace::Own(name) => Target::Jump(chain(name)),
        ChainPlace::Base(_) => unreachable!("base chains are not jumped to"),
    }
}

pub(crate) fn tcp() -> Match {
    Match::Protocol(Protocol::Tcp)
}

pub(crate) fn udp() -> Match {
    Match::Protocol(Protocol::Udp)
}

/// `-m tcp` without an option, after [`tcp()`].
pub(crate) fn tcp_module() -> Match {
    Match::ProtocolModule(Protocol::Tcp)
}

pub(crate) fn from_interface(name: &InterfaceName) -> Match {
    Match::InInterface(Negatable::Is(name.clone()))
}

pub(crate) fn to_interface(name: &InterfaceName) -> Match {
    Match::OutInterface(Negatable::Is(name.clone()))
}

pub(crate) fn from_loopback() -> Match {
    from_interface(&InterfaceName::loopback())
}

pub(crate) fn to_loopback() -> Match {
    to_interface(&InterfaceName::loopback())
}

pub(crate) fn from(cidr: Cidr) -> Match {
    Match::Source(Negatable::Is(cidr))
}

pub(crate) fn to(cidr: Cidr) -> Match {
    Match::Destination(Negatable::Is(cidr))
}

pub(crate) fn not_to(cidr: Cidr) -> Match {
    Match::Destination(Negatable::Not(cidr))
}

pub(crate) fn port(ports: impl Into<PortRange>) -> Match {
    Match::DestinationPort(Negatable::Is(ports.into()))
}

pub(crate) fn not_port(port: Port) -> Match {
    Match::DestinationPort(Negatable::Not(port.into()))
}

pub(crate) fn from_port(port: Port) -> Match {
    Match::SourcePort(Negatable::Is(port.into()))
}

pub(crate) fn any_of(ports: PortSet) -> Match {
    Match::DestinationPorts(Negatable::Is(ports))
}

pub(crate) fn mark(mark: Mark) -> Match {
    Match::Mark(Negatable::Is(mark))
}

pub(crate) fn not_mark(mark: Mark) -> Match {
    Match::Mark(Negatable::Not(mark))
}

pub(crate) fn connmark(mark: Mark) -> Match {
    Match::Connmark(Negatable::Is(mark))
}

pub(crate) fn state<const N: usize>(states: [ConnState; N]) -> Match {
    Match::ConnState(Negatable::Is(ConnStates::new(states).expect("at least one state")))
}

pub(crate) fn user(users: impl Into<UidRange>) -> Match {
    Match::UidOwner(Negatable::Is(users.into()))
}

pub(crate) fn not_user(users: impl Into<UidRange>) -> Match {
    Match::UidOwner(Negatable::Not(users.into()))
}

pub(crate) fn group(gid: Gid) -> Match {
    Match::GidOwner(Negatable::Is(gid))
}

pub(crate) fn not_group(gid: Gid) -> Match {
    Match::GidOwner(Negatable::Not(gid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuleReason;
    use rules::check::check;
    use rules::render::iptables::restore;

    fn lines(write: impl Fn(&mut RuleWriter<'_, ()>)) -> Vec<String> {
        let mut writer = RuleWriter::new(&(), Family::V4, &crate::istio::OWNERSHIP, Comments::Last, Some(7));
        write(&mut writer);
        let rules = check(writer.finish(), &crate::istio::OWNERSHIP).expect("good rules");
        let listing = restore(&rules);
        listing
            .lines()
            .filter(|line| line.starts_with("-I") || line.starts_with("-A"))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn a_rule_is_inserted_behind_those_before_it_and_their_reports() {
        let cause = Cause { reason: RuleReason::named("inbound-port").expect("a reason"), setting: None };
        let write = |writer: &mut RuleWriter<'_, ()>| {
            for name in ["a0", "a1", "a2"] {
                let from = from_interface(&name.parse().expect("a name"));
                writer.insert_next(Table::Nat, PREROUTING, [from], Target::Return, cause);
            }
            writer.insert_next(Table::Nat, OUTPUT, [], Target::Return, cause);
        };
        let ours = "-m comment --comment \"sidecar-init\"";
        let report = "-j NFLOG --nflog-prefix \"inbound-port\" --nflog-group 7";
        assert_eq!(
            lines(write),
            [
                format!("-I PREROUTING 1 -i a0 {ours} {report}"),
                format!("-I PREROUTING 2 -i a0 {ours} -j RETURN"),
                format!("-I PREROUTING 3 -i a1 {ours} {report}"),
                format!("-I PREROUTING 4 -i a1 {ours} -j RETURN"),
                format!("-I PREROUTING 5 -i a2 {ours} {report}"),
                format!("-I PREROUTING 6 -i a2 {ours} -j RETURN"),
                format!("-I OUTPUT 1 {ours} {report}"),
                format!("-I OUTPUT 2 {ours} -j RETURN"),
            ]
        );
    }
}
