//! Queries of a namespace beside its snapshot: all rules that packets meet, of any program, with their counters.

use super::{Kernel, legacy};
use crate::backend::iptables::{self, Counters};
use crate::backend::nftables::{BlockedTable, Counts, RuleHandles, VisibleTable};
use crate::backend::{Error, Variant};
use crate::sys::{header::NFPROTO_UNSPEC, route::FoundRoutes};
use rules::{Family, Listing, Table, nft::LiveTable, routing::Object};
use std::collections::BTreeSet;

/// Attempts to read while others change rules.
const TRIES: u32 = 3;

impl Kernel {
    /// Every rule of iptables (legacy) of a family, of any program, with its counters; `None` if there are no tables.
    pub fn legacy_listing(&self, family: Family) -> Result<Option<Listing>, Error> {
        let Some(tables) = legacy(family, &Table::ALL)? else { return Ok(None) };
        iptables::legacy_listing(self.needed(Variant::Legacy)?, family, &tables, Counters::List).map(Some)
    }

    pub fn has_chain(&mut self, family: Family, table: Table, chain: &str) -> Result<bool, Error> {
        let has = |counts: &Counts| counts.get(table.name()).is_some_and(|chains| chains.contains_key(chain));
        let in_nft = self.look_at_tables()?.is_some_and(|tables| tables.of_iptables(family).contains(&table));
        if in_nft && has(&self.counts(Variant::Nft, family, &[table])?) {
            return Ok(true);
        }
        let in_legacy = legacy(family, &[table])?.is_some_and(|tables| tables.contains(table));
        Ok(in_legacy && has(&self.counts(Variant::Legacy, family, &[table])?))
    }

    /// Policy rules, routes and addresses like those of the owner's, of any program.
    pub fn routing(&mut self) -> Result<BTreeSet<Object>, Error> {
        let FoundRoutes { ours, of_others, .. } = self
            .routes
            .read()
            .map_err(|source| Error::netlink("reading rules, routes and addresses", source))?;
        Ok(ours.into_iter().chain(of_others).map(|entry| entry.object).collect())
    }

    /// Every table of nf_tables that packets of a family meet, with counters: those of iptables as its program prints them,
    /// where that is what the kernel has; all others, and where the program is missing or fails, as our own reader has them.
    pub fn nftables_listing(&mut self, family: Family) -> Result<(Option<Listing>, Vec<LiveTable>), Error> {
        let unread = |source| Error::netlink("reading nf_tables", source);
        let mut tries = TRIES;
        loop {
            let Some(nftables) = self.nftables()? else { return Ok((None, Vec::new())) };
            let generation = nftables.generation().ok();
            let found = nftables.listing(family).map_err(unread)?;
            let is_printable = found.iter().any(|table| table.as_read.is_some());
            let printed = if is_printable { self.printed(family)? } else { None };
            let Some(printed) = printed else {
                return Ok((None, found.into_iter().map(|table| table.listed).collect()));
            };
            tries -= 1;
            if tries > 0 && self.needed_nftables()?.generation().ok() != generation {
                continue;
            }
            let (mut of_iptables, mut others) = (Vec::new(), Vec::new());
            for VisibleTable { as_read, listed } in found {
                match as_read {
                    Some(table) => of_iptables.push(table),
                    None => others.push(listed),
                }
            }
            return Ok((Some(VisibleTable::agreed(printed, &of_iptables)), others));
        }
    }

    /// The rules of iptables (nft) as its program prints them, with their counters; `None` if there is no such program, or
    /// it can't print what else is in its tables.
    fn printed(&self, family: Family) -> Result<Option<Listing>, Error> {
        let programs = self.programs(Variant::Nft).filter(|programs| programs.save(family).is_ok());
        match programs.map(|programs| iptables::listing(programs, family, &[], Counters::List)) {
            None | Some(Err(Error::Program { .. })) => Ok(None),
            Some(shown) => shown.map(|shown| shown.unlistable.is_empty().then_some(shown.listing)),
        }
    }

    /// True if anything does NAT that is neither of the owner's nor one of iptables' usual chains, or if both variants of
    /// iptables are there, of which it is not known which comes first.
    pub fn has_foreign_nat(&mut self) -> Result<bool, Error> {
        let tables = match self.tables.take() {
            // Beside legacy tables it matters what has come since.
            Some(tables) if !self.had_legacy => tables,
            _ => self.look_at_tables()?.unwrap_or_default(),
        };
        let owner = self.owner;
        if tables.are_of(&owner) {
            // As nearly everywhere. Chains can be many.
            return Ok(false);
        }
        let found = self.needed_nftables()?.has_nat(&tables, &owner);
        let (foreign, usual) =
            found.map_err(|source| Error::netlink("listing the chains of nf_tables", source))?;
        if foreign || !usual {
            return Ok(foreign);
        }
        for family in Family::BOTH {
            if legacy(family, &[Table::Nat])?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The tables of nf_tables whose rules do not do what they say: see [`crate::backend::nftables::Obstacle`].
    pub fn blocked_tables(&mut self) -> Result<Vec<BlockedTable>, Error> {
        let owner = self.owner;
        Ok(self.look_at_tables()?.unwrap_or_default().blocked_tables(&owner))
    }

    /// The handles of all rules of nf_tables, and the generation in which they were read.
    pub fn handles(&mut self) -> Result<(u32, RuleHandles), Error> {
        let nftables = self.needed_nftables()?;
        let found = nftables.generation().and_then(|id| Ok((id, nftables.rule_handles(NFPROTO_UNSPEC)?)));
        found.map_err(|source| Error::netlink("listing the rules of nf_tables", source))
    }

    /// Removes leftovers of a trace that could not tie its table to itself; false if there were none.
    pub fn remove_leftover_trace(&mut self) -> Result<bool, Error> {
        let Some(nftables) = self.nftables()? else { return Ok(false) };
        nftables.remove_leftover_trace().map_err(Error::from)
    }
}
