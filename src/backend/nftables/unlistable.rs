//! Tables of iptables that its program can't show: read as far as it matters, and cleaned, without it.

use super::batch::BatchOperation;
use super::expression::{EncodedVerdict, Expression};
use super::tables::TableHeader;
use super::{Nftables, Refusal, bytecode, read, retry};
use crate::backend::unlistable::{UnlistableRule, UnlistableTable};
use crate::sys::header::*;
use crate::sys::{
    message::{attribute, text},
    nfnetlink::nfproto,
};
use rules::{Family, Ownership, Table};
use std::io;

impl Nftables {
    /// Whose rules are in a table of iptables.
    pub fn unlistable(&mut self, family: Family, table: Table) -> io::Result<UnlistableTable> {
        let outside =
            TableHeader { family: nfproto(family), name: table.name().to_owned(), flags: 0, port: None };
        let read = read::table(&mut self.socket, &outside)?;
        let chains = read.chains.iter().map(|chain| chain.name.clone()).collect();
        let of_chain = |chain: &bytecode::EncodedChain| -> Vec<UnlistableRule> {
            chain.rules.iter().map(|rule| unlistable_rule(&chain.name, rule)).collect()
        };
        let rules = read.chains.iter().flat_map(of_chain).collect();
        Ok(UnlistableTable { chains, rules, ..UnlistableTable::default() })
    }

    /// Removes all that is the owner's from a table of iptables: all of it or nothing.
    pub fn clean_unlistable(
        &mut self,
        family: Family,
        table: Table,
        owner: &Ownership,
    ) -> Result<(), Refusal> {
        let (of, name) = (nfproto(family), table.name());
        let unread = |source| Refusal::of(format!("reading the table {name}"), source);
        retry(|| {
            let generation = self.generation().map_err(unread)?;
            let unlistable = self.unlistable(family, table).map_err(unread)?;
            let mut handles = self.rule_handles(of).map_err(unread)?;
            let mut next_handle = |chain: &str| {
                let left = handles.get_mut(&(of, name.to_owned(), chain.to_owned()))?;
                (!left.is_empty()).then(|| left.remove(0))
            };
            let mut jobs = Vec::new();
            for rule in &unlistable.rules {
                let handle = next_handle(&rule.chain);
                if unlistable.is_rule_of(owner, rule) {
                    // A rule without a handle has come or gone since.
                    let handle =
                        handle.ok_or_else(|| Refusal::Conflict(io::ErrorKind::ResourceBusy.into()))?;
                    jobs.push(BatchOperation::DeleteRules(of, name, &rule.chain, Some(handle)));
                }
            }
            jobs.extend(
                unlistable.chains_of(owner).map(|chain| BatchOperation::DeleteRules(of, name, chain, None)),
            );
            jobs.extend(
                unlistable.chains_of(owner).map(|chain| BatchOperation::DeleteChain(of, name, chain)),
            );
            if jobs.is_empty() { Ok(()) } else { self.commit(&jobs, Some(generation)) }
        })
    }
}

/// What identifies the owner of a rule.
fn unlistable_rule(chain: &str, rule: &bytecode::EncodedRule) -> UnlistableRule {
    let leads_to = rule.expressions.iter().find_map(|expression| match expression {
        Expression::Verdict(EncodedVerdict::Jump(chain) | EncodedVerdict::Goto(chain)) => Some(chain.clone()),
        _ => None,
    });
    // iptables keeps a comment as a match; nft, and other versions of iptables, beside the rule.
    let by_match = || {
        rule.expressions.iter().find_map(|expression| match expression {
            Expression::Other { name, data } if name == "match" => {
                let is_comment = attribute(data, NFTA_MATCH_NAME).map(text) == Some("comment");
                let comment = attribute(data, NFTA_MATCH_INFO).map(text)?;
                is_comment.then(|| comment.to_owned())
            }
            _ => None,
        })
    };
    let beside = Some(rule.comment()).filter(|comment| !comment.is_empty()).map(str::to_owned);
    UnlistableRule { chain: chain.to_owned(), leads_to, comment: beside.or_else(by_match) }
}
