//! Writes the policy's rules down, in order, for one family.

use super::OWNERSHIP;
use super::config::{CaptureConfig, DnsCapture};
use super::defaults::{LOG_GROUP, PASSTHROUGH_V4, PASSTHROUGH_V6};
use super::words::{Owner, Place};
use rules::{Chain, Cidr, Family, Match, Origin, Position, Rule, RuleSet, Statement, Table, Target};
use std::net::{IpAddr, Ipv6Addr};

/// The rules written so far, and what the policy asks about its family.
pub(super) struct Writer<'a> {
    pub(super) config: &'a CaptureConfig,
    rules: RuleSet,
}

impl<'a> Writer<'a> {
    pub(super) fn new(config: &'a CaptureConfig, family: Family) -> Self {
        Self { config, rules: RuleSet::empty(family) }
    }

    pub(super) fn finish(self) -> RuleSet {
        self.rules
    }

    /// The network that counts as loopback.
    pub(super) fn loopback(&self) -> Cidr {
        match self.rules.family {
            Family::V4 => self.config.loopback_v4,
            Family::V6 => Cidr::host(Ipv6Addr::LOCALHOST.into()),
        }
    }

    /// The address from which the proxy calls the application behind it: 127.0.0.6, or `::6`.
    pub(super) fn passthrough(&self) -> Cidr {
        Cidr::host(match self.rules.family {
            Family::V4 => PASSTHROUGH_V4.into(),
            Family::V6 => PASSTHROUGH_V6.into(),
        })
    }

    /// Those of the networks that are of this family.
    pub(super) fn own_family(&self, cidrs: &[Cidr]) -> Vec<Cidr> {
        cidrs.iter().copied().filter(|cidr| cidr.family() == self.rules.family).collect()
    }

    /// The DNS servers of this family.
    pub(super) fn dns_servers(&self) -> Vec<Cidr> {
        let servers: &[IpAddr] = match &self.config.dns {
            DnsCapture::Servers(servers) => servers,
            DnsCapture::Off | DnsCapture::All => &[],
        };
        self.own_family(&servers.iter().copied().map(Cidr::host).collect::<Vec<_>>())
    }

    /// The proxy's users, then its groups.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> + use<'a> {
        let config = self.config;
        let users = config.proxy_uids.iter().copied().map(Owner::User);
        users.chain(config.proxy_gids.iter().copied().map(Owner::Group))
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
        let rule = Rule::new(matches, target);
        if self.config.log_hits {
            self.put(table, place, Position::Append, log(&rule, origin), origin);
        }
        self.put(table, place, Position::Append, rule, origin);
    }

    /// Inserts a rule as the chain's rule `number`, counting only rules of the policy.
    pub(super) fn insert(
        &mut self,
        table: Table,
        place: Place,
        number: usize,
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        origin: Origin,
    ) {
        let rule = Rule::new(matches, target);
        if self.config.log_hits {
            // Every rule of the chain has a log rule before it, so places count double.
            self.put(table, place, Position::Insert(2 * number - 1), log(&rule, origin), origin);
            self.put(table, place, Position::Insert(2 * number), rule, origin);
        } else {
            self.put(table, place, Position::Insert(number), rule, origin);
        }
    }

    fn put(&mut self, table: Table, place: Place, position: Position, mut rule: Rule, origin: Origin) {
        let chain = Chain::from(place);
        if matches!(chain, Chain::Base(_)) && !OWNERSHIP.owns_rule(&rule) {
            rule.matches.push(Match::Comment(OWNERSHIP.rule_comment()));
        }
        self.rules.statements.push(Statement { table, chain, position, rule, origin: Some(origin) });
    }
}

/// The rule that reports what `rule` is about to match.
fn log(rule: &Rule, origin: Origin) -> Rule {
    let prefix = origin.name.parse().expect("names of rules are valid comments");
    Rule { matches: rule.matches.clone(), target: Target::Nflog { group: LOG_GROUP, prefix } }
}
