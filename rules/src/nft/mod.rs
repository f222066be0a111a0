//! Translation of rules to nf_tables: one table for both families, lists in sets.
//!
//! The input is the checked iptables rules, not a second policy. Statements become drafts, each chain is shortened (`compact`),
//! the chains of the two families become one (`join`), and conditions that nf_tables lacks are rewritten (`split`). The length of
//! a rule set depends on the options used, never on the number of their values.

mod compact;
mod draft;
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

use crate::{Chain, Checked, Family, Origin, Table, model::ChainWrites};
use compact::NamedChain;
use draft::Draft;
use std::collections::{BTreeMap, BTreeSet};
use table::comment;

/// Table equivalent to the rules; `None` if there are none. Without `v6`, IPv6 packets pass untouched.
pub fn table(name: &str, v4: &Checked, v6: Option<&Checked>) -> Option<InetTable> {
    // Computed for both families together, to keep equal rules equal.
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
    (!chains.is_empty()).then(|| in_sets(name, chains))
}

/// Makes a table with every list in a set. Equal lists of a rule share a set.
fn in_sets(name: &str, chains: Vec<NamedChain>) -> InetTable {
    let mut sets = Vec::new();
    let chain = |(name, base, drafts): NamedChain| {
        let rules = drafts.into_iter().map(|draft| rule(&mut sets, draft));
        InetChain { name, base, rules: rules.collect() }
    };
    let chains = chains.into_iter().map(chain).collect();
    InetTable { name: name.to_owned(), sets, chains }
}

fn rule(sets: &mut Vec<Set>, draft: Draft) -> InetRule {
    let Draft { conditions, report, effect, writes: _, origin } = draft;
    let tests = conditions.into_iter().map(|condition| test(sets, condition, origin)).collect();
    InetRule { tests, report, effect, comment: comment(origin) }
}

fn test(sets: &mut Vec<Set>, mut condition: Condition, origin: Option<Origin>) -> Test {
    if condition.field.data_type().has_ranges() {
        condition.values = condition.values.joined();
    }
    let set = SetKind::of(&condition).filter(|kind| is_list(*kind, &condition.values));
    let set = set.map(|kind| set_name(sets, kind, &condition.values, origin));
    Test { condition, set }
}

fn is_list(kind: SetKind, values: &Intervals) -> bool {
    if kind.has_ranges { values.ranges().len() > 1 } else { values.numbers().take(2).count() > 1 }
}

/// Maximum single ports stored as ranges, the usual `nft` form; longer lists use a hash table, which is faster to write.
const MAX_AS_RANGES: usize = 100;

impl SetKind {
    pub fn of(condition: &Condition) -> Option<Self> {
        let data_type = condition.field.data_type();
        let content = condition.values.ranges();
        let has_range = || content.iter().any(|interval| !interval.is_single());
        let has_ranges = match data_type {
            DataType::Address(_) => true,
            DataType::Port => content.len() <= MAX_AS_RANGES || has_range(),
            DataType::InterfaceName | DataType::Uid => has_range(),
            DataType::Protocol | DataType::Gid => false,
            DataType::Family | DataType::ConnState | DataType::Mark => return None,
        };
        Some(Self { data_type, has_ranges })
    }
}

fn set_name(sets: &mut Vec<Set>, kind: SetKind, values: &Intervals, origin: Option<Origin>) -> String {
    let what = match kind.data_type {
        DataType::InterfaceName => "interfaces",
        DataType::Address(Family::V4) => "v4",
        DataType::Address(Family::V6) => "v6",
        DataType::Protocol => "protocols",
        DataType::Port => "ports",
        DataType::Uid => "uids",
        DataType::Gid => "gids",
        DataType::Family | DataType::ConnState | DataType::Mark => kind.data_type.name(),
    };
    let stem = match origin {
        // There is only one list of protocols: TCP and UDP.
        Some(origin) if kind.data_type != DataType::Protocol => {
            format!("{}_{what}", origin.name.replace('-', "_"))
        }
        _ => what.to_owned(),
    };
    let numbered = (2..).map(|number| format!("{stem}_{number}"));
    let named = |name: &String| sets.iter().find(|set| set.name == *name);
    let fits = |set: &Set| set.kind == kind && set.values == *values;
    let mut names = std::iter::once(stem.clone()).chain(numbered);
    let name = names.find(|name| named(name).is_none_or(fits)).expect("there are more numbers than sets");
    if named(&name).is_none() {
        sets.push(Set { name: name.clone(), kind, values: values.clone() });
    }
    name
}

impl Set {
    pub fn elements(&self) -> Vec<Interval> {
        match self.kind.has_ranges {
            true => self.values.ranges().to_vec(),
            false => self.values.numbers().map(Interval::one).collect(),
        }
    }
}
