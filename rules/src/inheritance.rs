//! What the mesh's own program, such as `istio-iptables`, has left in base chains and in the routing configuration: rules,
//! policy rules, routes and addresses that carry no comment, so that nothing says whose they are. That program is the
//! predecessor here: ours takes over what it made.
//!
//! What is proven to be the predecessor's is inherited: replaced by a change, removed by cleaning. What only looks like it
//! may belong to any program: it is doubtful, is kept, and is reported.

use crate::field::Field;
use crate::predecessor::{self, Confidence};
use crate::routing::{Object, RoutingEntry};
use crate::{
    Chain, ChainState, Family, Hook, InterfaceName, ListedRule, Match, Negatable, Ownership, Predecessor,
    Rule, State, Table, Target,
};
use std::collections::BTreeSet;

/// Turns the predecessor's rules in base chains into inherited ones.
pub fn claim(state: &mut State, owner: &Ownership) {
    let Some(predecessor) = owner.predecessor else { return };
    for table in Table::ALL {
        let claimed = claims(state, table, owner, predecessor);
        let Some(chains) = state.tables.get_mut(&table) else { continue };
        for (chain, index) in claimed {
            let line = chains.get_mut(&chain).and_then(|chain| chain.lines.get_mut(index));
            if let Some(line) = line
                && let ListedRule::Typed(rule) = line
            {
                *line = ListedRule::Inherited(rule.clone());
            }
        }
    }
}

/// The positions of the predecessor's rules in a table.
fn claims(
    state: &State,
    table: Table,
    owner: &Ownership,
    predecessor: &Predecessor,
) -> BTreeSet<(Chain, usize)> {
    let rules: Vec<Candidate<'_>> = candidates(state, table, owner, predecessor).collect();
    let of = |desired| rules.iter().filter(move |rule: &&Candidate<'_>| rule.confidence == desired);
    let mut claimed: BTreeSet<(Chain, usize)> = of(Confidence::Certain).map(Candidate::place).collect();
    let base = || base_chains(state, table);
    let is_ours = |line: &ListedRule| line.typed().is_some_and(|rule| owner.has_comment_in(rule));
    let holds_more = !claimed.is_empty()
        || state.chains(table).any(|(chain, _)| owner.owns_chain(chain))
        || base().any(|(_, content)| content.lines.iter().any(|line| line.belongs_to(owner)));
    if is_uncommented(state, owner) {
        claimed.extend(of(Confidence::Uncommented).map(Candidate::place));
    }
    // Where rules carry the owner's comment, the owner has written the table again, and left no rule of the predecessor's.
    if !holds_more || base().any(|(_, content)| content.lines.iter().any(is_ours)) {
        return claimed;
    }
    claimed.extend(of(Confidence::ByTable).map(Candidate::place));
    let by_place = || of(Confidence::ByPosition);
    // The predecessor's rules for interfaces come before its jumps, except those for interfaces of virtual machines. Where the
    // owner has made the table, its jumps precede the rules of other programs.
    let comes_before = |rule: &Candidate<'_>| {
        let lines = state.lines(table, &Chain::Base(rule.hook)).iter().enumerate().skip(rule.index + 1);
        let is_owned = |(index, line): (usize, &ListedRule)| {
            line.belongs_to(owner) || claimed.contains(&(Chain::Base(rule.hook), index))
        };
        lines.into_iter().any(is_owned)
    };
    let twin = |of: &Candidate<'_>, direction| {
        of.interface.and_then(|(name, _)| by_place().find(|other| other.interface == Some((name, direction))))
    };
    let has_owned_twin = |rule: &Candidate<'_>| {
        let is_owned_twin = |line: &ListedRule| {
            line.belongs_to(owner) && line.typed().is_some_and(|other| interface(other) == rule.interface)
        };
        state.lines(table, &Chain::Base(rule.hook)).iter().any(is_owned_twin)
    };
    let is_outbound =
        |rule: &Candidate<'_>| comes_before(rule) && twin(rule, InterfaceDirection::In).is_some();
    let proven = |rule: &&Candidate<'_>| match rule.interface {
        Some((_, InterfaceDirection::Out)) => is_outbound(rule),
        Some((_, InterfaceDirection::In)) => {
            comes_before(rule)
                || has_owned_twin(rule)
                || twin(rule, InterfaceDirection::Out).is_some_and(is_outbound)
        }
        None => comes_before(rule),
    };
    let proven: Vec<_> = by_place().filter(proven).map(Candidate::place).collect();
    let is_its_table = !proven.is_empty() || is_inherited_in_part(state);
    let captures_networks = captures_networks(state, table, owner);
    claimed.extend(proven);
    // The predecessor's rules for interfaces of virtual machines are at the head of their chain. In a table that is not proven
    // to be its own, the rules after them identify them, which capture what the machines send. Where no network is captured,
    // there are no such rules, and the chain holds nothing else of the owner's.
    for (chain, content) in base() {
        if is_its_table || !(captures_networks || content.lines.iter().any(|line| line.belongs_to(owner))) {
            for (index, line) in content.lines.iter().enumerate() {
                let place = (chain.clone(), index);
                let is_input = by_place()
                    .any(|rule| rule.place() == place && rule.has_direction(InterfaceDirection::In));
                if is_input {
                    claimed.insert(place);
                } else if !line.belongs_to(owner) && !claimed.contains(&place) {
                    break;
                }
            }
        }
    }
    claimed
}

fn base_chains(state: &State, table: Table) -> impl Iterator<Item = (&Chain, &ChainState)> {
    state.chains(table).filter(|(chain, _)| matches!(chain, Chain::Base(_)))
}

/// Whether the base chains of `nat` lead to chains of the owner's prefix, and none of the owner's rules there has a comment.
fn is_uncommented(state: &State, owner: &Ownership) -> bool {
    let lines = base_chains(state, Table::Nat).flat_map(|(_, content)| &content.lines);
    let mut owned = lines.filter_map(ListedRule::typed).filter(|rule| owner.owns_rule(rule)).peekable();
    owned.peek().is_some() && owned.all(|rule| !rule.matches.iter().any(|m| matches!(m, Match::Comment(_))))
}

/// Whether chains of the owner's prefix redirect anything without asking for its port.
fn captures_networks(state: &State, table: Table, owner: &Ownership) -> bool {
    let for_all_ports = |line: &'_ ListedRule| -> Option<Target> {
        let is_port = |m: &Match| m.field() == Some(Field::DestinationPort);
        line.typed().filter(|rule| !rule.matches.iter().any(is_port)).map(|rule| rule.target.clone())
    };
    let redirects = |line: &ListedRule| matches!(for_all_ports(line), Some(Target::Redirect(_)));
    let captures = |line: &ListedRule| match for_all_ports(line) {
        Some(Target::Jump(chain)) => state.lines(table, &Chain::User(chain)).iter().any(redirects),
        _ => false,
    };
    let mut owned = state.chains(table).filter(|(chain, _)| owner.owns_chain(chain));
    owned.any(|(_, content)| content.lines.iter().any(captures))
}

/// Whether the predecessor has made a part of it for sure.
fn is_inherited_in_part(state: &State) -> bool {
    let mut chains = state.tables.values().flat_map(|chains| chains.values());
    chains.any(|content| content.lines.iter().any(|line| matches!(line, ListedRule::Inherited(_))))
}

/// The rules in base chains that have a form of a predecessor's and are not known for its own, chain by chain.
pub fn doubtful<'a>(
    state: &'a State,
    owner: &'a Ownership,
) -> impl Iterator<Item = (Table, Hook, &'a ListedRule)> {
    Table::LISTED.into_iter().flat_map(move |table| {
        let of = move |predecessor| {
            // Without proof such a rule is as likely to be of any other program.
            candidates(state, table, owner, predecessor)
                .filter(|rule| rule.confidence != Confidence::Uncommented)
        };
        let places: BTreeSet<(Hook, usize)> =
            predecessors(owner).flat_map(of).map(|rule| (rule.hook, rule.index)).collect();
        let line = move |(hook, index)| (table, hook, &state.lines(table, &Chain::Base(hook))[index]);
        places.into_iter().map(line)
    })
}

/// The predecessors of the owner, and of those that it is joined with.
pub fn predecessors(owner: &Ownership) -> impl Iterator<Item = &'static Predecessor> {
    owner.each().filter_map(|one| one.predecessor)
}

/// A rule that may be the predecessor's.
struct Candidate<'a> {
    hook: Hook,
    index: usize,
    interface: Option<(&'a InterfaceName, InterfaceDirection)>,
    confidence: Confidence,
}

impl Candidate<'_> {
    fn place(&self) -> (Chain, usize) {
        (Chain::Base(self.hook), self.index)
    }

    fn has_direction(&self, desired: InterfaceDirection) -> bool {
        self.interface.is_some_and(|(_, direction)| direction == desired)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InterfaceDirection {
    In,
    Out,
}

fn interface(rule: &Rule) -> Option<(&InterfaceName, InterfaceDirection)> {
    rule.matches.iter().find_map(|m| match m {
        Match::InInterface(Negatable::Is(name)) => Some((name, InterfaceDirection::In)),
        Match::OutInterface(Negatable::Is(name)) => Some((name, InterfaceDirection::Out)),
        _ => None,
    })
}

fn candidates<'a>(
    state: &'a State,
    table: Table,
    owner: &'a Ownership,
    predecessor: &'a Predecessor,
) -> impl Iterator<Item = Candidate<'a>> {
    state.chains(table).flat_map(move |(chain, content)| {
        content.lines.iter().enumerate().filter_map(move |(index, line)| {
            let (Chain::Base(hook), ListedRule::Typed(rule)) = (chain, line) else { return None };
            if owner.owns_rule(rule) {
                return None;
            }
            let pattern = predecessor.pattern(table, *hook, rule).map(|pattern| pattern.confidence);
            let confidence = pattern.or(predecessor.logs(rule).then_some(Confidence::Certain))?;
            Some(Candidate { hook: *hook, index, interface: interface(rule), confidence })
        })
    })
}

/// What speaks for the predecessor in a namespace as a whole, and what for the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Marks that inherited rules look at.
    marks: BTreeSet<u32>,
    /// Whether IPv6 is captured, by either: its tables hold chains of the owner's prefix.
    captures_ipv6: bool,
    /// Whether anything exists that only the predecessor makes.
    inherited: bool,
    /// Whether anything exists that only the owner makes.
    owned: bool,
}

impl Evidence {
    /// What the tables of iptables show.
    pub fn of<'a>(states: impl Iterator<Item = (Family, &'a State)>, owner: &Ownership) -> Self {
        let mut evidence = Self::default();
        let chains = states.flat_map(|(family, state)| {
            state.tables.values().flatten().map(move |content| (family, content))
        });
        for (family, (chain, content)) in chains {
            evidence.captures_ipv6 |= family == Family::V6 && owner.owns_chain(chain);
            for line in content.lines.iter().filter(|_| matches!(chain, Chain::Base(_))) {
                match line {
                    ListedRule::Typed(rule) => evidence.owned |= owner.has_comment_in(rule),
                    ListedRule::Inherited(rule) => {
                        evidence.inherited = true;
                        evidence.marks.extend(predecessor::marks(rule));
                    }
                    ListedRule::Foreign(_) => {}
                }
            }
        }
        evidence
    }

    /// Adds what exists beside those tables: tables of the predecessor's in nf_tables, which capture both families, and
    /// what is the owner's.
    #[must_use]
    pub fn and(self, tables: bool, owned: bool) -> Self {
        Self {
            captures_ipv6: self.captures_ipv6 || tables,
            inherited: self.inherited || tables,
            owned: self.owned || owned,
            ..self
        }
    }
}

/// Objects of routing that others than the owner have made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inheritance {
    /// The predecessor's.
    pub routing: BTreeSet<RoutingEntry>,
    /// Of those that the owner is joined with, by their protocols.
    pub joined: BTreeSet<RoutingEntry>,
    /// What may be the predecessor's, or any other program's.
    pub doubtful: BTreeSet<RoutingEntry>,
}

impl Inheritance {
    /// Adds what another predecessor has made. What is proven for one is doubtful for none.
    pub fn extend(&mut self, other: Self) {
        self.routing.extend(other.routing);
        self.joined.extend(other.joined);
        self.doubtful.extend(other.doubtful);
        let Self { routing, joined, doubtful } = self;
        doubtful.retain(|route| !routing.contains(route) && !joined.contains(route));
    }

    /// All that is taken over.
    pub fn taken(&self) -> impl Iterator<Item = &RoutingEntry> {
        self.routing.iter().chain(&self.joined)
    }
}

/// The highest routing protocol that is not reserved for one program (`RTPROT_STATIC` in `linux/rtnetlink.h`). A program
/// that sets a higher one is identified by it, and is not a predecessor: those set none.
const STATIC: u8 = 4;

/// Sorts objects that others than the owner have made; what is surely none of the predecessor's is left out.
pub fn routing(owner: &Ownership, evidence: &Evidence, of_others: &BTreeSet<RoutingEntry>) -> Inheritance {
    let mut found = Inheritance::default();
    let Some(predecessor) = owner.predecessor.filter(|one| one.policy_rule.is_some()) else { return found };
    let of_others: BTreeSet<RoutingEntry> =
        of_others.iter().copied().filter(|route| route.protocol <= STATIC).collect();
    let exists = |desired: Object| of_others.iter().any(|route| route.object == desired);
    for &route in &of_others {
        if let Object::Rule { family, mark, table, .. } = route.object {
            if Some((mark, table)) == predecessor.policy_rule
                || mark.is_whole() && evidence.marks.contains(&mark.value)
            {
                found.routing.insert(route);
            } else if exists(Object::Route { family, table }) {
                // Together they are the usual setup for TPROXY.
                found.doubtful.insert(route);
            }
        }
    }
    let leads = |rules: &BTreeSet<RoutingEntry>, of: Family, to: u32| {
        let points_to_table = |route: &RoutingEntry| matches!(route.object, Object::Rule { family, table, .. } if (family, table) == (of, to));
        rules.iter().any(points_to_table)
    };
    let is_ipv6 = |route: &RoutingEntry| route.object.family() == Family::V6;
    // It adds the address where it captures IPv6. Where nothing distinguishes the owner's rules from the predecessor's, they count
    // as the predecessor's.
    let is_its_address = (evidence.captures_ipv6 || found.routing.iter().any(is_ipv6))
        && (evidence.inherited || !found.routing.is_empty() || !evidence.owned);
    for &route in &of_others {
        match route.object {
            Object::Rule { .. } => {}
            Object::Route { family, table } => {
                if leads(&found.routing, family, table)
                    || predecessor.policy_rule.is_some_and(|(_, of)| of == table)
                {
                    found.routing.insert(route);
                } else if leads(&found.doubtful, family, table) {
                    found.doubtful.insert(route);
                }
            }
            Object::Address(_) if is_its_address => drop(found.routing.insert(route)),
            Object::Address(_) => drop(found.doubtful.insert(route)),
        }
    }
    found
}
