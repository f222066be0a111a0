//! Translation of rules to nf_tables: one table for both families, lists in sets.
//!
//! The input is the checked rules for iptables, not a second policy. Statements become drafts, each chain is shortened
//! (`compact`), the chains of the two families become one (`join`), and conditions that nf_tables lacks are rewritten (`split`).
//! The length of a rule set depends on the options used, never on the number of their values.

mod compact;
mod draft;
mod sets;
mod table;

pub use crate::field::{
    Condition, DataType, Field, Interval, Intervals, UNTRACKED_BIT, family_number, interface_number,
    protocol_number, state_bit,
};
pub use draft::base_of;
pub use table::{
    Base, Effect, InetChain, InetRule, InetTable, Kind, LONGEST_COMMENT, LiveChain, LiveRule, LiveTable,
    NEVER_DAYS, Set, SetKind, Test,
};

use crate::model::ChainWrites;
use crate::{Chain, Checked, Table};
use std::collections::{BTreeMap, BTreeSet};
use table::comment;

/// Table equivalent to the rules; `None` if there are none. Without `v6`, IPv6 packets pass untouched.
pub fn table(name: &str, v4: &Checked, v6: Option<&Checked>) -> Option<InetTable> {
    // Of both families together, so that equal rules stay equal.
    let written = ChainWrites::of([Some(v4), v6].into_iter().flatten().map(Checked::rules));
    let mut chains = Vec::new();
    for table in Table::LISTED {
        let mut of_v4 = v4.rules().chains(table);
        let mut of_v6 = v6.map(|rules| rules.rules().chains(table)).unwrap_or_default();
        let names: BTreeSet<Chain> = of_v4.keys().chain(of_v6.keys()).cloned().collect();
        for chain in names {
            let drafts = |chains: &mut BTreeMap<_, _>| {
                let statements = chains.remove(&chain).unwrap_or_default();
                compact::compact(draft::drafts(table, statements, &written))
            };
            let of_v4 = drafts(&mut of_v4);
            let drafts = match v6 {
                Some(_) => draft::join(&of_v4, &drafts(&mut of_v6)),
                None => draft::alone(of_v4, matches!(chain, Chain::Base(_))),
            };
            let name = draft::chain_name(table, chain.as_str());
            chains.extend(compact::split((name, draft::base(table, &chain), drafts)));
        }
    }
    (!chains.is_empty()).then(|| sets::table(name, chains))
}
