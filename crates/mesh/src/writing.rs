//! Writes a policy's rules: short names for chains, matches and targets, and the writer that keeps the rules' order.

use crate::facts::{loopback, passthrough};
use crate::reason::Cause;
use rules::{
    Action, Chain, Cidr, Comment, ConnState, ConnStates, Family, Gid, Hook, InterfaceName, ListedCondition,
    Mark, Match, Negatable, Ownership, PortRange, PortSet, Position, Protocol, Rule, RuleSet, Statement,
    Table, Target, UidRange,
};
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
pub(crate) struct ChainPlace {
    chain: WrittenChain,
    order: Order,
}

#[derive(Clone, Copy)]
enum WrittenChain {
    Base(Hook),
    Own(&'static str),
}

/// Numbers count the rules that the policy inserts, except rules that log hits.
#[derive(Clone, Copy)]
enum Order {
    Last,
    Next,
    Number(usize),
}

pub(crate) const PREROUTING: ChainPlace = last(WrittenChain::Base(Hook::Prerouting));
pub(crate) const OUTPUT: ChainPlace = last(WrittenChain::Base(Hook::Output));

pub(crate) const fn own(name: &'static str) -> ChainPlace {
    last(WrittenChain::Own(name))
}

/// `chains! { PLACE "NAME" ROLE; .. }` defines constants of a mesh's chains, and `CHAINS`, which maps live chains to roles.
macro_rules! chains {
    ($($place:ident $name:literal $role:ident;)*) => {
        $(const $place: $crate::writing::ChainPlace = $crate::writing::own($name);)*

        pub(crate) const CHAINS: &[(&str, $crate::recognition::Role)] =
            &[$(($name, $crate::recognition::Role::$role),)*];
    };
}

pub(crate) use chains;

const fn last(chain: WrittenChain) -> ChainPlace {
    ChainPlace { chain, order: Order::Last }
}

impl ChainPlace {
    pub(crate) fn next(self) -> Self {
        Self { order: Order::Next, ..self }
    }

    pub(crate) fn at(self, number: usize) -> Self {
        Self { order: Order::Number(number), ..self }
    }
}

impl From<WrittenChain> for Chain {
    fn from(chain: WrittenChain) -> Self {
        match chain {
            WrittenChain::Base(hook) => Self::Base(hook),
            WrittenChain::Own(name) => Self::User(name.parse().expect("names in the policy are valid")),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Comments {
    /// After the conditions, only on base chain rules that nothing else identifies.
    Last,
    /// Like `Last`, before the conditions.
    First,
    /// On every rule, before the conditions: its purpose.
    OfEach(fn(Cause) -> Comment),
}

pub(crate) struct RuleWriter<'a, C> {
    pub(crate) config: &'a C,
    rules: RuleSet,
    inserted: BTreeMap<(Table, Chain), usize>,
    /// Base chain rules that this owner would not recognize get a comment.
    owner: &'static Ownership,
    comments: Comments,
    /// NFLOG group for each rule's hits, if any.
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

    pub(crate) fn passthrough(&self) -> Cidr {
        Cidr::host(passthrough(self.family()))
    }

    pub(crate) fn localhost(&self) -> Cidr {
        Cidr::host(loopback(self.family()))
    }

    pub(crate) fn own_family(&self, cidrs: &[Cidr]) -> Vec<Cidr> {
        cidrs.iter().copied().filter(|cidr| cidr.family() == self.family()).collect()
    }

    pub(crate) fn add(
        &mut self,
        table: Table,
        place: ChainPlace,
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        cause: impl Into<Cause>,
    ) {
        let (rule, cause) = (Rule::new(matches, target), cause.into());
        let chain = Chain::from(place.chain);
        let of_each = if self.log_group.is_some() { 2 } else { 1 };
        let inserted = self.inserted.entry((table, chain.clone())).or_default();
        let number = match place.order {
            Order::Last => None,
            Order::Next => Some(*inserted + 1),
            Order::Number(number) => Some(number),
        };
        *inserted += usize::from(number.is_some());
        let position =
            |back| number.map_or(Position::Append, |number| Position::Insert(number * of_each - back));
        if let Some(group) = self.log_group {
            self.put(table, chain.clone(), position(1), log(&rule, group, cause), cause);
        }
        self.put(table, chain, position(0), rule, cause);
    }

    fn put(&mut self, table: Table, chain: Chain, position: Position, mut rule: Rule, cause: Cause) {
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
        self.rules.statements.push(Statement { table, chain, position, rule, origin: Some(origin) });
    }
}

/// `add_rules! { WRITER: TABLE CHAIN [MATCH, ..] => TARGET, CAUSE; .. }` adds rules in this order, used in documentation.
/// The cause may be followed by `for ITEM in ITEMS`, for a rule per item, and `if CONDITION`.
macro_rules! add_rules {
    ($writer:ident: $($table:ident $place:ident $(.$order:ident($($number:literal)?))? $matches:expr => $target:expr, $cause:expr
        $(, for $item:pat in $items:expr)? $(, if $condition:expr)?;)*) => {
        $($(for $item in $items)? {
            $(if $condition)? {
                $writer.add($table, $place$(.$order($($number)?))?, $matches, $target, $cause);
            }
        })*
    };
}

pub(crate) use add_rules;

fn log(rule: &Rule, group: u16, cause: Cause) -> Rule {
    let prefix = cause.reason.name().parse().expect("names of rules are valid comments");
    Rule { matches: rule.matches.clone(), target: Target::Nflog { group, prefix } }
}

pub(crate) fn jump(place: ChainPlace) -> Target {
    match Chain::from(place.chain) {
        Chain::User(name) => Target::Jump(name),
        Chain::Base(_) => unreachable!("base chains are not jumped to"),
    }
}

pub(crate) fn redirect(ports: impl Into<PortRange>) -> Target {
    Target::Redirect(ports.into())
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

pub(crate) fn about<const N: usize>(
    machine: Option<Match>,
    others: [Match; N],
) -> impl Iterator<Item = Match> {
    machine.into_iter().chain(others)
}

pub(crate) fn state<const N: usize>(states: [ConnState; N]) -> Match {
    Match::ConnState(Negatable::Is(ConnStates::new(states).expect("at least one state")))
}

/// `WORD(TYPE) is MATCH;` defines a function for a condition on a value, or with `not` for its negation.
macro_rules! conditions {
    ($($word:ident($type:ty) $is:ident $matched:ident;)*) => {
        $(pub(crate) fn $word(value: impl Into<$type>) -> Match {
            Match::$matched(conditions!(@$is value.into()))
        })*
    };
    (@is $value:expr) => { Negatable::Is($value) };
    (@not $value:expr) => { Negatable::Not($value) };
}

conditions! {
    from(Cidr) is Source;
    to(Cidr) is Destination;
    not_to(Cidr) not Destination;
    port(PortRange) is DestinationPort;
    not_port(PortRange) not DestinationPort;
    any_of(PortSet) is DestinationPorts;
    from_port(PortRange) is SourcePort;
    mark(Mark) is Mark;
    not_mark(Mark) not Mark;
    connmark(Mark) is Connmark;
    user(UidRange) is UidOwner;
    not_user(UidRange) not UidOwner;
    group(Gid) is GidOwner;
    not_group(Gid) not GidOwner;
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
                writer.add(Table::Nat, PREROUTING.next(), [from], Target::Return, cause);
            }
            writer.add(Table::Nat, OUTPUT.next(), [], Target::Return, cause);
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
