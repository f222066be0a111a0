//! Recognizes a policy's rules and routing for cleaning, whatever options made them. A namespace may hold several policies'
//! objects, so ownerships can be joined: all joined owners' objects then count as the owner's.

use crate::{Chain, ChainName, Comment, Hook, Mark, Match, Negatable, Rule, Table, Target};
use std::{iter, net::Ipv6Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ownership {
    /// The display name within a sentence: `linkerd`, `Istio's sidecar`.
    pub name: &'static str,
    pub mesh: &'static str,
    pub chains: Chains,
    /// Other programs' chains whose names also fit [`Ownership::chains`].
    pub conflicting_chains: &'static [Chains],
    /// Comment on the owner's base chain rules that nothing else identifies; unique to the owner.
    pub comment: &'static str,
    /// Comment prefix of the owner and its predecessor.
    pub comment_prefix: Option<&'static str>,
    /// An `inet` table.
    pub table: &'static str,
    /// Routing protocol number of its policy rules, routes and addresses (`rtm_protocol` in `linux/rtnetlink.h`).
    pub protocol: u8,
    /// Rule form besides mark and table.
    pub policy_rules: PolicyRules,
    /// Address that the owner may add to `lo`; on kernels before 5.18, which drop protocols, always the owner's.
    pub address: Option<Ipv6Addr>,
    pub predecessor: Option<&'static Predecessor>,
    /// Words after "to keep it from coming back:": the pod setting that prevents the rules from returning.
    pub opt_out: &'static str,
    /// Owners whose objects also count as this one's ([`Ownership::union`]).
    pub joined: &'static [Ownership],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chains {
    Prefix(&'static str),
    /// Exactly these names. The first marks a table as the owner's; elsewhere, the other names may be another program's.
    Named(&'static str, &'static [&'static str]),
}

impl Chains {
    pub fn may_include(self, name: &str) -> bool {
        self.includes(name, &|_| true)
    }

    /// True if these chains include this name in a table; `exists` finds the table's other chains.
    fn includes(self, name: &str, exists: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::Prefix(prefix) => name.starts_with(prefix),
            Self::Named(first, others) => name == first || others.contains(&name) && exists(first),
        }
    }
}

/// Form of all of an owner's policy rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicyRules {
    /// Mark bits that the rules compare (`FRA_FWMASK` in `linux/fib_rules.h`).
    pub mask: u32,
    /// Position among all policy rules (`FRA_PRIORITY`); `None` lets the kernel choose.
    pub preference: Option<u32>,
}

impl PolicyRules {
    pub const PLAIN: Self = Self { mask: u32::MAX, preference: None };
}

impl Ownership {
    /// Joins other owners, whose objects are then replaced, removed and reported with this owner's objects.
    #[must_use]
    pub fn union(self, others: &'static [Self]) -> Self {
        Self { joined: others, ..self }
    }

    #[must_use]
    pub fn alone(self) -> Self {
        self.union(&[])
    }

    pub fn each(&self) -> impl Iterator<Item = Self> {
        iter::once(self.alone()).chain(self.others())
    }

    pub fn others(&self) -> impl Iterator<Item = Self> {
        let others = self.joined.iter().map(|other| other.alone());
        others.filter(|other| other.table != self.table)
    }

    fn any(&self, is_so: impl Fn(&Self) -> bool) -> bool {
        is_so(self) || self.joined.iter().any(is_so)
    }

    /// True if a chain of this name may be the owner's; the table decides ([`Ownership::owns_chain_among`]).
    pub fn owns_chain_named(&self, name: &ChainName) -> bool {
        self.any(|one: &Self| {
            one.chains.may_include(name.as_str())
                && !one.conflicting_chains.iter().any(|theirs| theirs.includes(name.as_str(), &|_| false))
        })
    }

    /// True if a chain is the owner's in a table; `exists` finds the table's other chains.
    pub fn owns_chain_among(&self, name: &str, exists: &dyn Fn(&str) -> bool) -> bool {
        self.any(|one: &Self| {
            one.chains.includes(name, exists)
                && !one.conflicting_chains.iter().any(|theirs| theirs.includes(name, exists))
        })
    }

    pub fn owns_chain(&self, chain: &Chain) -> bool {
        matches!(chain, Chain::User(name) if self.owns_chain_named(name))
    }

    /// True if a rule outside the owner's chains jumps to one of them, or has one of the owner's comments.
    pub fn owns_rule(&self, rule: &Rule) -> bool {
        matches!(&rule.target, Target::Jump(chain) if self.owns_chain_named(chain))
            || self.owns_comments_of(rule)
    }

    pub fn owns_comments_of(&self, rule: &Rule) -> bool {
        comments(rule).any(|comment| self.owns_comment(comment))
    }

    /// True if a rule has the owner's unique comment, which even the predecessor does not use.
    pub fn has_comment_in(&self, rule: &Rule) -> bool {
        comments(rule).any(|comment| comment == self.comment)
    }

    pub fn owns_comment(&self, comment: &str) -> bool {
        self.any(|one: &Self| {
            comment == one.comment || one.comment_prefix.is_some_and(|prefix| comment.starts_with(prefix))
        })
    }

    pub fn owns_table(&self, name: &str) -> bool {
        self.any(|one| one.table == name)
    }

    pub fn rule_comment(&self) -> Comment {
        self.comment.parse().expect("owners have valid comments")
    }
}

pub(crate) fn comments(rule: &Rule) -> impl Iterator<Item = &str> {
    rule.matches.iter().filter_map(|m| match m {
        Match::Comment(comment) => Some(comment.as_str()),
        _ => None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const OWNER: Ownership = Ownership {
        name: "the owner",
        mesh: "owner",
        chains: Chains::Prefix("ISTIO_"),
        conflicting_chains: &[],
        comment: "sidecar-init",
        comment_prefix: None,
        table: "sidecar_init",
        protocol: 137,
        policy_rules: PolicyRules::PLAIN,
        address: Some(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6)),
        predecessor: None,
        opt_out: "nothing is known",
        joined: &[],
    };

    pub(crate) const CONFLICTING: Ownership = Ownership {
        name: "the namesake",
        mesh: "namesake",
        chains: Chains::Named("ISTIO_PRERT", &["ISTIO_OUTPUT"]),
        comment: "sidecar-init-namesake",
        comment_prefix: Some("namesake/"),
        table: "sidecar_init_namesake",
        protocol: 138,
        address: None,
        ..OWNER
    };

    const WARY: Ownership = Ownership { conflicting_chains: &[CONFLICTING.chains], ..OWNER };

    #[test]
    fn shared_chain_belongs_to_the_owner_of_the_table() {
        let check = |owner: Ownership, name: &str, table: &[&str], expected: bool| {
            let found = owner.owns_chain_among(name, &|other| table.contains(&other));
            assert_eq!(found, expected, "{} and {name} among {table:?}", owner.name);
        };
        let (theirs, ours) = (["ISTIO_PRERT", "ISTIO_OUTPUT"], ["ISTIO_INBOUND", "ISTIO_OUTPUT"]);
        for (name, table, [wary, namesake]) in [
            ("ISTIO_OUTPUT", theirs, [false, true]),
            ("ISTIO_PRERT", theirs, [false, true]),
            ("ISTIO_INBOUND", theirs, [true, false]),
            ("ISTIO_OUTPUT", ours, [true, false]),
            ("ISTIO_INBOUND", ours, [true, false]),
            ("KUBE-PROXY", ours, [false, false]),
        ] {
            check(WARY, name, &table, wary);
            check(CONFLICTING, name, &table, namesake);
            check(WARY.union(&[CONFLICTING]), name, &table, wary || namesake);
        }
    }

    #[test]
    fn joined_owners_own_the_union() {
        let joined = WARY.union(&[WARY, CONFLICTING]);
        assert_eq!(joined.each().map(|one| one.mesh).collect::<Vec<_>>(), ["owner", "namesake"]);
        for (comment, [wary, namesake, both]) in [
            ("sidecar-init", [true, false, true]),
            ("sidecar-init-namesake", [false, true, true]),
            ("namesake/redirects", [false, true, true]),
            ("anything", [false, false, false]),
        ] {
            let found = [WARY, CONFLICTING, joined].map(|owner| owner.owns_comment(comment));
            assert_eq!(found, [wary, namesake, both], "{comment}");
        }
        let found = ["sidecar_init", "sidecar_init_namesake", "filter"].map(|name| joined.owns_table(name));
        assert_eq!(found, [true, true, false]);
    }
}

/// A program whose objects the owner takes over. Its objects have no comment or routing protocol and are recognized by form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Predecessor {
    pub name: &'static str,
    /// The program's base chain rules, except jumps to chains with the owner's prefix.
    pub patterns: &'static [Pattern],
    pub log_group: Option<u16>,
    /// Default mark and routing table of the policy rule; `None` if there is none.
    pub policy_rule: Option<(Mark, u32)>,
    /// `inet` tables.
    pub tables: &'static [&'static str],
}

/// Form of a program's rules, except for flags' values. A rule that only resembles the form is foreign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    pub table: Table,
    pub hook: Hook,
    /// The rule in our syntax, or as listed; `*` matches any part of a word, `#` any number.
    pub rule: &'static str,
    pub proof: Proof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// No other program makes such a rule.
    Form,
    /// Other programs make such rules; the predecessor's other rules in the table prove the origin.
    Table,
    /// Like [`Proof::Table`], if position or another rule for the interface confirms the origin.
    Position,
    /// Like [`Proof::Table`], if `nat`'s jumps to the owner's chains have no comment: predecessors comment all rules or none.
    NoComments,
}

impl Predecessor {
    pub fn pattern(&self, table: Table, hook: Hook, text: &str) -> Option<&'static Pattern> {
        let is_there = |pattern: &&Pattern| (pattern.table, pattern.hook) == (table, hook);
        self.patterns.iter().filter(is_there).find(|pattern| pattern.fits(text))
    }

    /// True if a pattern fits a rule's text, in any chain; [`Proof::NoComments`] patterns count only if `is_uncommented`.
    pub(crate) fn may_have_made(&self, text: &str, is_uncommented: bool) -> bool {
        let counts = |pattern: &&Pattern| is_uncommented || pattern.proof != Proof::NoComments;
        self.patterns.iter().filter(counts).any(|pattern| pattern.fits(text))
    }

    pub fn logs(&self, rule: &Rule) -> bool {
        matches!(rule.target, Target::Nflog { group, .. } if Some(group) == self.log_group)
    }
}

pub(crate) fn marks(rule: &Rule) -> impl Iterator<Item = u32> {
    rule.matches.iter().filter_map(|m| match m {
        Match::Mark(Negatable::Is(mark)) | Match::Connmark(Negatable::Is(mark)) => Some(mark.value),
        _ => None,
    })
}

impl Pattern {
    fn fits(&self, rule: &str) -> bool {
        let (mut desired, mut words) = (self.rule.split(' '), rule.split(' '));
        desired.by_ref().all(|desired| words.next().is_some_and(|word| is_like(word, desired)))
            && words.next().is_none()
    }
}

fn is_like(word: &str, desired: &str) -> bool {
    match desired.split_once('*') {
        Some((start, end)) => word.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None if desired == "#" => word.bytes().all(|byte| byte.is_ascii_digit()),
        None => word == desired,
    }
}
