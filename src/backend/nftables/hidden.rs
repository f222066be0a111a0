//! Tables of iptables that its program can't show: read as far as it matters, and cleaned, without it.

use super::batch::Job;
use super::expression::{Expression, Verdict};
use super::tables::TableHeader;
use super::{Nftables, Refusal, bytecode, read};
use crate::backend::hidden::{Hidden, HiddenRule};
use crate::sys::header::*;
use crate::sys::{
    message::{attribute, text},
    nfnetlink::nfproto,
};
use rules::{Family, Ownership, Table};
use std::{collections::BTreeMap, io};

/// How often to look again when others change rules meanwhile.
const TRIES: u32 = 10;

/// How many rules each chain holds, by table and chain.
pub type Counts = BTreeMap<String, BTreeMap<String, usize>>;

impl Nftables {
    /// How many rules there are in the tables of a family.
    pub fn counts(&mut self, family: Family) -> io::Result<Counts> {
        read::counts(&mut self.socket, nfproto(family))
    }

    /// Whose rules are in a table of iptables.
    pub fn hidden(&mut self, family: Family, table: Table) -> io::Result<Hidden> {
        let outside =
            TableHeader { family: nfproto(family), name: table.name().to_owned(), flags: 0, port: None };
        let read = read::table(&mut self.socket, &outside)?;
        let chains = read.chains.iter().map(|chain| chain.name.clone()).collect();
        let of_chain = |chain: &bytecode::Chain| -> Vec<HiddenRule> {
            chain.rules.iter().map(|rule| told(&chain.name, rule)).collect()
        };
        let rules = read.chains.iter().flat_map(of_chain).collect();
        Ok(Hidden { chains, rules, ..Hidden::default() })
    }

    /// Removes all that is the owner's from a table of iptables: all of it or nothing.
    pub fn remove_hidden(&mut self, family: Family, table: Table, owner: &Ownership) -> Result<(), Refusal> {
        let (of, name) = (nfproto(family), table.name());
        let mut tries = TRIES;
        loop {
            let looked = self
                .generation()
                .and_then(|id| Ok((id, self.hidden(family, table)?, self.handles_of(family, name)?)));
            let (generation, hidden, mut handles) = looked.map_err(|source| Refusal::Refused {
                subject: format!("reading the table {name}"),
                explanation: None,
                source,
            })?;
            let mut jobs = Vec::new();
            for rule in &hidden.rules {
                let handle = handles.get_mut(&rule.chain).and_then(Iterator::next);
                if hidden.owns_rule(owner, rule) {
                    let Some(handle) = handle else {
                        return Err(Refusal::Conflict(io::ErrorKind::ResourceBusy.into()));
                    };
                    jobs.push(Job::DeleteRules(of, name, &rule.chain, Some(handle)));
                }
            }
            jobs.extend(hidden.chains_of(owner).map(|chain| Job::DeleteRules(of, name, chain, None)));
            jobs.extend(hidden.chains_of(owner).map(|chain| Job::DeleteChain(of, name, chain)));
            if jobs.is_empty() {
                return Ok(());
            }
            tries -= 1;
            match self.commit(&jobs, Some(generation)) {
                Err(Refusal::Conflict(_)) if tries > 0 => {}
                other => return other,
            }
        }
    }

    /// The handles of the rules of a table, chain by chain in their order.
    fn handles_of(
        &mut self,
        family: Family,
        table: &str,
    ) -> io::Result<BTreeMap<String, std::vec::IntoIter<u64>>> {
        let of_table =
            self.handles()?.into_iter().filter(|((of, name, _), _)| *of == family && name == table);
        Ok(of_table.map(|((_, _, chain), handles)| (chain, handles.into_iter())).collect())
    }
}

/// What identifies the owner of a rule.
fn told(chain: &str, rule: &bytecode::Rule) -> HiddenRule {
    let leads_to = rule.expressions.iter().find_map(|expression| match expression {
        Expression::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => Some(chain.clone()),
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
    HiddenRule { chain: chain.to_owned(), leads_to, comment: beside.or_else(by_match) }
}
