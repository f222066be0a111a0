//! Tables of iptables (nft) that its program can't list, such as one with a rule that was made with nft.
//!
//! What the rules do to packets is not known, but who owns them is: nf_tables shows chains, jumps and comments. So a foreign
//! rule in such a table does no harm, rules of ours in it can be removed, and none are set there.

use rules::{Family, Ownership, Table};

/// The chains, jumps and comments of such a table, which tell who owns what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnlistableTable {
    /// The program that can't list it.
    pub program: String,
    /// Why it can't.
    pub why: String,
    /// The names of all chains.
    pub chains: Vec<String>,
    /// All rules, chain by chain in their order.
    pub rules: Vec<UnlistableRule>,
}

/// What identifies the owner of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnlistableRule {
    /// The chain that it is in.
    pub chain: String,
    /// The chain that it leads to.
    pub leads_to: Option<String>,
    pub comment: Option<String>,
}

impl UnlistableTable {
    /// The chains that are the owner's.
    pub fn chains_of<'a>(&'a self, owner: &'a Ownership) -> impl Iterator<Item = &'a str> {
        self.chains.iter().map(String::as_str).filter(|chain| self.is_chain_of(owner, chain))
    }

    /// Whether a rule outside of the owner's chains is the owner's, by its jump or its comment.
    pub fn is_rule_of(&self, owner: &Ownership, rule: &UnlistableRule) -> bool {
        let leads = rule.leads_to.as_ref().is_some_and(|chain| self.is_chain_of(owner, chain));
        let has_comment = rule.comment.as_ref().is_some_and(|comment| owner.owns_comment(comment));
        !self.is_chain_of(owner, &rule.chain) && (leads || has_comment)
    }

    /// Whether anything of the owner's is in it.
    pub fn holds_any_of(&self, owner: &Ownership) -> bool {
        self.evidence_of(owner).is_some()
    }

    /// By what the owner is known, in words; `None` if nothing of the owner's is there.
    pub fn evidence_of(&self, owner: &Ownership) -> Option<String> {
        let by_rule = || {
            let rule = self.rules.iter().find(|rule| self.is_rule_of(owner, rule))?;
            Some(format!("a rule of chain {}", rule.chain))
        };
        self.chains_of(owner).next().map(|chain| format!("chain {chain}")).or_else(by_rule)
    }

    /// The problem that rules of the owner's are in this table; `None` if none are.
    pub fn problem(&self, family: Family, table: Table, owner: &Ownership) -> Option<String> {
        let what = self.evidence_of(owner)?;
        let (program, table, why) = (&self.program, table.name(), &self.why);
        Some(format!(
            "{program} can't show its table {table} of {family} ({why}), and it contains rules of this program: {what}"
        ))
    }

    fn is_chain_of(&self, owner: &Ownership, name: &str) -> bool {
        owner.owns_chain_among(name, &|other| self.chains.iter().any(|chain| chain == other))
    }
}
