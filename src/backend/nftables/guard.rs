//! The guards of [`rules::bridge`] in our table: as bytecode, since the table that is there may be of any form.

use super::bytecode::{Rule, Table};
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
