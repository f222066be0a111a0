//! What iptables (nft) leaves behind when its rules are gone: base chains without rules, and tables with nothing
//! else. It makes them again when it needs them, and removes them itself when asked to (`iptables -X CHAIN`).
//!
//! Others may use tables of these names too. What iptables would not have made so is theirs, and stays.

use super::batch::Job;
use super::removal::{Removed, rule};
use super::{Nftables, Refusal, kind};
use crate::sys::header::*;
use crate::sys::{
    message::{attribute, text},
    netfilter::{base_chain, lacks_nf_tables},
    netlink::{Request, Socket},
    nfnetlink::{body, nfgenmsg, nfproto},
};
use rules::Family;
use std::{collections::BTreeSet, io};

/// The tables of iptables in which chains of ours may have stood.
const NAMES: [&str; 5] = ["nat", "mangle", "raw", "filter", "security"];

/// How often to look again when others change rules meanwhile.
const TRIES: u32 = 10;

/// What can go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Leftover {
    family: Family,
    table: &'static str,
    /// One chain of the table; `None` for the table as a whole.
    chain: Option<String>,
}

impl Leftover {
    pub(super) fn job(&self) -> Job<'_> {
        match &self.chain {
            Some(chain) => Job::DeleteChain(nfproto(self.family), self.table, chain),
            None => Job::Delete(nfproto(self.family), self.table),
        }
    }
}

impl Nftables {
    /// Deletes base chains that are as iptables makes them and hold no rule, and tables that hold nothing else; says how
    /// many. Only if nothing changes between the look and the deletion.
    pub fn remove_empty_iptables_tables(&mut self) -> Result<usize, Refusal> {
        let mut tries = TRIES;
        loop {
            let looked = self.generation().and_then(|id| Ok((id, self.leftovers(&Removed::default())?)));
            let (generation, leftovers) = match looked {
                Err(error) if lacks_nf_tables(&error) => return Ok(0),
                other => other.map_err(|source| Refusal::Refused {
                    subject: "listing the tables of iptables".to_owned(),
                    explanation: None,
                    source,
                })?,
            };
            if leftovers.is_empty() {
                return Ok(0);
            }
            let jobs: Vec<Job<'_>> = leftovers.iter().map(Leftover::job).collect();
            tries -= 1;
            match self.commit(&jobs, Some(generation)) {
                Err(Refusal::Conflict(_)) if tries > 0 => {}
                other => return other.map(|()| leftovers.len()),
            }
        }
    }

    /// What can go once that is gone.
    pub(super) fn leftovers(&mut self, gone: &Removed) -> io::Result<Vec<Leftover>> {
        let mut leftovers = Vec::new();
        for family in Family::BOTH {
            let tables: BTreeSet<String> =
                list(&mut self.socket, family, NFT_MSG_GETTABLE, |a| name(a, NFTA_TABLE_NAME))?
                    .into_iter()
                    .collect();
            if !NAMES.iter().any(|name| tables.contains(*name)) {
                continue;
            }
            let mut furnished = BTreeSet::new();
            for (message, table) in [
                (NFT_MSG_GETSET, NFTA_SET_TABLE),
                (NFT_MSG_GETOBJ, NFTA_OBJ_TABLE),
                (NFT_MSG_GETFLOWTABLE, NFTA_FLOWTABLE_TABLE),
            ] {
                match list(&mut self.socket, family, message, |a| name(a, table)) {
                    // A kernel that does not know the kind (objects came with 4.10, flow tables with 4.16) has none.
                    Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) => {}
                    found => furnished.extend(found?),
                }
            }
            let rules = list(&mut self.socket, family, NFT_MSG_GETRULE, rule)?.into_iter();
            let stays = |(table, _, handle): &(String, String, u64)| {
                !gone.rules.contains(&(family, table.clone(), *handle))
            };
            let filled: BTreeSet<(String, String)> =
                rules.filter(stays).map(|(table, chain, _)| (table, chain)).collect();
            let chains: BTreeSet<(String, String, bool)> =
                list(&mut self.socket, family, NFT_MSG_GETCHAIN, |a| {
                    let base = base_chain(nfproto(family), a);
                    let as_made = base.is_some_and(|chain| chain.is_of_iptables() && !chain.drops);
                    Some((name(a, NFTA_CHAIN_TABLE)?, name(a, NFTA_CHAIN_NAME)?, as_made))
                })?
                .into_iter()
                .filter(|(table, chain, _)| !gone.chains.contains(&(family, table.clone(), chain.clone())))
                .collect();
            for table in NAMES.into_iter().filter(|table| tables.contains(*table)) {
                let chains: Vec<_> = chains.iter().filter(|(of, ..)| of == table).collect();
                let is_empty = |(table, chain, as_made): &&&(String, String, bool)| {
                    *as_made && !filled.contains(&(table.clone(), chain.clone()))
                };
                let empty: Vec<_> = chains.iter().filter(is_empty).collect();
                // Its last chain goes with the table: iptables leaves none without.
                if empty.len() == chains.len() && !chains.is_empty() && !furnished.contains(table) {
                    leftovers.push(Leftover { family, table, chain: None });
                } else {
                    let chain = |(_, chain, _): &(String, String, bool)| Some(chain.clone());
                    leftovers.extend(empty.iter().map(|empty| Leftover {
                        family,
                        table,
                        chain: chain(empty),
                    }));
                }
            }
        }
        Ok(leftovers)
    }
}

/// The objects of a kind, as `read` sees their attributes.
pub(super) fn list<T>(
    socket: &mut Socket,
    family: Family,
    message: u8,
    read: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let request = Request { kind: kind(message), flags: 0, head: &nfgenmsg(nfproto(family), 0) };
    socket.dump(&request, |payload| {
        let attributes = body(payload)?;
        (payload.first() == Some(&nfproto(family))).then(|| read(attributes))?
    })
}

pub(super) fn name(attributes: &[u8], kind: u16) -> Option<String> {
    attribute(attributes, kind).map(|payload| text(payload).to_owned())
}
