//! Check of a rule set: the kernel must accept it, and cleaning must find it again. Renderers accept only [`Checked`].

use crate::field::Field;
use crate::{Chain, Comment, Hook, Match, Ownership, Position, RuleSet, Statement, Table, Target};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("statement {number} ({table} {chain}): {fault}")]
pub struct Violation {
    /// Counted from 1.
    pub number: usize,
    pub table: Table,
    pub chain: Chain,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the table has no such base chain")]
    NoSuchHook,
    #[error("the target does not work here")]
    TargetOutOfPlace,
    #[error("an address of the other family")]
    WrongFamily,
    /// An address outside the network of all addresses: iptables-nft turns this into a rule that the kernel refuses.
    #[error("no address lies outside the network of all addresses")]
    NoAddress,
    /// A port without `-p tcp` or `-p udp` before it; iptables reads from the left.
    #[error("ports need exactly one protocol before them")]
    PortsWithoutProtocol,
    /// A single port after `-m multiport`: there iptables reads `--dport` as short for that module's `--dports`.
    #[error("a single port after a list of ports, which iptables parses as another list")]
    PortBehindList,
    /// Both modules have a `--mark` option, and iptables gives the third `--mark` to the second module again.
    #[error("packet marks and connection marks alternate; all of one kind must be adjacent")]
    MarksInTurns,
    #[error("the same condition twice")]
    Repeated,
    #[error("the match does not work at this hook")]
    MatchOutOfPlace,
    /// An insert at 0 or beyond the end of the chain.
    #[error("no such position in the chain")]
    NoSuchPosition,
    #[error("the chain reaches itself")]
    Loop,
    #[error("neither jumps to the owner's chains nor has the owner's comment")]
    RuleNotOwned,
    #[error("the report's prefix is longer than 63 bytes")]
    PrefixTooLong,
    #[error("the chain is declared foreign, but its name has the owner's prefix")]
    ChainNotForeign,
    #[error("the chain's name lacks the owner's prefix")]
    ChainNotOwned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    rules: RuleSet,
    owner: Ownership,
}

impl Checked {
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    pub fn owner(&self) -> &Ownership {
        &self.owner
    }
}

/// Checks that the kernel accepts every statement and that cleaning finds it again; returns all violations, in order.
pub fn check(rules: RuleSet, owner: &Ownership) -> Result<Checked, Vec<Violation>> {
    let mut chains: BTreeMap<(Table, &Chain), (Place, usize)> = BTreeMap::new();
    let (mut violations, reach) = (Vec::new(), reach(&rules));
    for (index, statement) in rules.statements.iter().enumerate() {
        let Statement { table, chain, position, .. } = statement;
        let (place, length) =
            chains.entry((*table, chain)).or_insert_with(|| (Place::of(*table, chain, &reach), 0));
        let mut faults = faults(statement, &rules, place, owner);
        if matches!(position, Position::Insert(number) if !(1..=*length + 1).contains(number)) {
            faults.push(Fault::NoSuchPosition);
        }
        *length += 1;
        violations.extend(faults.into_iter().map(|fault| Violation {
            number: index + 1,
            table: *table,
            chain: chain.clone(),
            fault,
        }));
    }
    if violations.is_empty() { Ok(Checked { rules, owner: *owner }) } else { Err(violations) }
}

fn faults(statement: &Statement, rules: &RuleSet, place: &Place, owner: &Ownership) -> Vec<Fault> {
    let Statement { table, chain, rule, .. } = statement;
    let mut faults = Vec::new();
    let mut note = |wrong: bool, fault: Fault| {
        if wrong && !faults.contains(&fault) {
            faults.push(fault);
        }
    };
    note(matches!(chain, Chain::Base(hook) if !table.hooks().contains(hook)), Fault::NoSuchHook);
    note(!rule.target.fits(*table, &place.hooks), Fault::TargetOutOfPlace);
    match chain {
        Chain::Base(_) => note(!owner.owns_rule(rule), Fault::RuleNotOwned),
        Chain::User(_) => note(!owner.owns_chain(chain), Fault::ChainNotOwned),
    }
    note(matches!(&rule.target, Target::Jump(name) if !owner.owns_chain_named(name)), Fault::ChainNotOwned);
    let comes_back = matches!(&rule.target, Target::JumpForeign(name) if owner.owns_chain_named(name));
    note(comes_back, Fault::ChainNotForeign);
    note(place.loops, Fault::Loop);
    let reports_too_much = matches!(&rule.target, Target::Nflog { prefix, .. } if prefix.as_str().len() > Comment::LONGEST_PREFIX);
    note(reports_too_much, Fault::PrefixTooLong);
    let protocols = |matches: &[Match]| matches.iter().filter(|m| matches!(m, Match::Protocol(_))).count();
    let with_port = matches!(rule.target, Target::Redirect(_) | Target::Tproxy { .. });
    note(with_port && protocols(&rule.matches) != 1, Fault::PortsWithoutProtocol);
    for (index, m) in rule.matches.iter().enumerate() {
        let before = &rule.matches[..index];
        note(
            m.module().is_none() && before.iter().any(|other| discriminant(other) == discriminant(m)),
            Fault::Repeated,
        );
        let Some(condition) = m.condition() else {
            if let Match::ProtocolModule(protocol) = m {
                note(!before.contains(&Match::Protocol(*protocol)), Fault::PortsWithoutProtocol);
                let is_port = |m: &Match| m.module().is_none() && m.field().is_some_and(Field::is_port);
                note(rule.matches.iter().any(is_port), Fault::Repeated);
            }
            continue;
        };
        let field = condition.field;
        note(field.family().is_some_and(|family| family != rules.family), Fault::WrongFamily);
        note(condition.constant_answer() == Some(false), Fault::NoAddress);
        note(place.hooks.iter().any(|hook| !field.is_known_at(*hook)), Fault::MatchOutOfPlace);
        if field.is_port() {
            note(protocols(before) != 1, Fault::PortsWithoutProtocol);
            let is_list = |m: &Match| matches!(m, Match::DestinationPorts(_));
            note(m.module().is_none() && before.iter().any(is_list), Fault::PortBehindList);
        }
        if is_mark(m) {
            let is_same = |other: &Match| discriminant(other) == discriminant(m);
            let last = before.iter().rev().find(|other| is_mark(other));
            let is_back = last.is_some_and(|last| !is_same(last)) && before.iter().any(is_same);
            note(is_back, Fault::MarksInTurns);
        }
    }
    faults
}

fn is_mark(m: &Match) -> bool {
    matches!(m.field(), Some(Field::Mark(_) | Field::Connmark(_)))
}

struct Place {
    hooks: BTreeSet<Hook>,
    loops: bool,
}

impl Place {
    fn of(table: Table, chain: &Chain, reach: &Reach<'_>) -> Self {
        let leads_here = |from| reach.get(&(table, from)).is_some_and(|to| to.contains(chain.as_str()));
        let is_at = |hook: &Hook| match chain {
            Chain::Base(own) => own == hook,
            Chain::User(_) => leads_here(hook.name()),
        };
        Self { hooks: Hook::ALL.into_iter().filter(is_at).collect(), loops: leads_here(chain.as_str()) }
    }
}

/// Each calling chain, with all chains that its packets reach.
type Reach<'a> = BTreeMap<(Table, &'a str), BTreeSet<&'a str>>;

fn reach(rules: &RuleSet) -> Reach<'_> {
    let mut called = Reach::new();
    for Statement { table, chain, rule, .. } in &rules.statements {
        if let Target::Jump(name) = &rule.target {
            called.entry((*table, chain.as_str())).or_default().insert(name.as_str());
        }
    }
    let reached = |&(table, from)| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(chain) = open.pop() {
            let next = called.get(&(table, chain)).into_iter().flatten().copied();
            open.extend(next.filter(|next| seen.insert(*next)));
        }
        ((table, from), seen)
    };
    called.keys().map(reached).collect()
}
