//! What the tables of one family hold, foreign rules included: read from the kernel, or worked out.

use crate::{Chain, ChainName, Rule, RuleSet, Statement, Table, TableChange, Target};
use std::collections::BTreeMap;

/// A rule as it stands in a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Line {
    /// A rule that the model can say, in canonical form.
    Typed(Rule),
    /// Any other rule.
    Foreign(Foreign),
}

/// A rule that the model can't say: kept as text, with the little that we need to know of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Foreign {
    /// As `iptables-save` prints it after the chain's name.
    pub text: String,
    /// What follows `-j` or `-g`, if anything does.
    pub target: Option<String>,
    /// Whether it carries the comment that marks a rule as ours.
    pub carries_our_comment: bool,
}

/// Targets after which a packet goes on to the next rule (`iptables-extensions(8)`).
const CONTINUING: [&str; 11] =
    ["AUDIT", "CHECKSUM", "CLASSIFY", "CONNMARK", "CT", "DSCP", "LOG", "MARK", "NFLOG", "TCPMSS", "TRACE"];

impl Line {
    /// Whether the rule, standing in a chain that is not ours, is ours all the same.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Typed(rule) => rule.is_ours(),
            Self::Foreign(foreign) => {
                let jumps = foreign.target.as_ref().is_some_and(|name| name.starts_with(ChainName::OURS));
                jumps || foreign.carries_our_comment
            }
        }
    }

    /// Whether a packet may end its walk here, or be led where we do not look: true of all but the rules
    /// that are known to continue.
    pub fn may_decide(&self) -> bool {
        match self {
            Self::Typed(Rule { target: Target::Jump(_), .. }) => true,
            Self::Typed(rule) => !rule.target.continues(),
            Self::Foreign(Foreign { target, .. }) => {
                target.as_ref().is_some_and(|target| !CONTINUING.contains(&target.as_str()))
            }
        }
    }
}

/// The rules of one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainState {
    /// The rules in order.
    pub lines: Vec<Line>,
}

/// The chains of one family's tables. Only tables of [`Table`] are held; others are no concern of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// By table and chain. An absent table and an empty one mean the same.
    pub tables: BTreeMap<Table, BTreeMap<Chain, ChainState>>,
}

impl State {
    /// What an otherwise empty namespace holds once the rule set has taken effect.
    pub fn of(rules: &RuleSet) -> Self {
        let mut state = Self::default();
        for table in Table::ALL {
            let chains = rules.chains(table);
            if !chains.is_empty() {
                let lines = |statements: Vec<&Statement>| ChainState {
                    lines: statements.iter().map(|s| Line::Typed(s.rule.canonical())).collect(),
                };
                state.tables.insert(
                    table,
                    chains.into_iter().map(|(chain, statements)| (chain, lines(statements))).collect(),
                );
            }
        }
        state
    }

    /// The rules of a chain; none if it does not exist.
    pub fn lines(&self, table: Table, chain: &Chain) -> &[Line] {
        self.tables.get(&table).and_then(|chains| chains.get(chain)).map_or(&[], |chain| &chain.lines)
    }

    /// The chains of a table.
    pub fn chains(&self, table: Table) -> impl Iterator<Item = (&Chain, &ChainState)> {
        self.tables.get(&table).into_iter().flatten()
    }

    /// Whether anything of ours is there.
    pub fn holds_ours(&self) -> bool {
        self.tables
            .values()
            .flatten()
            .any(|(chain, state)| chain.is_ours() || state.lines.iter().any(Line::is_ours))
    }

    /// The part that is ours: chains of ours, and our rules in base chains.
    #[must_use]
    pub fn ours(&self) -> Self {
        let mut state = Self::default();
        for (table, chains) in &self.tables {
            for (chain, ChainState { lines }) in chains {
                let lines: Vec<Line> = match chain {
                    _ if chain.is_ours() => lines.clone(),
                    Chain::Base(_) => lines.iter().filter(|line| line.is_ours()).cloned().collect(),
                    Chain::User(_) => continue,
                };
                state.tables.entry(*table).or_default().insert(chain.clone(), ChainState { lines });
            }
        }
        state
    }

    /// Whether a table holds the same in both states. Base chains without rules do not count: the kernel
    /// lists them or not, as it happens to have made the table.
    pub fn same_table(&self, other: &Self, table: Table) -> bool {
        let filled = |state: &Self| -> Vec<(Chain, ChainState)> {
            let chains = state
                .chains(table)
                .filter(|(chain, state)| matches!(chain, Chain::User(_)) || !state.lines.is_empty());
            chains.map(|(chain, state)| (chain.clone(), state.clone())).collect()
        };
        filled(self) == filled(other)
    }

    /// Whether any rule or user-defined chain is there, whoever made it.
    pub fn holds_rules(&self) -> bool {
        self.tables
            .values()
            .flatten()
            .any(|(chain, state)| matches!(chain, Chain::User(_)) || !state.lines.is_empty())
    }

    /// The number of rules that are ours.
    pub fn count_ours(&self) -> usize {
        self.tables
            .values()
            .flatten()
            .map(|(chain, state)| match chain.is_ours() {
                true => state.lines.len(),
                false => state.lines.iter().filter(|line| line.is_ours()).count(),
            })
            .sum()
    }

    /// The state after a change, as the kernel would make it.
    #[must_use]
    pub fn after(&self, change: &TableChange) -> Self {
        let mut state = self.clone();
        let chains = state.tables.entry(change.table).or_default();
        for (chain, line) in &change.delete {
            if let Some(state) = chains.get_mut(chain)
                && let Some(index) = state.lines.iter().position(|l| l == line)
            {
                state.lines.remove(index);
            }
        }
        for (chain, lines) in &change.replace {
            chains.insert(Chain::User(chain.clone()), ChainState { lines: lines.clone() });
        }
        for (chain, number, line) in &change.insert {
            let lines = &mut chains.entry(chain.clone()).or_default().lines;
            lines.insert((number - 1).min(lines.len()), line.clone());
        }
        for chain in &change.remove {
            chains.remove(&Chain::User(chain.clone()));
        }
        state
    }
}
