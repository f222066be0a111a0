//! Rules of ours in the tables of iptables (nft), removed without its programs.
//!
//! Each program that deletes waits for the kernel to free what it has deleted before it ends (some 10 ms), one after the
//! other. Over our netlink socket all of it is one wait.
//!
//! A rule is found by its place in the listing in which the program showed it, and deleted by the handle that the kernel
//! has for that place. The place means the same rule only as long as nothing has changed since, so the kernel is given
//! the generation of the listing, and takes the removal in that one only.

use super::batch::BatchOperation;
use super::leftovers::Leftover;
use super::{Nftables, RuleHandles};
use crate::sys::{header::NFPROTO_UNSPEC, nfnetlink::nfproto};
use rules::{Chain, Family, State, TableChange};
use std::{collections::BTreeSet, io};

/// The generation of the kernel's rules that the programs of iptables (nft) have listed.
#[derive(Clone, Copy, Debug)]
pub struct ListingGeneration {
    generation: u32,
}

impl ListingGeneration {
    /// Follows a change of ours: the kernel counts it, and leaves zero out (`nf_tables_commit`).
    pub fn follow(&mut self) {
        self.generation = self.generation.checked_add(1).unwrap_or(1);
    }
}

/// What is about to go from the tables of iptables, by family (`NFPROTO_*`) and table.
#[derive(Debug, Default)]
pub(super) struct Removed {
    /// By their handles.
    pub(super) rules: BTreeSet<(u8, String, u64)>,
    /// By their names, with all rules in them.
    pub(super) chains: BTreeSet<(u8, String, String)>,
}

impl Nftables {
    /// The generation for [`Nftables::remove_listed`]. It is read before the programs list the rules, so that no change
    /// during the listing is missed.
    pub fn before_listing(&mut self) -> io::Result<ListingGeneration> {
        Ok(ListingGeneration { generation: self.generation()? })
    }

    /// Removes from the tables of iptables what the changes remove, and the tables and base chains that are left without
    /// rules then: all of it or nothing. `states` is what was listed.
    ///
    /// Returns whether it is done. Where it is not, because rules have changed since the listing or the kernel refuses, the
    /// programs of iptables have to remove the rules, and to report what fails.
    pub fn remove_listed<'a>(
        &mut self,
        listed: ListingGeneration,
        states: impl Fn(Family) -> Option<&'a State>,
        families: &[(Family, Vec<TableChange>)],
    ) -> bool {
        let Ok(handles) = self.rule_handles(NFPROTO_UNSPEC) else { return false };
        let Some((mut jobs, gone)) = jobs(states, &handles, families) else { return false };
        let Ok(leftovers) = self.leftovers(&handles, &gone) else { return false };
        jobs.extend(leftovers.iter().map(Leftover::job));
        match self.commit(&jobs, Some(listed.generation)) {
            Ok(()) => true,
            Err(refusal) => {
                tracing::debug!(target: "backend", %refusal, "the programs of iptables have to remove rules");
                false
            }
        }
    }
}

/// The jobs for the kernel, and what is gone then: first rules outside of our chains, then what is in those, then the
/// chains, to which nothing jumps any more. `None` where the kernel's rules are not those that were listed.
fn jobs<'a, 's>(
    states: impl Fn(Family) -> Option<&'s State>,
    handles: &RuleHandles,
    families: &'a [(Family, Vec<TableChange>)],
) -> Option<(Vec<BatchOperation<'a>>, Removed)> {
    let (mut jobs, mut gone) = (Vec::new(), Removed::default());
    for (family, changes) in families {
        let (state, family) = (states(*family)?, nfproto(*family));
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
            jobs.extend(
                remove.iter().map(|chain| BatchOperation::DeleteRules(family, table, chain.as_str(), None)),
            );
            jobs.extend(
                remove.iter().map(|chain| BatchOperation::DeleteChain(family, table, chain.as_str())),
            );
            let names = remove.iter().map(|chain| (family, table.to_owned(), chain.as_str().to_owned()));
            gone.chains.extend(names);
        }
    }
    Some((jobs, gone))
}
