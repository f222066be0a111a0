//! Tables, hooks, chains, and the ordered statements that build them. A [`RuleSet`] keeps appends and inserts in creation order,
//! which a preview prints.

use crate::{ChainName, Family, Hook, Match, Table, Target, WriteSet, field::Field};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    str::FromStr,
};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chain {
    Base(Hook),
    User(ChainName),
}

impl Chain {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Base(hook) => hook.name(),
            Self::User(name) => name.as_str(),
        }
    }
}

impl FromStr for Chain {
    type Err = crate::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Hook::ALL.into_iter().find(|hook| hook.name() == text) {
            Some(hook) => Ok(Self::Base(hook)),
            None => text.parse().map(Self::User),
        }
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    pub matches: Vec<Match>,
    pub target: Target,
}

impl Rule {
    pub fn new(matches: impl IntoIterator<Item = Match>, target: Target) -> Self {
        Self { matches: matches.into_iter().collect(), target }
    }

    /// The rule as the kernel would list it: sorted conditions without trivial ones, and foreign jumps as ordinary jumps. Rules
    /// with equal canonical forms are equivalent: no condition has side effects. Marks before a port keep their place: Istio's
    /// agent writes such rules, and iptables deletes a rule only by its conditions in order.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let holds_always = |m: &Match| m.condition().and_then(|one| one.constant_answer()) == Some(true);
        let is_port = |m: &Match| matches!(m, Match::SourcePort(_) | Match::DestinationPort(_));
        let first_port = self.matches.iter().position(is_port).unwrap_or(0);
        let rank = |place: usize, m: &Match| match m {
            Match::Source(_)
            | Match::Destination(_)
            | Match::InInterface(_)
            | Match::OutInterface(_)
            | Match::Protocol(_) => 0,
            Match::Mark(_) if place < first_port => 1,
            _ => 2,
        };
        let kept = self.matches.iter().enumerate().filter(|(_, m)| !holds_always(m));
        let mut ranked: Vec<(i32, &Match)> = kept.map(|(place, m)| (rank(place, m), m)).collect();
        ranked.sort();
        let matches = ranked.into_iter().map(|(_, m)| m.clone()).collect();
        let target = match &self.target {
            Target::JumpForeign(chain) => Target::Jump(chain.clone()),
            target => target.clone(),
        };
        Self { matches, target }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.matches.iter().try_for_each(|m| write!(f, "{m} "))?;
        self.target.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    Append,
    /// Before the rule at this position, counted from 1.
    Insert(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub name: &'static str,
    /// Long option that made the rule, without dashes, or a variable; empty for unconditional rules.
    pub option: &'static str,
    pub effect: TrafficEffect,
    /// Field that tests items of the option's list; `None` if the rule has no item.
    pub item: Option<Field>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrafficEffect {
    Captured,
    /// Sent to the listener; an earlier rule decided the capture.
    HandedOver,
    Excluded,
    Dropped,
    LedOn,
}

impl TrafficEffect {
    pub fn word(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            Self::Excluded => "excluded",
            Self::Dropped => "dropped",
            Self::HandedOver | Self::LedOn => "continue",
        }
    }
}

impl Origin {
    pub fn option_text(&self) -> String {
        match self.option {
            "" => "no option".to_owned(),
            variable if variable.starts_with(|c: char| c.is_ascii_uppercase()) => variable.to_owned(),
            long => format!("--{long}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub table: Table,
    pub chain: Chain,
    pub position: Position,
    pub rule: Rule,
    /// `None` for rules read back, which have no provenance.
    pub origin: Option<Origin>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    pub family: Family,
    pub statements: Vec<Statement>,
}

impl RuleSet {
    pub fn empty(family: Family) -> Self {
        Self { family, statements: Vec::new() }
    }

    pub fn of_table(&self, table: Table) -> impl Iterator<Item = &Statement> {
        self.statements.iter().filter(move |statement| statement.table == table)
    }

    /// User-defined chains in a preview's order: chains with rules by first use, then chains only jumped to.
    pub fn user_chains(&self, table: Table) -> Vec<&ChainName> {
        let filled = self.of_table(table).filter_map(|statement| match &statement.chain {
            Chain::User(name) => Some(name),
            Chain::Base(_) => None,
        });
        let called = self.of_table(table).filter_map(|statement| match &statement.rule.target {
            Target::Jump(name) => Some(name),
            _ => None,
        });
        let mut names: Vec<&ChainName> = Vec::new();
        for name in filled.chain(called) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Chains of a table after all statements; chains that are only jumped to are present and empty.
    pub fn chains(&self, table: Table) -> BTreeMap<Chain, Vec<&Statement>> {
        // Most inserts are at the head, where a vector would move all elements.
        let own = self.user_chains(table).into_iter().map(|name| Chain::User(name.clone()));
        let mut chains: BTreeMap<Chain, VecDeque<&Statement>> =
            own.map(|chain| (chain, VecDeque::new())).collect();
        for statement in self.of_table(table) {
            let rules = chains.entry(statement.chain.clone()).or_default();
            match statement.position {
                Position::Append => rules.push_back(statement),
                Position::Insert(number) => rules.insert((number - 1).min(rules.len()), statement),
            }
        }
        chains.into_iter().map(|(chain, rules)| (chain, rules.into())).collect()
    }
}

/// Possible changes to a packet in each user-defined chain, including all chains that it leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainWrites(BTreeMap<(Table, ChainName), WriteSet>);

impl ChainWrites {
    pub fn of<'a>(rules: impl IntoIterator<Item = &'a RuleSet>) -> Self {
        let statements: Vec<&Statement> = rules.into_iter().flat_map(|rules| &rules.statements).collect();
        let mut known = Self::default();
        // Callers inherit the changes of called chains; repeat until none is new.
        loop {
            let before = known.clone();
            for Statement { table, chain, rule, .. } in &statements {
                let writes = known.by(*table, &rule.target);
                if let Chain::User(name) = chain
                    && writes != WriteSet::NOTHING
                {
                    let of_chain = known.0.entry((*table, name.clone())).or_default();
                    *of_chain = of_chain.union(writes);
                }
            }
            if known == before {
                return known;
            }
        }
    }

    pub fn by(&self, table: Table, target: &Target) -> WriteSet {
        match target {
            Target::Jump(name) => self.0.get(&(table, name.clone())).copied().unwrap_or_default(),
            other => other.writes(),
        }
    }
}
