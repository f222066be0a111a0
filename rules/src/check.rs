//! The check of a rule set: the kernel takes it, and we can find it again.
//!
//! [`Checked`] is the only thing that renderers accept. The policy never makes a rule set that fails here;
//! this is a second safeguard, and what a new policy is developed against.

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
    /// The target does not exist in this table, or not at this hook.
    #[error("the target does not work here")]
    TargetOutOfPlace,
    #[error("an address of the other family")]
    WrongFamily,
    /// Outside of the network of all addresses: the nft variant of iptables makes a rule of it that the kernel refuses.
    #[error("no address is outside of the network of all")]
    NoAddress,
    /// A port without `-p tcp` or `-p udp` before it; iptables reads from the left.
    #[error("ports need exactly one protocol, before them")]
    PortsWithoutProtocol,
    /// A single port after `-m multiport`: to iptables `--dport` is short for the `--dports` of that module there.
    #[error("a single port behind a list of ports, where iptables takes it for another list")]
    PortBehindList,
    /// Marks of packets and of connections in turns: both modules have an option `--mark`, and iptables takes the third
    /// one for the second module's again.
    #[error("alternates marks of packets and of connections; all of one kind have to be adjacent")]
    MarksInTurns,
    /// A condition that iptables takes once in a rule.
    #[error("the same condition twice")]
    Repeated,
    #[error("the match does not work at this hook")]
    MatchOutOfPlace,
    /// An insert at 0 or beyond the end of the chain.
    #[error("no such position in the chain")]
    NoSuchPosition,
    #[error("the chain reaches itself")]
    Loop,
    /// A rule in a base chain that cleaning would not know again.
    #[error("neither jumps to a chain of the owner's nor carries its comment")]
    RuleNotOwned,
    /// A report's prefix that NFLOG has no room for.
    #[error("the report's prefix is longer than 63 bytes")]
    PrefixTooLong,
    /// A jump to a foreign chain that cleaning would take for the owner's.
    #[error("the chain is declared foreign, but its name has the owner's prefix")]
    ChainNotForeign,
    /// A chain that cleaning would not know again.
    #[error("the chain's name does not start as the owner's do")]
    ChainNotOwned,
}

/// A rule set in which [`check`] found nothing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    rules: RuleSet,
    owner: Ownership,
}

impl Checked {
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// By its marks the rules can be found again.
    pub fn owner(&self) -> &Ownership {
        &self.owner
    }
}

/// Checks every statement: whether the kernel takes it, and whether cleaning finds it again by the owner's marks.
///
/// # Errors
/// All violations, in the order of the statements.
pub fn check(rules: RuleSet, owner: &Ownership) -> Result<Checked, Vec<Violation>> {
    let mut chains: BTreeMap<(Table, &Chain), (Place, usize)> = BTreeMap::new();
    let mut violations = Vec::new();
    let calls = Table::ALL.map(|table| Calls::of(&rules, table));
    for (index, statement) in rules.statements.iter().enumerate() {
        let Statement { table, chain, position, .. } = statement;
        let (place, length) = chains.entry((*table, chain)).or_insert_with(|| {
            (calls.iter().find(|c| c.table == *table).expect("all tables").place(chain), 0)
        });
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
    let jumps_elsewhere = matches!(&rule.target, Target::Jump(name) if !owner.owns_chain_named(name));
    note(jumps_elsewhere, Fault::ChainNotOwned);
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
        let Some(field) = m.field() else {
            if let Match::ProtocolModule(protocol) = m {
                note(!before.contains(&Match::Protocol(*protocol)), Fault::PortsWithoutProtocol);
                // Ports have loaded it already.
                let is_port = |m: &Match| m.module().is_none() && m.field().is_some_and(Field::is_port);
                note(rule.matches.iter().any(is_port), Fault::Repeated);
            }
            continue;
        };
        note(field.family().is_some_and(|family| family != rules.family), Fault::WrongFamily);
        note(m.constant_answer() == Some(false), Fault::NoAddress);
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

struct Calls<'a> {
    table: Table,
    called_by: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The chains that packets of a hook come to, for hooks whose base chain calls any.
    of_hooks: Vec<(Hook, BTreeSet<&'a str>)>,
}

impl<'a> Calls<'a> {
    fn of(rules: &'a RuleSet, table: Table) -> Self {
        let mut called_by: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for statement in rules.of_table(table) {
            if let Target::Jump(name) = &statement.rule.target {
                called_by.entry(statement.chain.as_str()).or_default().insert(name.as_str());
            }
        }
        let of_hooks = Hook::ALL
            .into_iter()
            .filter(|hook| called_by.contains_key(hook.name()))
            .map(|hook| (hook, reached_from(hook.name(), &called_by)))
            .collect();
        Self { table, called_by, of_hooks }
    }

    fn place(&self, chain: &Chain) -> Place {
        let name = chain.as_str();
        let hooks = match chain {
            Chain::Base(hook) => BTreeSet::from([*hook]),
            Chain::User(_) => {
                let leads_here = self.of_hooks.iter().filter(|(_, reached)| reached.contains(name));
                leads_here.map(|(hook, _)| *hook).collect()
            }
        };
        Place { hooks, loops: reached_from(name, &self.called_by).contains(name) }
    }
}

fn reached_from<'a>(start: &str, called_by: &BTreeMap<&str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(chain) = open.pop() {
        for &called in called_by.get(chain).into_iter().flatten() {
            if seen.insert(called) {
                open.push(called);
            }
        }
    }
    seen
}
