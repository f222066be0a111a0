//! Tables of iptables (nft) that its program can't show, such as one with a rule that was made with nft.
//!
//! What packets meet there is not known, but whose it is: the kernel names chains, where rules lead, and comments. So a
//! foreign rule in such a table does no harm, rules of ours in it can be removed, and none are set there.

use rules::{Family, Ownership, Table};

/// A table as far as the kernel shows whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    /// The program that can't show it.
    pub program: String,
    /// Why it can't.
    pub why: String,
    /// The names of all chains.
    pub chains: Vec<String>,
    /// All rules, chain by chain in their order.
    pub rules: Vec<HiddenRule>,
}

/// What identifies the owner of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenRule {
    /// The chain that it is in.
    pub chain: String,
    /// The chain that it leads to.
    pub leads_to: Option<String>,
    pub comment: Option<String>,
}

impl Hidden {
    /// The chains that are the owner's.
    pub fn chains_of<'a>(&'a self, owner: &'a Ownership) -> impl Iterator<Item = &'a str> {
        self.chains.iter().map(String::as_str).filter(|chain| self.owns_chain(owner, chain))
    }

    /// Whether a rule outside of the owner's chains is the owner's.
    pub fn owns_rule(&self, owner: &Ownership, rule: &HiddenRule) -> bool {
        let leads = rule.leads_to.as_ref().is_some_and(|chain| self.owns_chain(owner, chain));
        let has_comment = rule.comment.as_ref().is_some_and(|comment| owner.owns_comment(comment));
        !self.owns_chain(owner, &rule.chain) && (leads || has_comment)
    }

    /// Whether anything of the owner's is in it.
    pub fn holds_any_of(&self, owner: &Ownership) -> bool {
        self.evidence_of(owner).is_some()
    }

    /// By what the owner is known, in words; `None` if nothing of the owner's is there.
    pub fn evidence_of(&self, owner: &Ownership) -> Option<String> {
        let by_rule = || {
            let rule = self.rules.iter().find(|rule| self.owns_rule(owner, rule))?;
            Some(format!("a rule of chain {}", rule.chain))
        };
        self.chains_of(owner).next().map(|chain| format!("chain {chain}")).or_else(by_rule)
    }

    /// What is wrong with a table that is hidden while rules of the owner's are in it; `None` if none are.
    pub fn complaint(&self, family: Family, table: Table, owner: &Ownership) -> Option<String> {
        let what = self.evidence_of(owner)?;
        let (program, table, why) = (&self.program, table.name(), &self.why);
        Some(format!(
            "{program} can't show its table {table} of {family} ({why}), and it contains rules of this program: {what}"
        ))
    }

    fn owns_chain(&self, owner: &Ownership, name: &str) -> bool {
        owner.owns_chain_among(name, &|other| self.chains.iter().any(|chain| chain == other))
    }
}
