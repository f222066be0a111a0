//! What stands between two captures where one gives way to the other, in our table: the guards of [`rules::bridge`], and
//! both captures together. As bytecode, since the table that is there may be of any form.

use super::bytecode::{Chain, Rule, Table};
use super::expression::{Expression, Meta, Operator, Verdict};
use crate::sys::header::{IPPROTO_TCP, NF_INET_PRE_ROUTING};
use rules::Mark;
use std::collections::BTreeSet;

/// The marks that rules set where they hand packets to transparent sockets.
pub fn marks(table: &Table) -> BTreeSet<Mark> {
    table.chains.iter().flat_map(|chain| &chain.rules).filter_map(mark).collect()
}

fn mark(rule: &Rule) -> Option<Mark> {
    let at =
        rule.expressions.iter().position(|expression| matches!(expression, Expression::Tproxy { .. }))?;
    match &rule.expressions[at + 1..] {
        [Expression::Immediate(_, value), Expression::SetMetaMark, ..] => {
            Some(Mark::whole(u32::from_ne_bytes(value.as_slice().try_into().ok()?)))
        }
        _ => None,
    }
}

/// The table with guards before its rules for `nat` in PREROUTING, where it has any.
#[must_use]
pub fn guarded(mut table: Table, marks: &BTreeSet<Mark>) -> Table {
    for chain in &mut table.chains {
        let base = chain.base.as_ref();
        if base.is_some_and(|base| base.kind == "nat" && base.hook == NF_INET_PRE_ROUTING) {
            let guards = marks.iter().map(|mark| guard(*mark));
            let missing: Vec<Rule> = guards.filter(|guard| !chain.rules.contains(guard)).collect();
            chain.rules.splice(..0, missing);
        }
    }
    table
}

/// Both captures in one table: `mangle` of the one that hands packets over by TPROXY, all else of the other.
#[must_use]
pub fn both(transparent: &Table, mut other: Table) -> Table {
    let is_mangle = |chain: &Chain| chain.name.starts_with("mangle_");
    other.chains.retain(|chain| !is_mangle(chain));
    let mut chains: Vec<Chain> =
        transparent.chains.iter().filter(|chain| is_mangle(chain)).cloned().collect();
    for set in &transparent.sets {
        let mut set = set.clone();
        let name = set.name.clone();
        // One that holds something else there goes by another name.
        while other.sets.iter().any(|there| there.name == set.name && *there != set) {
            set.name.push_str("_mangle");
        }
        let rules = chains.iter_mut().flat_map(|chain| &mut chain.rules);
        let mut is_named = false;
        for expression in rules.flat_map(|rule| &mut rule.expressions) {
            if let Expression::Lookup { set: named, .. } = expression
                && *named == name
            {
                named.clone_from(&set.name);
                is_named = true;
            }
        }
        if is_named && !other.sets.contains(&set) {
            other.sets.push(set);
        }
    }
    other.chains.extend(chains);
    other
}

fn guard(mark: Mark) -> Rule {
    let expressions = vec![
        Expression::Meta(Meta::L4proto),
        Expression::Cmp(Operator::Eq, vec![IPPROTO_TCP]),
        Expression::Meta(Meta::Mark),
        Expression::Cmp(Operator::Eq, mark.value.to_ne_bytes().to_vec()),
        Expression::Counter,
        Expression::Verdict(Verdict::Accept),
    ];
    Rule { expressions, userdata: Vec::new() }
}
