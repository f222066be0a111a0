//! What iptables (nft) leaves behind when its rules are gone: base chains without rules, and tables with nothing
//! else. It makes them anew when it needs them, and removes them itself when asked to (`iptables -X CHAIN`).
//!
//! Others may use tables of these names too. What iptables would not have made so is theirs, and stays.

use super::batch::Job;
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
struct Leftover {
    family: Family,
    table: &'static str,
    /// One chain of the table; `None` for the table as a whole.
    chain: Option<String>,
}

impl Leftover {
    fn job(&self) -> Job<'_> {
        match &self.chain {
            Some(chain) => Job::DeleteChain(nfproto(self.family), self.table, chain),
            None => Job::Delete(nfproto(self.family), self.table),
        }
    }
}

impl Nftables {
    /// Deletes base chains that are as iptables makes them and hold no rule, and tables that hold nothing else; says how
    /// many. Only if nothing changes between the look and the deletion.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove_empty_iptables_tables(&mut self) -> Result<usize, Refusal> {
        let mut tries = TRIES;
        loop {
            let (generation, leftovers) = match self.leftovers() {
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

    fn leftovers(&mut self) -> io::Result<(u32, Vec<Leftover>)> {
        let generation = self.generation()?;
        let mut leftovers = Vec::new();
        for family in Family::BOTH {
            let tables: BTreeSet<String> =
                list(&mut self.socket, family, NFT_MSG_GETTABLE, |a| name(a, NFTA_TABLE_NAME))?;
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
            let filled: BTreeSet<(String, String)> = list(&mut self.socket, family, NFT_MSG_GETRULE, |a| {
                name(a, NFTA_RULE_TABLE).zip(name(a, NFTA_RULE_CHAIN))
            })?;
            let chains: BTreeSet<(String, String, bool)> =
                list(&mut self.socket, family, NFT_MSG_GETCHAIN, |a| {
                    let base = base_chain(nfproto(family), a);
                    let as_made = base.is_some_and(|chain| chain.is_of_iptables() && !chain.drops);
                    Some((name(a, NFTA_CHAIN_TABLE)?, name(a, NFTA_CHAIN_NAME)?, as_made))
                })?;
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
        Ok((generation, leftovers))
    }
}

/// The objects of a kind, as `read` sees their attributes.
fn list<T: Ord>(
    socket: &mut Socket,
    family: Family,
    message: u8,
    read: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<BTreeSet<T>> {
    let request = Request { kind: kind(message), flags: 0, head: &nfgenmsg(nfproto(family), 0) };
    let found = socket.dump(&request, |payload| {
        let attributes = body(payload)?;
        (payload.first() == Some(&nfproto(family))).then(|| read(attributes))?
    })?;
    Ok(found.into_iter().collect())
}

fn name(attributes: &[u8], kind: u16) -> Option<String> {
    attribute(attributes, kind).map(|payload| text(payload).to_owned())
}
