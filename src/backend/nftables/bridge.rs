//! Intermediate states between two captures in our table: the guards of [`rules::bridge`], and both captures together. They are
//! bytecode, since the existing table may have any form.

use super::bytecode::{EncodedChain, EncodedRule, EncodedTable};
use super::expression::{EncodedVerdict, Expression, Meta};
use super::lower;
use rules::{Hook, Mark, bridge::guarded_packets};
use std::collections::BTreeSet;

pub fn marks(table: &EncodedTable) -> BTreeSet<Mark> {
    table.chains.iter().flat_map(|chain| &chain.rules).filter_map(mark).collect()
}

fn mark(rule: &EncodedRule) -> Option<Mark> {
    let at = rule.expressions.iter().position(|expression| matches!(expression, Expression::Tproxy(_)))?;
    match &rule.expressions[at + 1..] {
        [Expression::Immediate(_, value), Expression::SetMeta(Meta::Mark), ..] => {
            Some(Mark::whole(u32::from_ne_bytes(value.as_slice().try_into().ok()?)))
        }
        _ => None,
    }
}

/// Adds guards to non-empty PREROUTING chains: in `nat` against `marks`, in `mangle` against `of_others`.
#[must_use]
pub fn guarded(mut table: EncodedTable, marks: &BTreeSet<Mark>, of_others: &BTreeSet<Mark>) -> EncodedTable {
    for chain in &mut table.chains {
        let Some(base) = chain.base.as_ref().filter(|base| base.hook == Hook::Prerouting as u32) else {
            continue;
        };
        let guards: Vec<EncodedRule> = match (base.kind == "nat", is_mangle(chain)) {
            (true, _) => marks.iter().map(|mark| guard(rules::Table::Nat, *mark)).collect(),
            (false, true) => of_others.iter().map(|mark| guard(rules::Table::Mangle, *mark)).collect(),
            (false, false) => Vec::new(),
        };
        let missing: Vec<EncodedRule> =
            guards.into_iter().filter(|guard| !chain.rules.contains(guard)).collect();
        chain.rules.splice(..0, missing);
    }
    table
}

/// Both captures in one table: `mangle` from the transparent one, other chains from `other`.
#[must_use]
pub fn both(transparent: &EncodedTable, mut other: EncodedTable) -> EncodedTable {
    other.chains.retain(|chain| !is_mangle(chain));
    let mut chains: Vec<EncodedChain> =
        transparent.chains.iter().filter(|chain| is_mangle(chain)).cloned().collect();
    for set in &transparent.sets {
        let mut set = set.clone();
        let name = set.name.clone();
        while other.sets.iter().any(|there| there.name == set.name && *there != set) {
            set.name.push_str("_mangle");
        }
        let rules = chains.iter_mut().flat_map(|chain| &mut chain.rules);
        let mut is_named = false;
        for expression in rules.flat_map(|rule| &mut rule.expressions) {
            if let Expression::Lookup(named, _) = expression
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

fn is_mangle(chain: &EncodedChain) -> bool {
    chain.name.starts_with("mangle_")
}

fn guard(table: rules::Table, mark: Mark) -> EncodedRule {
    let matches = guarded_packets(table, mark).filter_map(|m| m.condition());
    let mut expressions = lower::conditions(matches);
    expressions.extend([Expression::Counter, Expression::Verdict(EncodedVerdict::Accept)]);
    EncodedRule { expressions, userdata: Vec::new() }
}
