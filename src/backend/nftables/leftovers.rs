//! What iptables (nft) leaves behind when its rules are gone: base chains without rules, and tables with nothing
//! else. It makes them again when it needs them, and removes them itself on request (`iptables -X CHAIN`).
//!
//! Others may use tables of these names too. What iptables would not have made so is theirs, and stays.

use super::batch::BatchOperation;
use super::read::name;
use super::removal::Removed;
use super::{Nftables, Refusal, RuleHandles, retry};
use crate::sys::header::*;
use crate::sys::{
    netfilter::{base_chain, lacks_nf_tables},
    nfnetlink::nfproto,
};
use rules::Family;
use std::{collections::BTreeSet, io};

/// The tables of iptables in which chains of ours may have stood.
const NAMES: [&str; 5] = ["nat", "mangle", "raw", "filter", "security"];

/// What can go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Leftover {
    /// `NFPROTO_*`.
    family: u8,
    table: &'static str,
    /// One chain of the table; `None` for the table as a whole.
    chain: Option<String>,
}

impl Leftover {
    pub(super) fn job(&self) -> BatchOperation<'_> {
        match &self.chain {
            Some(chain) => BatchOperation::DeleteChain(self.family, self.table, chain),
            None => BatchOperation::Delete(self.family, self.table),
        }
    }
}

impl Nftables {
    /// Deletes base chains that are as iptables makes them and hold no rule, and tables that hold nothing else. Only if
    /// nothing changes between the look and the deletion.
    pub fn remove_empty_iptables_tables(&mut self) -> Result<(), Refusal> {
        retry(|| {
            let read = |nftables: &mut Self| {
                let (generation, handles) = (nftables.generation()?, nftables.rule_handles(NFPROTO_UNSPEC)?);
                Ok((generation, nftables.leftovers(&handles, &Removed::default())?))
            };
            let (generation, leftovers) = match read(self) {
                Err(error) if lacks_nf_tables(&error) => return Ok(()),
                other => other.map_err(|source| Refusal::of("listing the tables of iptables", source))?,
            };
            let jobs: Vec<BatchOperation<'_>> = leftovers.iter().map(Leftover::job).collect();
            if jobs.is_empty() { Ok(()) } else { self.commit(&jobs, Some(generation)) }
        })
    }

    /// What can go once that is gone. `handles` are those of all rules.
    pub(super) fn leftovers(&mut self, handles: &RuleHandles, gone: &Removed) -> io::Result<Vec<Leftover>> {
        let mut leftovers = Vec::new();
        for family in Family::BOTH.map(nfproto) {
            let tables = self.list(NFT_MSG_GETTABLE, family, |_, table| name(table, NFTA_TABLE_NAME))?;
            let tables: BTreeSet<String> = tables.into_iter().collect();
            if !NAMES.iter().any(|name| tables.contains(*name)) {
                continue;
            }
            let mut with_objects = BTreeSet::new();
            for (message, table) in [
                (NFT_MSG_GETSET, NFTA_SET_TABLE),
                (NFT_MSG_GETOBJ, NFTA_OBJ_TABLE),
                (NFT_MSG_GETFLOWTABLE, NFTA_FLOWTABLE_TABLE),
            ] {
                match self.list(message, family, |_, object| name(object, table)) {
                    // A kernel that does not know the kind (objects came with 4.10, flow tables with 4.16) has none.
                    Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) => {}
                    found => with_objects.extend(found?),
                }
            }
            let chains = self.list(NFT_MSG_GETCHAIN, family, |family, chain| {
                let base = base_chain(family, chain);
                let as_made = base.is_some_and(|chain| chain.is_of_iptables() && !chain.drops);
                Some((name(chain, NFTA_CHAIN_TABLE)?, name(chain, NFTA_CHAIN_NAME)?, as_made))
            })?;
            let is_kept = |(table, chain, _): &&(String, String, bool)| {
                !gone.chains.contains(&(family, table.clone(), chain.clone()))
            };
            let is_empty = |(table, chain, as_made): &&&(String, String, bool)| {
                let of_chain = handles.get(&(family, table.clone(), chain.clone())).into_iter().flatten();
                let is_gone = |handle: &u64| gone.rules.contains(&(family, table.clone(), *handle));
                *as_made && of_chain.into_iter().all(is_gone)
            };
            for table in NAMES.into_iter().filter(|table| tables.contains(*table)) {
                let chains: Vec<_> = chains.iter().filter(|(of, ..)| of == table).filter(is_kept).collect();
                let empty: Vec<_> = chains.iter().filter(is_empty).collect();
                // Its last chain goes with the table: iptables leaves none without.
                if empty.len() == chains.len() && !chains.is_empty() && !with_objects.contains(table) {
                    leftovers.push(Leftover { family, table, chain: None });
                } else {
                    let leftover = |(_, chain, _): &&&(String, String, bool)| Leftover {
                        family,
                        table,
                        chain: Some(chain.clone()),
                    };
                    leftovers.extend(empty.iter().map(leftover));
                }
            }
        }
        Ok(leftovers)
    }
}
