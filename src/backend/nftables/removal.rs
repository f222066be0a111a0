//! Removes our rules from iptables (nft) tables over netlink, then tables and chains that are left empty.
//!
//! Each iptables program waits some 10 ms for the kernel to free deleted objects, one program after another; our netlink socket
//! waits once. A rule is found by its position in the program's listing and deleted by the handle at that position, only in the
//! listing's generation.
//!
//! Empty base chains, and tables with nothing else, are removed; iptables recreates them on demand. Chains and tables that
//! iptables would not have made this way belong to other programs and stay.

use super::read::{self, TableHeader};
use super::{Nftables, Refusal, RuleHandles, agreed, batch::BatchOperation, retry};
use crate::sys::header::*;
use crate::sys::netfilter::lacks_nf_tables;
use rules::{Chain, Family, Listing, Ownership, State, Table, TableChange, nft::family_number, plan};
use std::{collections::BTreeSet, io};

/// Rules to be removed from iptables tables, by family (`NFPROTO_*`) and table.
#[derive(Debug, Default)]
struct Removed {
    rules: BTreeSet<(u8, String, u64)>,
    chains: BTreeSet<(u8, String, String)>,
}

impl Nftables {
    /// Removes the rules of the changes, and tables and base chains left without rules: all or nothing. Returns false if rules
    /// have changed since the listing, or the kernel refuses: the iptables programs then remove the rules and report failures.
    pub fn remove_listed<'a>(
        &mut self,
        listed: u32,
        states: impl Fn(Family) -> Option<&'a State>,
        families: &[(Family, Vec<TableChange>)],
    ) -> bool {
        let Ok(handles) = self.rule_handles(NFPROTO_UNSPEC) else { return false };
        let Some((mut jobs, gone)) = jobs(states, &handles, families) else { return false };
        let Ok(leftovers) = self.leftovers(&handles, &gone) else { return false };
        jobs.extend(leftovers.iter().map(Leftover::job));
        match self.commit(&jobs, Some(listed)) {
            Ok(()) => true,
            Err(refusal) => {
                tracing::debug!(target: "backend", %refusal, "the iptables programs must remove the rules");
                false
            }
        }
    }
}

/// Operations for the kernel, and the removed objects: first rules outside our chains, then rules in them, then the chains, to
/// which nothing jumps any more. `None` if the kernel's rules differ from the listing.
fn jobs<'a, 's>(
    states: impl Fn(Family) -> Option<&'s State>,
    handles: &RuleHandles,
    families: &'a [(Family, Vec<TableChange>)],
) -> Option<(Vec<BatchOperation<'a>>, Removed)> {
    let (mut jobs, mut gone) = (Vec::new(), Removed::default());
    for (family, changes) in families {
        let (state, family) = (states(*family)?, family_number(*family));
        for TableChange { table, delete, remove, .. } in changes {
            let (of, table) = (*table, table.name());
            let mut places: Vec<(&Chain, usize)> = Vec::new();
            for (chain, line) in delete {
                let lines = state.lines(of, chain);
                let handles = handles.get(&(family, table.to_owned(), chain.as_str().to_owned()))?;
                let mut alike = (0..lines.len()).filter(|place| lines[*place] == *line);
                let place = alike.find(|place| !places.contains(&(chain, *place)))?;
                places.push((chain, place));
                let handle = *handles.get(place).filter(|_| handles.len() == lines.len())?;
                gone.rules.insert((family, table.to_owned(), handle));
                jobs.push(BatchOperation::DeleteRules(family, table, chain.as_str(), Some(handle)));
            }
            let names = || remove.iter().map(|chain| chain.as_str());
            jobs.extend(names().map(|chain| BatchOperation::DeleteRules(family, table, chain, None)));
            jobs.extend(names().map(|chain| BatchOperation::DeleteChain(family, table, chain)));
            gone.chains.extend(names().map(|chain| (family, table.to_owned(), chain.to_owned())));
        }
    }
    Some((jobs, gone))
}

const NAMES: [&str; 5] = ["nat", "mangle", "raw", "filter", "security"];

#[derive(Debug, PartialEq, Eq)]
struct Leftover {
    family: u8,
    table: &'static str,
    chain: Option<String>,
}

impl Leftover {
    fn job(&self) -> BatchOperation<'_> {
        match &self.chain {
            Some(chain) => BatchOperation::DeleteChain(self.family, self.table, chain),
            None => BatchOperation::Delete(self.family, self.table),
        }
    }
}

impl Nftables {
    /// Deletes iptables' empty base chains, and tables with nothing else.
    pub fn remove_empty_iptables_tables(&mut self) -> Result<(), Refusal> {
        retry(|| {
            let read = |nftables: &mut Self| {
                let (generation, handles) = (nftables.generation()?, nftables.rule_handles(NFPROTO_UNSPEC)?);
                Ok((generation, nftables.leftovers(&handles, &Removed::default())?))
            };
            let (generation, leftovers) = match read(self) {
                Err(error) if lacks_nf_tables(&error) => return Ok(()),
                other => other.map_err(|source| Refusal::of("listing iptables tables", source))?,
            };
            let jobs: Vec<BatchOperation<'_>> = leftovers.iter().map(Leftover::job).collect();
            self.commit(&jobs, Some(generation))
        })
    }

    /// Objects left empty by removing `gone`. `handles` covers all rules.
    fn leftovers(&mut self, handles: &RuleHandles, gone: &Removed) -> io::Result<Vec<Leftover>> {
        let mut leftovers = Vec::new();
        for family in Family::BOTH.map(family_number) {
            let tables =
                self.list(NFT_MSG_GETTABLE, family, |_, table| read::name(table, NFTA_TABLE_NAME))?;
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
                match self.list(message, family, |_, object| read::name(object, table)) {
                    // Kernels before 4.10 have no objects; before 4.16, no flow tables.
                    Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) => {}
                    found => with_objects.extend(found?),
                }
            }
            let chains = self.list(NFT_MSG_GETCHAIN, family, |family, attributes| {
                let (table, chain) = (read::name(attributes, NFTA_CHAIN_TABLE)?, read::chain(attributes)?);
                let drops = chain.base.as_ref().is_some_and(|base| base.policy == NF_DROP);
                let as_made = chain.is_of_iptables(family, &table) && !drops;
                Some((table, chain.name, as_made))
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
                // The last chain goes with its table: iptables leaves no table without chains.
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

    pub fn unlistable(&mut self, family: Family, table: Table) -> io::Result<Listing> {
        let (of, name) = (family_number(family), table.name().to_owned());
        let header = TableHeader { family: of, name, flags: 0, port: None };
        let (read, _) = read::counted(&mut self.socket, &header)?;
        Ok(agreed(Listing::empty(family), &[read]))
    }

    /// Removes the owner's rules from an unlistable table: all or nothing.
    pub fn clean_unlistable(&mut self, place: (Family, Table), owner: &Ownership) -> Result<(), Refusal> {
        let (family, table) = place;
        let unread = |source| Refusal::of(format!("reading the table {}", table.name()), source);
        retry(|| {
            let generation = self.generation().map_err(unread)?;
            let state = self.unlistable(family, table).map_err(unread)?.state(owner);
            let handles = self.rule_handles(family_number(family)).map_err(unread)?;
            let changes = [(family, plan::plan(&state, &State::default(), owner, false))];
            // A missing handle means rules were added or removed since.
            let (jobs, _) = jobs(|_| Some(&state), &handles, &changes)
                .ok_or_else(|| Refusal::Conflict(io::ErrorKind::ResourceBusy.into()))?;
            self.commit(&jobs, Some(generation))
        })
    }
}
