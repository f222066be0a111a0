//! Leftovers of the mesh's own program, such as `istio-iptables`, in base chains and in routing: rules, policy rules, routes and
//! addresses without a comment that marks an owner. We call that program the predecessor and take over its objects.
//!
//! An object proven to be the predecessor's is inherited: a change replaces it, and cleaning removes it. One that only resembles
//! the predecessor's may belong to any program: it is doubtful, kept, and reported.

use crate::routing::{Object, RoutingEntry};
use crate::{
    Chain, Family, Hook, InterfaceName, ListedRule, Match, Negatable, Ownership, Predecessor, Rule, State,
    Table, Target, field::Field, ownership, ownership::Proof,
};
use std::collections::BTreeSet;

pub fn mark_inherited(state: &mut State, owner: &Ownership) {
    let Some(predecessor) = owner.predecessor else { return };
    for table in Table::ALL {
        let claimed = inherited_positions(state, table, owner, predecessor);
        let Some(chains) = state.tables.get_mut(&table) else { continue };
        for (hook, index) in claimed {
            let line = chains.get_mut(&Chain::Base(hook)).and_then(|lines| lines.get_mut(index));
            let Some(line) = line else { continue };
            match line {
                ListedRule::Typed(rule) => *line = ListedRule::Inherited(rule.clone()),
                ListedRule::Foreign(foreign) => foreign.is_inherited = true,
                ListedRule::Inherited(_) => {}
            }
        }
    }
}

type RulePosition = (Hook, usize);

/// Each proof relies on the earlier ones.
struct Claims<'a> {
    state: &'a State,
    table: Table,
    owner: &'a Ownership,
    candidates: Vec<Candidate<'a>>,
    claimed: BTreeSet<RulePosition>,
}

fn inherited_positions(
    state: &State,
    table: Table,
    owner: &Ownership,
    predecessor: &Predecessor,
) -> BTreeSet<RulePosition> {
    let candidates = candidates(state, table, owner, predecessor).collect();
    let mut claims = Claims { state, table, owner, candidates, claimed: BTreeSet::new() };
    // First: no other program writes a rule of this form.
    claims.claim(Proof::Form);
    let was_captured = claims.shows_capture();
    // Second: the rules that lead to the chains have no comment, so the owner has not written them.
    if state.is_uncommented(owner) {
        claims.claim(Proof::NoComments);
    }
    // Rules with the owner's comment show that the owner has rewritten the table and left no rule of the predecessor.
    if !was_captured || claims.has_comment_of_owner() {
        return claims.claimed;
    }
    // Third: the form is common, but a program other than the owner captures in this table.
    claims.claim(Proof::Table);
    // Fourth: any program may write the form, but the rule is where the predecessor inserts it.
    let is_proven_by_position = claims.claim_by_position();
    // Fifth: the rule is at the head of the predecessor's chain.
    claims.claim_heads(is_proven_by_position || is_inherited_in_part(state));
    claims.claimed
}

impl<'a> Claims<'a> {
    fn of(&self, proof: Proof) -> impl Iterator<Item = &Candidate<'a>> {
        self.candidates.iter().filter(move |rule| rule.proof == proof)
    }

    fn claim(&mut self, proof: Proof) {
        let positions: Vec<_> = self.of(proof).map(Candidate::position).collect();
        self.claimed.extend(positions);
    }

    fn base_chains(&self) -> impl Iterator<Item = (Hook, &'a Vec<ListedRule>)> + use<'a> {
        self.state.base_chains(self.table)
    }

    fn lines(&self, rule: &Candidate<'_>) -> impl Iterator<Item = (usize, &'a ListedRule)> {
        self.state.lines(self.table, &Chain::Base(rule.hook)).iter().enumerate()
    }

    fn shows_capture(&self) -> bool {
        !self.claimed.is_empty()
            || self.state.chains(self.table).any(|(chain, _)| self.owner.owns_chain(chain))
            || self.base_chains().any(|(_, lines)| lines.iter().any(|line| line.belongs_to(self.owner)))
    }

    fn has_comment_of_owner(&self) -> bool {
        let has_comment =
            |line: &ListedRule| line.typed().is_some_and(|rule| self.owner.has_comment_in(rule));
        self.base_chains().any(|(_, lines)| lines.iter().any(has_comment))
    }

    fn claim_by_position(&mut self) -> bool {
        let has_pair = |rule: &Candidate<'_>| {
            let out = self.twin(rule, Field::OutInterface);
            out.is_some_and(|out| self.is_outbound_of_pair(out))
        };
        let is_proven = |rule: &&Candidate<'_>| match rule.interface {
            Some((_, Field::OutInterface)) => self.is_outbound_of_pair(rule),
            Some(_) => self.precedes_owned(rule) || self.has_owned_twin(rule) || has_pair(rule),
            None => self.precedes_owned(rule),
        };
        let proven: Vec<_> = self.of(Proof::Position).filter(is_proven).map(Candidate::position).collect();
        let is_any = !proven.is_empty();
        self.claimed.extend(proven);
        is_any
    }

    /// The predecessor's interface rules precede its jumps, except rules for virtual machines' interfaces. In a table written by
    /// the owner, the owner's jumps precede other programs' rules.
    fn precedes_owned(&self, rule: &Candidate<'_>) -> bool {
        let is_owned = |(index, line): (usize, &ListedRule)| {
            line.belongs_to(self.owner) || self.claimed.contains(&(rule.hook, index))
        };
        self.lines(rule).skip(rule.index + 1).any(is_owned)
    }

    /// An excluded interface has a rule in each direction; an outbound rule alone may be any program's.
    fn is_outbound_of_pair(&self, rule: &Candidate<'_>) -> bool {
        self.precedes_owned(rule) && self.twin(rule, Field::InInterface).is_some()
    }

    fn twin(&self, rule: &Candidate<'_>, direction: Field) -> Option<&Candidate<'a>> {
        let (name, _) = rule.interface?;
        self.of(Proof::Position).find(|other| other.interface == Some((name, direction)))
    }

    fn has_owned_twin(&self, rule: &Candidate<'_>) -> bool {
        let is_same =
            |line: &ListedRule| line.typed().is_some_and(|other| interface(other) == rule.interface);
        self.lines(rule).any(|(_, line)| line.belongs_to(self.owner) && is_same(line))
    }

    /// Claims the predecessor's rules for virtual machines' interfaces, at the head of their chain. In a table not proven to be
    /// the predecessor's, claims them only if no network is captured and the chain holds no rule of the owner: otherwise, rules
    /// that capture the machines' traffic would follow.
    fn claim_heads(&mut self, is_its_table: bool) {
        let captures_networks = captures_networks(self.state, self.table, self.owner);
        for (hook, lines) in self.base_chains() {
            let holds_owned = || lines.iter().any(|line| line.belongs_to(self.owner));
            if !is_its_table && (captures_networks || holds_owned()) {
                continue;
            }
            for (index, line) in lines.iter().enumerate() {
                let position = (hook, index);
                let matches_in_interface = |rule: &Candidate<'_>| {
                    rule.position() == position && matches!(rule.interface, Some((_, Field::InInterface)))
                };
                if self.of(Proof::Position).any(matches_in_interface) {
                    self.claimed.insert(position);
                } else if !line.belongs_to(self.owner) && !self.claimed.contains(&position) {
                    break;
                }
            }
        }
    }
}

/// True if a jump for all ports leads from the owner's chains to a redirect for all ports.
fn captures_networks(state: &State, table: Table, owner: &Ownership) -> bool {
    let redirects = |line: &ListedRule| matches!(target_for_all_ports(line), Some(Target::Redirect(_)));
    let captures = |line: &ListedRule| match target_for_all_ports(line) {
        Some(Target::Jump(chain)) => state.lines(table, &Chain::User(chain.clone())).iter().any(redirects),
        _ => false,
    };
    let mut owned = state.chains(table).filter(|(chain, _)| owner.owns_chain(chain));
    owned.any(|(_, lines)| lines.iter().any(captures))
}

fn target_for_all_ports(line: &ListedRule) -> Option<&Target> {
    let is_port = |m: &Match| m.field() == Some(Field::DestinationPort);
    line.typed().filter(|rule| !rule.matches.iter().any(is_port)).map(|rule| &rule.target)
}

fn is_inherited_in_part(state: &State) -> bool {
    let mut chains = state.tables.values().flat_map(|chains| chains.values());
    chains.any(|lines| lines.iter().any(ListedRule::is_inherited))
}

pub fn doubtful<'a>(
    state: &'a State,
    owner: &'a Ownership,
) -> impl Iterator<Item = (Table, Hook, &'a ListedRule)> {
    Table::LISTED.into_iter().flat_map(move |table| {
        let of = move |predecessor| {
            // Without proof, such a rule may be any program's.
            candidates(state, table, owner, predecessor).filter(|rule| rule.proof != Proof::NoComments)
        };
        let places: BTreeSet<(Hook, usize)> =
            predecessors(owner).flat_map(of).map(|rule| (rule.hook, rule.index)).collect();
        let line = move |(hook, index)| (table, hook, &state.lines(table, &Chain::Base(hook))[index]);
        places.into_iter().map(line)
    })
}

pub fn predecessors(owner: &Ownership) -> impl Iterator<Item = &'static Predecessor> {
    owner.each().filter_map(|one| one.predecessor)
}

struct Candidate<'a> {
    hook: Hook,
    index: usize,
    interface: Option<(&'a InterfaceName, Field)>,
    proof: Proof,
}

impl Candidate<'_> {
    fn position(&self) -> RulePosition {
        (self.hook, self.index)
    }
}

fn interface(rule: &Rule) -> Option<(&InterfaceName, Field)> {
    rule.matches.iter().find_map(|m| match m {
        Match::InInterface(Negatable::Is(name)) => Some((name, Field::InInterface)),
        Match::OutInterface(Negatable::Is(name)) => Some((name, Field::OutInterface)),
        _ => None,
    })
}

fn candidates<'a>(
    state: &'a State,
    table: Table,
    owner: &'a Ownership,
    predecessor: &'a Predecessor,
) -> impl Iterator<Item = Candidate<'a>> {
    state.base_chains(table).flat_map(move |(hook, lines)| {
        lines.iter().enumerate().filter_map(move |(index, line)| {
            let pattern = |text: &str| Some(predecessor.pattern(table, hook, text)?.proof);
            let (proof, interface) = match line {
                ListedRule::Typed(rule) if !owner.owns_rule(rule) => {
                    let logs = || predecessor.logs(rule).then_some(Proof::Form);
                    (pattern(&rule.to_string()).or_else(logs)?, interface(rule))
                }
                ListedRule::Foreign(foreign) if !foreign.is_inherited => (pattern(&foreign.text)?, None),
                ListedRule::Typed(_) | ListedRule::Inherited(_) | ListedRule::Foreign(_) => return None,
            };
            Some(Candidate { hook, index, interface, proof })
        })
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    marks: BTreeSet<u32>,
    /// True if IPv6 tables hold the owner's or predecessor's chains.
    captures_ipv6: bool,
    inherited: bool,
    owned: bool,
}

impl Evidence {
    /// Evidence from the states, the predecessor's nf_tables tables (for both families) and the owner's other objects.
    pub fn of<'a>(
        states: impl Iterator<Item = (Family, &'a State)>,
        owner: &Ownership,
        has_predecessor_tables: bool,
        has_owned_objects: bool,
    ) -> Self {
        let mut evidence = Self {
            marks: BTreeSet::new(),
            captures_ipv6: has_predecessor_tables,
            inherited: has_predecessor_tables,
            owned: has_owned_objects,
        };
        let chains = states
            .flat_map(|(family, state)| state.tables.values().flatten().map(move |chain| (family, chain)));
        for (family, (chain, lines)) in chains {
            evidence.captures_ipv6 |= family == Family::V6 && owner.owns_chain(chain);
            for line in lines.iter().filter(|_| matches!(chain, Chain::Base(_))) {
                match line {
                    ListedRule::Typed(rule) => evidence.owned |= owner.has_comment_in(rule),
                    ListedRule::Inherited(rule) => {
                        evidence.inherited = true;
                        evidence.marks.extend(ownership::marks(rule));
                    }
                    ListedRule::Foreign(_) => evidence.inherited |= line.is_inherited(),
                }
            }
        }
        evidence
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inheritance {
    pub inherited: BTreeSet<RoutingEntry>,
    /// Joined owners' objects, found by protocol.
    pub joined: BTreeSet<RoutingEntry>,
    pub doubtful: BTreeSet<RoutingEntry>,
}

impl Inheritance {
    /// An object that is proven for one predecessor is doubtful for none.
    pub fn extend(&mut self, other: Self) {
        self.inherited.extend(other.inherited);
        self.joined.extend(other.joined);
        self.doubtful.extend(other.doubtful);
        let Self { inherited, joined, doubtful } = self;
        doubtful.retain(|entry| !inherited.contains(entry) && !joined.contains(entry));
    }

    pub fn taken_over(&self) -> impl Iterator<Item = &RoutingEntry> {
        self.inherited.iter().chain(&self.joined)
    }
}

/// Highest routing protocol that is not reserved for one program (`RTPROT_STATIC`); predecessors set none.
const STATIC: u8 = 4;

/// Classifies other programs' objects; leaves out objects that are surely not the predecessor's.
pub fn classify_routing(
    owner: &Ownership,
    evidence: &Evidence,
    of_others: &BTreeSet<RoutingEntry>,
) -> Inheritance {
    let mut found = Inheritance::default();
    let Some(predecessor) = owner.predecessor.filter(|one| one.policy_rule.is_some()) else { return found };
    let of_others: BTreeSet<RoutingEntry> =
        of_others.iter().copied().filter(|entry| entry.protocol <= STATIC).collect();
    let exists = |desired: Object| of_others.iter().any(|entry| entry.object == desired);
    for &entry in &of_others {
        if let Object::Rule { family, mark, table, .. } = entry.object {
            if Some((mark, table)) == predecessor.policy_rule
                || mark.is_whole() && evidence.marks.contains(&mark.value)
            {
                found.inherited.insert(entry);
            } else if exists(Object::Route { family, table }) {
                // Such a pair is typical of TPROXY.
                found.doubtful.insert(entry);
            }
        }
    }
    let leads = |rules: &BTreeSet<RoutingEntry>, target_family: Family, target_table: u32| {
        let points_to_table = |entry: &RoutingEntry| matches!(entry.object, Object::Rule { family, table, .. } if (family, table) == (target_family, target_table));
        rules.iter().any(points_to_table)
    };
    let is_ipv6 = |entry: &RoutingEntry| entry.object.family() == Family::V6;
    // The predecessor adds the address if it captures IPv6. Uncommented rules count as the predecessor's.
    let is_its_address = (evidence.captures_ipv6 || found.inherited.iter().any(is_ipv6))
        && (evidence.inherited || !found.inherited.is_empty() || !evidence.owned);
    for &entry in &of_others {
        match entry.object {
            Object::Rule { .. } => {}
            Object::Route { family, table } => {
                if leads(&found.inherited, family, table)
                    || predecessor.policy_rule.is_some_and(|(_, of)| of == table)
                {
                    found.inherited.insert(entry);
                } else if leads(&found.doubtful, family, table) {
                    found.doubtful.insert(entry);
                }
            }
            Object::Address(_) if is_its_address => drop(found.inherited.insert(entry)),
            Object::Address(_) => drop(found.doubtful.insert(entry)),
        }
    }
    found
}
