//! Verifies the iptables programs' listings, and changes that they reported as done, against the kernel's chains and rule counts.
//! A program may be older than the rules, or a wrapper that hides a failure.

use super::{Kernel, legacy};
use crate::backend::iptables::{self, FoundTables, NO_COUNTERS, Shown};
use crate::backend::nftables::{Counts, Tables};
use crate::backend::{During, Error, Result, Variant};
use crate::sys::xtables;
use rules::{ByFamily, Chain, Family, Listing, Ownership, State, Table, TableChange};
use std::{collections::BTreeMap, mem, panic::resume_unwind, thread};

const TRIES: u32 = 4;

impl Kernel {
    /// Lists families in parallel, each by a program; `None` for a family with tables but no program to read them.
    pub(super) fn listed(&mut self, variant: Variant, tables: &Tables) -> Result<ByFamily<Option<Shown>>> {
        let mut look = |family| self.look(variant, family, tables);
        let there = ByFamily { v4: look(Family::V4)?, v6: look(Family::V6)? };
        let any = there.v4.is_some() || there.v6.is_some();
        match variant {
            Variant::Nft if any => self.listing_generation = self.needed_nftables()?.generation().ok(),
            Variant::Nft => self.listing_generation = None,
            Variant::Legacy => self.had_legacy = any,
        }
        let programs = if any { self.programs(variant) } else { None };
        let usable = |family| programs.filter(|programs| programs.save(family).is_ok());
        let read = |family| match (there.get(family), usable(family)) {
            (None, _) => Ok(Some(Shown { listing: Listing::empty(family), unlistable: BTreeMap::new() })),
            (Some(_), None) => Ok(None),
            (Some(there), Some(programs)) => {
                iptables::listing(programs, family, there, NO_COUNTERS).map(Some)
            }
        };
        let (v4, v6) = match &there {
            ByFamily { v4: Some(_), v6: Some(_) } => thread::scope(|scope| {
                let v6 = scope.spawn(|| read(Family::V6));
                (read(Family::V4), v6.join().unwrap_or_else(|panic| resume_unwind(panic)))
            }),
            _ => (read(Family::V4), read(Family::V6)),
        };
        let mut listed = ByFamily { v4: v4?, v6: v6? };
        for family in Family::BOTH {
            if let (Some(there), Some(listed)) = (there.get(family), listed.get_mut(family)) {
                self.relist_until_agreed(variant, family, there, listed)?;
                if variant == Variant::Nft {
                    self.read_again(tables, listed)?;
                }
            }
        }
        Ok(listed)
    }

    /// Replaces the rules printed by iptables (nft) with the kernel's. Tables that the program can't show stay unlistable.
    fn read_again(&mut self, tables: &Tables, listed: &mut Shown) -> Result<()> {
        let family = listed.listing.family;
        let printed = mem::replace(&mut listed.listing, Listing::empty(family));
        let nftables = self.needed_nftables()?;
        listed.listing = nftables.agreed(tables, printed).during("reading nf_tables")?;
        listed.listing.chains.retain(|(table, _), _| !listed.unlistable.contains_key(table));
        Ok(())
    }

    fn look(&mut self, variant: Variant, family: Family, tables: &Tables) -> Result<Option<FoundTables>> {
        match variant {
            Variant::Legacy => legacy(family, &iptables::CAPTURING),
            Variant::Nft => {
                let owner = self.owner;
                let Some(nftables) = self.nftables()? else { return Ok(None) };
                let exist =
                    nftables.has_iptables(tables, family, &owner).during("listing nf_tables tables")?;
                Ok(exist.then(|| FoundTables { tables: tables.of_iptables(family), is_listed: true }))
            }
        }
    }

    /// Lists again until the listing agrees with the kernel. An iptables (nft) table that still differs is unlistable.
    fn relist_until_agreed(
        &mut self,
        variant: Variant,
        family: Family,
        there: &FoundTables,
        listed: &mut Shown,
    ) -> Result<()> {
        for tries in (0..TRIES).rev() {
            let (counts, state) =
                (self.counts(variant, family, &there.tables)?, listed.listing.state(&self.owner));
            let shown = there.tables.iter().filter(|table| !listed.unlistable.contains_key(table));
            let differ: Vec<Table> =
                shown.copied().filter(|table| !agree(&state, *table, &counts, &self.owner)).collect();
            let Some(first) = differ.first() else { break };
            let programs = self.needed(variant)?;
            if tries > 0 {
                *listed = iptables::listing(programs, family, there, NO_COUNTERS)?;
                continue;
            }
            if variant == Variant::Legacy {
                let program = programs.save(family)?.display().to_string();
                return Err(Error::ListingMismatch { program, table: *first });
            }
            for table in differ {
                listed.listing.chains.retain(|(of, _), _| *of != table);
                listed.unlistable.insert(table, "it does not list the kernel's rules".to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn counts(&mut self, variant: Variant, family: Family, tables: &[Table]) -> Result<Counts> {
        match variant {
            Variant::Nft => self.needed_nftables()?.counts(family).during("listing nf_tables rules"),
            Variant::Legacy => tables
                .iter()
                .map(|table| {
                    let counts =
                        xtables::counts(family, table.name()).during("reading an iptables-legacy table")?;
                    Ok((table.name().to_owned(), counts))
                })
                .collect(),
        }
    }

    pub(super) fn confirm(&mut self, variant: Variant, family: Family, done: &[TableChange]) -> Result<()> {
        let Some(before) = self.known.remove(&(variant, family)) else { return Ok(()) };
        let after = done.iter().fold(before, |state, change| state.after(change));
        let tables: Vec<Table> = done.iter().map(|change| change.table).collect();
        let counts = self.counts(variant, family, &tables)?;
        let owner = self.owner;
        if tables.iter().all(|table| agree(&after, *table, &counts, &owner)) {
            self.known.insert((variant, family), after);
            return Ok(());
        }
        // Other programs may have changed their rules at the same time. Ours must exist.
        let there = self.look_at_tables()?.unwrap_or_default();
        let now = match self.look(variant, family, &there)? {
            Some(there) => {
                iptables::listing(self.needed(variant)?, family, &there, NO_COUNTERS)?.listing.state(&owner)
            }
            None => State::default(),
        };
        let (ours, expected) = (now.part_of(&owner), after.part_of(&owner));
        match tables.into_iter().find(|table| !ours.same_table(&expected, *table)) {
            Some(table) => {
                let program = self.needed(variant)?.restore(family)?.display().to_string();
                Err(Error::NotApplied { program, table })
            }
            None => {
                self.known.insert((variant, family), now);
                Ok(())
            }
        }
    }
}

/// True if the kernel's rule counts for a table match the state; other programs' chains may be missing.
fn agree(state: &State, table: Table, counts: &Counts, owner: &Ownership) -> bool {
    let count = |name: &str| counts.get(table.name()).and_then(|chains| chains.get(name)).copied();
    let shown = state.chains(table).all(|(chain, lines)| match chain {
        Chain::Base(_) => count(chain.as_str()).unwrap_or(0) == lines.len(),
        Chain::User(_) => count(chain.as_str()) == Some(lines.len()),
    });
    let is_shown = |chain: &Chain| state.tables.get(&table).is_some_and(|chains| chains.contains_key(chain));
    let is_missed = |(name, count_of): (&String, &usize)| match name.parse::<Chain>() {
        Ok(chain) if is_shown(&chain) => false,
        Ok(Chain::Base(_)) => *count_of > 0,
        Ok(Chain::User(name)) => owner.owns_chain_among(name.as_str(), &|other| count(other).is_some()),
        Err(_) => false,
    };
    shown && !counts.get(table.name()).into_iter().flatten().any(is_missed)
}
