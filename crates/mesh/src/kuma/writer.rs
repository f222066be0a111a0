//! Writes the policy's rules down, in order, for one family.
//!
//! Upstream counts what it inserts into a base chain and appends the rest, and says in a comment at the head of each rule
//! what it is for.

use super::config::CaptureConfig;
use super::defaults;
use super::ownership::{COMMENTS, OWNERSHIP};
use crate::writing::Place;
use rules::{Chain, Cidr, Comment, Family, Match, Origin, Position, Rule, RuleSet, Statement, Table, Target};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The rules written so far, and what the policy asks about its family.
pub(super) struct Writer<'a> {
    pub(super) config: &'a CaptureConfig,
    pub(super) family: Family,
    rules: RuleSet,
}

impl<'a> Writer<'a> {
    pub(super) fn new(config: &'a CaptureConfig, family: Family) -> Self {
        Self { config, family, rules: RuleSet::empty(family) }
    }

    pub(super) fn finish(self) -> RuleSet {
        self.rules
    }

    /// The network that counts as loopback.
    pub(super) fn loopback(&self) -> Cidr {
        Cidr::host(match self.family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        })
    }

    /// The address from which the proxy calls the application behind it.
    pub(super) fn passthrough(&self) -> Cidr {
        Cidr::host(match self.family {
            Family::V4 => defaults::PASSTHROUGH_V4.into(),
            Family::V6 => defaults::PASSTHROUGH_V6.into(),
        })
    }

    /// Those of the networks that are of this family.
    pub(super) fn own_family(&self, cidrs: &[Cidr]) -> Vec<Cidr> {
        cidrs.iter().copied().filter(|cidr| cidr.family() == self.family).collect()
    }

    /// Appends a rule to a chain.
    pub(super) fn append(
        &mut self,
        table: Table,
        place: Place,
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        origin: Origin,
    ) {
        self.put(table, place, Position::Append, matches, target, origin);
    }

    /// Inserts a rule behind those that were inserted into the chain before.
    pub(super) fn insert(
        &mut self,
        table: Table,
        place: Place,
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        origin: Origin,
    ) {
        let chain = Chain::from(place);
        let is_inserted = |statement: &&Statement| {
            statement.chain == chain && matches!(statement.position, Position::Insert(_))
        };
        let before = self.rules.of_table(table).filter(is_inserted).count();
        self.put(table, place, Position::Insert(before + 1), matches, target, origin);
    }

    /// Inserts or appends.
    pub(super) fn add(
        &mut self,
        inserts: bool,
        (table, place): (Table, Place),
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        origin: Origin,
    ) {
        match inserts {
            true => self.insert(table, place, matches, target, origin),
            false => self.append(table, place, matches, target, origin),
        }
    }

    fn put(
        &mut self,
        table: Table,
        place: Place,
        position: Position,
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        origin: Origin,
    ) {
        let chain = Chain::from(place);
        let mut rule = Rule::new(matches, target);
        let comment = match (self.config.comments, &chain) {
            (true, _) => Some(comment(origin)),
            // Nothing else tells that it is ours.
            (false, Chain::Base(_)) if !OWNERSHIP.owns_rule(&rule) => Some(OWNERSHIP.rule_comment()),
            (false, _) => None,
        };
        rule.matches.splice(..0, comment.map(Match::Comment));
        self.rules.statements.push(Statement { table, chain, position, rule, origin: Some(origin) });
    }
}

/// The comment that says what a rule is for: the prefix by which upstream knows its rules, and the reason's name.
fn comment(origin: Origin) -> Comment {
    let name = origin.name.strip_prefix("kuma-").unwrap_or(origin.name);
    format!("{COMMENTS}{name}").parse().expect("names of reasons fit behind the prefix")
}
