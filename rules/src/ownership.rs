//! By what the rules and the routing of a policy are known again.
//!
//! A policy hands its ownership to whoever checks, compares, changes or cleans. It is all that cleaning needs to
//! know: no option that made a rule has to be remembered.

use crate::{Chain, ChainName, Comment, Match, Neighbour, Predecessor, Rule, Target};
use std::net::Ipv6Addr;

/// The marks of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ownership {
    /// Prefix of the names of its chains in the tables of iptables.
    pub chain_prefix: &'static str,
    /// Comment on its rules in base chains that do not jump to a chain of its own.
    pub comment: &'static str,
    /// Name of its table of nf_tables, of the family `inet`.
    pub table: &'static str,
    /// Routing protocol number of its policy rules, routes and addresses (`rtm_protocol` in `linux/rtnetlink.h`).
    pub protocol: u8,
    /// What its policy rules are like, beside their mark and their table.
    pub policy_rules: PolicyRules,
    /// The address that it may put on `lo`. Kernels before 5.18 forget the protocol of addresses; there this one counts
    /// as its own.
    pub address: Ipv6Addr,
    /// Whose work it takes over.
    pub predecessor: Option<&'static Predecessor>,
    /// Who uses names of its prefix too.
    pub neighbours: &'static [Neighbour],
}

/// The form of an owner's policy rules. One of another form is none that the owner would make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicyRules {
    /// Which bits of a packet's mark they compare (`FRA_FWMASK` in `linux/fib_rules.h`).
    pub mask: u32,
    /// Their place among all rules (`FRA_PRIORITY`); `None` where it is left to the kernel.
    pub preference: Option<u32>,
}

impl PolicyRules {
    /// Those that compare the whole mark, at a place of the kernel's choice.
    pub const PLAIN: Self = Self { mask: u32::MAX, preference: None };
}

impl Ownership {
    pub fn owns_chain_named(&self, name: &ChainName) -> bool {
        let is_theirs = |neighbour: &Neighbour| {
            name.as_str() == neighbour.chain || neighbour.others.contains(&name.as_str())
        };
        name.as_str().starts_with(self.chain_prefix) && !self.neighbours.iter().any(is_theirs)
    }

    /// Whether the whole chain belongs to the owner.
    pub fn owns_chain(&self, chain: &Chain) -> bool {
        matches!(chain, Chain::User(name) if self.owns_chain_named(name))
    }

    /// Whether a rule in a chain that is not the owner's is the owner's all the same: it jumps to a chain of the owner's,
    /// or carries the comment.
    pub fn owns_rule(&self, rule: &Rule) -> bool {
        matches!(&rule.target, Target::Jump(chain) if self.owns_chain_named(chain)) || self.marks_rule(rule)
    }

    /// Whether a rule carries the comment, which nobody else gives.
    pub fn marks_rule(&self, rule: &Rule) -> bool {
        rule.matches
            .iter()
            .any(|m| matches!(m, Match::Comment(comment) if self.owns_comment(comment.as_str())))
    }

    pub fn owns_comment(&self, comment: &str) -> bool {
        comment == self.comment
    }

    /// The comment for rules of the owner's in base chains.
    ///
    /// # Panics
    /// If it is none that a rule can carry, which is a defect of the policy.
    pub fn rule_comment(&self) -> Comment {
        self.comment.parse().expect("owners have valid comments")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const OWNER: Ownership = Ownership {
        chain_prefix: "ISTIO_",
        comment: "sidecar-init",
        table: "sidecar_init",
        protocol: 137,
        policy_rules: PolicyRules::PLAIN,
        address: Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6),
        predecessor: None,
        neighbours: &[],
    };
}
