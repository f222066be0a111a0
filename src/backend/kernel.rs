//! The kernel as the backend: both iptables variants, the owner's nf_tables table, and routing.

mod listing;

use super::iptables::{self, FoundTables, Lock, Programs, Shown};
use super::nftables::{self, BlockedTable, Counts, Nftables, RuleHandles, Tables, VisibleTable};
use super::{Backend, CommitStep, During, Error, Result, Snapshot, UnlistableTable, Variant};
use crate::sys::exec::{self, Runner};
use crate::sys::lock::{self, LockGuard};
use crate::sys::route::{FoundRoutes, NamespaceRouting};
use crate::sys::{conntrack::Conntrack, header::NFPROTO_UNSPEC, netfilter::lacks_netlink};
use crate::sys::{namespace, wait, xtables};
use rules::{
    Family, Listing, Ownership, State, Table, TableChange, desired::StaleFlows, nft::LiveTable,
    routing::Object,
};
use std::collections::{BTreeMap, BTreeSet};
use std::{cell::OnceCell, io, time::Duration};

/// Backend for the network namespace of the thread that calls [`Kernel::open`]. It also opens sockets and starts programs later,
/// so only that thread may use it, while in this namespace.
pub struct Kernel {
    lock: Lock,
    owner: Ownership,
    lock_guard: Option<LockGuard>,
    runner: Runner,
    programs: [OnceCell<Option<Programs>>; 2],
    routes: NamespaceRouting,
    nftables: Option<Nftables>,
    tables: Option<Tables>,
    /// True if iptables-legacy tables existed when `tables` was read.
    had_legacy: bool,
    known: BTreeMap<(Variant, Family), State>,
    /// nf_tables generation of the iptables (nft) listing, plus our changes; `None` if other programs may have interfered.
    listing_generation: Option<u32>,
    /// Restore programs started ahead of their step, waiting for its changes.
    writers: Vec<((Variant, Family), exec::Waiting)>,
}

impl Kernel {
    pub fn open(lock: Lock, owner: Ownership) -> Result<Self> {
        let routes = NamespaceRouting::open(owner).during("opening a netlink socket")?;
        let runner = Runner::new(lock.timeout);
        Ok(Self {
            lock,
            owner,
            lock_guard: None,
            runner,
            programs: [OnceCell::new(), OnceCell::new()],
            routes,
            nftables: None,
            tables: None,
            had_legacy: false,
            known: BTreeMap::new(),
            listing_generation: None,
            writers: Vec::new(),
        })
    }

    pub fn owner(&self) -> Ownership {
        self.owner
    }

    pub fn programs(&self, variant: Variant) -> Option<&Programs> {
        let cell = &self.programs[variant as usize];
        cell.get_or_init(|| iptables::find(variant, self.lock.version, &self.runner)).as_ref()
    }

    fn needed(&self, variant: Variant) -> Result<&Programs> {
        self.programs(variant).ok_or_else(|| {
            Error::NoProgram(format!(
                "{variant} is not on PATH; install iptables, or choose another backend with --backend or \
                 --force-iptables-binary"
            ))
        })
    }

    /// Connection to nf_tables; `None` if the kernel, such as gVisor, lacks netfilter over netlink.
    fn nftables(&mut self) -> Result<Option<&mut Nftables>> {
        if self.nftables.is_none() {
            self.nftables = match Nftables::open(self.owner.table) {
                Err(error) if lacks_netlink(&error) => return Ok(None),
                opened => Some(opened.during("opening a netlink socket")?),
            };
        }
        Ok(self.nftables.as_mut())
    }

    fn needed_nftables(&mut self) -> Result<&mut Nftables> {
        self.nftables()?.ok_or(Error::NoNftables)
    }

    fn look_at_tables(&mut self) -> Result<Option<Tables>> {
        let Some(nftables) = self.nftables()? else { return Ok(None) };
        nftables.tables().during("listing nf_tables tables")
    }

    fn commit_iptables(&mut self, variant: Variant, family: Family, changes: &[TableChange]) -> Result<()> {
        if variant == Variant::Nft {
            // The programs raise the generation by an unknown amount.
            self.listing_generation = None;
        }
        let writer = match self.writers.iter().position(|(of, _)| *of == (variant, family)) {
            Some(index) => self.writers.remove(index).1,
            None => iptables::writer(self.needed(variant)?, &self.lock, family)?,
        };
        iptables::commit(writer, self.needed(variant)?, changes)
            .inspect_err(|_| drop(self.known.remove(&(variant, family))))?;
        self.confirm(variant, family, changes)
    }

    /// Removes iptables (nft) rules over netlink; returns false if the programs must do so.
    fn remove_listed(&mut self, families: &[(Family, Vec<TableChange>)]) -> Result<bool> {
        let Some(listed) = self.listing_generation.take() else { return Ok(false) };
        self.needed_nftables()?;
        let (known, nftables) = (&self.known, self.nftables.as_mut());
        let states = |family| known.get(&(Variant::Nft, family));
        let is_done = nftables.is_some_and(|nftables| nftables.remove_listed(listed, states, families));
        if is_done {
            self.known.retain(|(variant, _), _| *variant != Variant::Nft);
        }
        Ok(is_done)
    }
}

/// Existing legacy tables. If the kernel's list can't be read, tries `unlisted`.
fn legacy(family: Family, unlisted: &[Table]) -> Result<Option<FoundTables>> {
    let found = iptables::legacy_tables(family, unlisted).during("listing iptables-legacy tables")?;
    Ok(Some(found).filter(|found| !found.tables.is_empty()))
}

impl Backend for Kernel {
    fn hold(&mut self) -> Result<()> {
        if self.lock_guard.is_none() {
            self.lock_guard = Some(lock::hold(Duration::from_secs(self.lock.wait.into()))?);
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Snapshot> {
        let FoundRoutes { ours, of_others, unexpected, lo_has_ipv6 } =
            self.routes.read().during("reading rules, routes and addresses")?;
        let mut snapshot = Snapshot::default();
        snapshot.routes_of_others = of_others.into_iter().collect();
        snapshot.unexpected = unexpected.into_iter().collect();
        snapshot.lo_lacks_ipv6 = !lo_has_ipv6 && namespace::lacks_ipv6("lo");
        for own in ours {
            if !snapshot.routes.insert(own.object) {
                snapshot.duplicates.push(own.object);
            }
        }
        let (tables, owner) = (self.look_at_tables()?, self.owner);
        snapshot.lacks_nftables = tables.is_none();
        let tables = tables.unwrap_or_default();
        if let Some(nftables) = self.nftables()? {
            snapshot.set_nftables(nftables.read_named(&tables, owner.table).during("reading nf_tables")?);
            for other in owner.others() {
                let table = nftables.read_named(&tables, other.table).during("reading nf_tables")?;
                snapshot.tables_joined.insert(other.table.to_owned(), table);
            }
        }
        snapshot.tables_of_others = tables.of_others(&owner);
        snapshot.blocked_tables = tables.blocked_tables(&owner);
        self.known.clear();
        for variant in Variant::ALL {
            let mut listed_rules = self.listed(variant, &tables)?;
            for family in Family::BOTH {
                let Some(Shown { listing, unlistable }) = listed_rules.get_mut(family).take() else {
                    tracing::warn!(
                        target: "iptables",
                        "{family} tables of {variant} exist, but no program on PATH can read them"
                    );
                    snapshot.unreadable.push((variant, family));
                    continue;
                };
                for (table, why) in unlistable {
                    let nftables = self.needed_nftables()?;
                    let listing = nftables.unlistable(family, table).during("reading nf_tables")?;
                    let program = self.needed(variant)?.save(family)?.display().to_string();
                    snapshot.unlistable.insert((family, table), UnlistableTable { program, why, listing });
                }
                let state = listing.state(&owner);
                self.known.insert((variant, family), state.clone());
                snapshot.set_iptables(variant, family, state);
            }
        }
        self.tables = Some(tables);
        Ok(snapshot)
    }

    fn commit(&mut self, step: &CommitStep) -> Result<()> {
        tracing::debug!(target: "backend", %step, "commit");
        match step {
            CommitStep::Iptables { variant, family, changes } => {
                self.commit_iptables(*variant, *family, changes)
            }
            CommitStep::Clear(families) => {
                if !self.remove_listed(families)? {
                    for (family, changes) in families {
                        self.commit_iptables(Variant::Nft, *family, changes)?;
                    }
                    self.needed_nftables()?.remove_empty_iptables_tables()?;
                }
                Ok(())
            }
            CommitStep::Nftables { live, desired } => {
                self.needed_nftables()?.replace(live.as_ref(), desired.as_ref())?;
                // The kernel counts our change too, and skips zero (`nf_tables_commit`).
                self.listing_generation.iter_mut().for_each(|id| *id = id.checked_add(1).unwrap_or(1));
                Ok(())
            }
            CommitStep::Add(object) => self.routes.add(*object).during(step),
            CommitStep::Adopt(object) => self.routes.adopt(*object).during(step),
            CommitStep::Remove(object) => self.routes.remove(*object).during(step),
            CommitStep::RemoveInherited(entry) => self.routes.remove_entry(*entry).during(step),
            CommitStep::GiveBack(entry) => self.routes.give_back(*entry).during(step),
            CommitStep::RemoveTables(names) => self.needed_nftables()?.remove(names).map_err(Error::from),
            CommitStep::CleanUnlistable(tables) => {
                let owner = self.owner;
                let nftables = self.needed_nftables()?;
                for place in tables {
                    nftables.clean_unlistable(*place, &owner)?;
                }
                nftables.remove_empty_iptables_tables().map_err(Error::from)
            }
            CommitStep::WaitForInFlight => {
                wait::for_packets();
                Ok(())
            }
        }
    }

    fn prepare(&mut self, step: Option<&CommitStep>) {
        match step {
            None => self.writers.clear(),
            Some(CommitStep::Iptables { variant, family, .. }) => {
                // A failure is not reported here: committing the step starts the program again and reports it then.
                let programs = self.programs(*variant).filter(|programs| programs.waits_for_input());
                let writer =
                    programs.and_then(|programs| iptables::writer(programs, &self.lock, *family).ok());
                self.writers.extend(writer.map(|writer| ((*variant, *family), writer)));
            }
            Some(_) => {}
        }
    }

    fn has_programs(&self, variant: Variant) -> bool {
        self.programs(variant).is_some()
    }

    fn takes_legacy(&self) -> bool {
        Family::BOTH.into_iter().all(|family| xtables::is_to_be_had(family, Table::Nat.name()))
    }

    fn forget_flows(&mut self, stale: &StaleFlows) -> Result<usize> {
        forget(stale).during("deleting flows from conntrack")
    }
}

/// Deletes UDP flows that bypass the rules meant to capture them; returns the number of flows. Most resolvers keep their socket
/// open and would go on bypassing the rules. Redirected flows stay: their entries route replies back.
fn forget(stale: &StaleFlows) -> io::Result<usize> {
    let mut conntrack = Conntrack::open()?;
    let mut forgotten = 0;
    for &family in &stale.families {
        for flow in conntrack.udp_flows(family)? {
            if !flow.nated && stale.includes(flow.destination, flow.port, flow.zone) {
                conntrack.forget(&flow)?;
                forgotten += 1;
            }
        }
    }
    Ok(forgotten)
}

const TRIES: u32 = 3;

impl Kernel {
    /// All programs' iptables-legacy rules of a family, with counters; `None` if there are no tables.
    pub fn legacy_listing(&self, family: Family) -> Result<Option<Listing>> {
        let Some(found) = legacy(family, &Table::ALL)? else { return Ok(None) };
        let listed = iptables::listing(self.needed(Variant::Legacy)?, family, &found, iptables::COUNTERS);
        listed.map(|shown| Some(shown.listing))
    }

    pub fn has_chain(&mut self, family: Family, table: Table, chain: &str) -> Result<bool> {
        let has = |counts: &Counts| counts.get(table.name()).is_some_and(|chains| chains.contains_key(chain));
        let in_nft = self.look_at_tables()?.is_some_and(|tables| tables.of_iptables(family).contains(&table));
        if in_nft && has(&self.counts(Variant::Nft, family, &[table])?) {
            return Ok(true);
        }
        let in_legacy = legacy(family, &[table])?.is_some_and(|found| found.tables.contains(&table));
        Ok(in_legacy && has(&self.counts(Variant::Legacy, family, &[table])?))
    }

    /// Any program's policy rules, routes and addresses equal to the owner's.
    pub fn routing(&mut self) -> Result<BTreeSet<Object>> {
        let FoundRoutes { ours, of_others, .. } =
            self.routes.read().during("reading rules, routes and addresses")?;
        Ok(ours.into_iter().chain(of_others).map(|entry| entry.object).collect())
    }

    /// Every nf_tables table that a family's packets pass through, with counters: iptables tables as their program prints them if
    /// the kernel agrees; otherwise as our own reader decodes them.
    pub fn nftables_listing(&mut self, family: Family) -> Result<(Option<Listing>, Vec<LiveTable>)> {
        let mut tries = TRIES;
        loop {
            let Some(nftables) = self.nftables()? else { return Ok((None, Vec::new())) };
            let generation = nftables.generation().ok();
            let found = nftables.listing(family).during("reading nf_tables")?;
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
            return Ok((Some(nftables::agreed(printed, &of_iptables)), others));
        }
    }

    /// The iptables (nft) rules as the program prints them; `None` if no program can print all tables.
    fn printed(&self, family: Family) -> Result<Option<Listing>> {
        let programs = self.programs(Variant::Nft).filter(|programs| programs.save(family).is_ok());
        let none = FoundTables { tables: Vec::new(), is_listed: true };
        match programs.map(|programs| iptables::listing(programs, family, &none, iptables::COUNTERS)) {
            None | Some(Err(Error::Program { .. })) => Ok(None),
            Some(shown) => shown.map(|shown| shown.unlistable.is_empty().then_some(shown.listing)),
        }
    }

    /// True if chains other than the owner's and iptables' built-in ones do NAT, or both variants exist (unknown order).
    pub fn has_foreign_nat(&mut self) -> Result<bool> {
        let tables = match self.tables.take() {
            // Legacy tables require a current list.
            Some(tables) if !self.had_legacy => tables,
            _ => self.look_at_tables()?.unwrap_or_default(),
        };
        let owner = self.owner;
        if tables.are_of(&owner) {
            // Common case: avoids listing many chains.
            return Ok(false);
        }
        let nftables = self.needed_nftables()?;
        let (foreign, usual) = nftables.has_nat(&tables, &owner).during("listing nf_tables chains")?;
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

    /// nf_tables tables whose rules are not in effect as written: see [`crate::backend::nftables::Obstacle`].
    pub fn blocked_tables(&mut self) -> Result<Vec<BlockedTable>> {
        let owner = self.owner;
        Ok(self.look_at_tables()?.unwrap_or_default().blocked_tables(&owner))
    }

    pub fn handles(&mut self) -> Result<(u32, RuleHandles)> {
        let nftables = self.needed_nftables()?;
        let found = nftables.generation().and_then(|id| Ok((id, nftables.rule_handles(NFPROTO_UNSPEC)?)));
        found.during("listing nf_tables rules")
    }

    /// Removes leftovers of a trace that could not tie its table to its socket; false without leftovers.
    pub fn remove_leftover_trace(&mut self) -> Result<bool> {
        let Some(nftables) = self.nftables()? else { return Ok(false) };
        nftables.remove_leftover_trace().map_err(Error::from)
    }
}
