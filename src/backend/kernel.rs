//! The kernel as the backend: both variants of iptables, the owner's table of nf_tables, and routing.

mod listing;
mod questions;

use super::iptables::{self, LegacyTables, Lock, Programs, RestoreProcess};
use super::nftables::{ListingGeneration, Nftables, Tables};
use super::{Backend, CommitStep, Error, Snapshot, UnlistableTable, Variant};
use crate::sys::lock::{self, LockGuard};
use crate::sys::route::{FoundRoutes, NamespaceRouting};
use crate::sys::{conntrack::Conntrack, exec::Runner, netfilter::lacks_netlink};
use crate::sys::{namespace, wait, xtables};
use listing::FamilyRules;
use rules::{Family, Ownership, State, Table, TableChange, desired::StaleFlows, routing::Object};
use std::collections::{BTreeMap, BTreeSet};
use std::{cell::OnceCell, io, time::Duration};

/// The network namespace of the thread that calls [`Kernel::open`]. Sockets and programs are opened later as well, so only
/// that thread may use it, and only while it is in this namespace.
pub struct Kernel {
    lock: Lock,
    owner: Ownership,
    lock_guard: Option<LockGuard>,
    runner: Runner,
    legacy: OnceCell<Option<Programs>>,
    nft: OnceCell<Option<Programs>>,
    routes: NamespaceRouting,
    nftables: Option<Nftables>,
    tables: Option<Tables>,
    /// Tables of iptables (legacy) existed when `tables` was read.
    had_legacy: bool,
    /// The tables of iptables as they were read, with our changes since.
    known: BTreeMap<(Variant, Family), State>,
    /// The generation of nf_tables in which the programs of iptables (nft) listed their tables, plus our own changes since.
    /// `None` once other changes may have come between.
    listing_generation: Option<ListingGeneration>,
    /// Restore programs that were started ahead of their step, and wait for its changes.
    writers: Vec<((Variant, Family), RestoreProcess)>,
}

impl Kernel {
    /// Looks for programs only when they are needed.
    pub fn open(lock: Lock, owner: Ownership) -> Result<Self, Error> {
        let routes = NamespaceRouting::open(owner)
            .map_err(|source| Error::netlink("opening a netlink socket", source))?;
        let (legacy, nft) = (OnceCell::new(), OnceCell::new());
        let runner = Runner::new(lock.timeout);
        Ok(Self {
            lock,
            owner,
            lock_guard: None,
            runner,
            legacy,
            nft,
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
        let cell = match variant {
            Variant::Legacy => &self.legacy,
            Variant::Nft => &self.nft,
        };
        cell.get_or_init(|| iptables::find(variant, self.lock.version, &self.runner)).as_ref()
    }

    fn needed(&self, variant: Variant) -> Result<&Programs, Error> {
        self.programs(variant).ok_or_else(|| {
            Error::NoProgram(format!(
                "{variant} is not on PATH; install iptables, or choose another backend with --backend or \
                 --force-iptables-binary"
            ))
        })
    }

    /// The connection to nf_tables; `None` where the kernel has no netfilter over netlink, such as gVisor's.
    fn nftables(&mut self) -> Result<Option<&mut Nftables>, Error> {
        if self.nftables.is_none() {
            self.nftables = match Nftables::open(self.owner.table) {
                Err(error) if lacks_netlink(&error) => return Ok(None),
                opened => Some(opened.map_err(|source| Error::netlink("opening a netlink socket", source))?),
            };
        }
        Ok(self.nftables.as_mut())
    }

    fn needed_nftables(&mut self) -> Result<&mut Nftables, Error> {
        self.nftables()?.ok_or(Error::NoNftables)
    }

    /// All tables of nf_tables; `None` where the kernel lacks nf_tables.
    fn look_at_tables(&mut self) -> Result<Option<Tables>, Error> {
        let Some(nftables) = self.nftables()? else { return Ok(None) };
        nftables.tables().map_err(|source| Error::netlink("listing the tables of nf_tables", source))
    }

    fn commit_iptables(
        &mut self,
        variant: Variant,
        family: Family,
        changes: &[TableChange],
    ) -> Result<(), Error> {
        if variant == Variant::Nft {
            // In how many steps the programs raise the generation is not known.
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

    /// Removes rules of iptables (nft) without its programs; false where those have to do it.
    fn remove_listed(&mut self, families: &[(Family, Vec<TableChange>)]) -> Result<bool, Error> {
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

/// The legacy tables that exist. Where the kernel's list of them can't be read, those of `unlisted` are tried.
fn legacy(family: Family, unlisted: &[Table]) -> Result<Option<LegacyTables>, Error> {
    let tables = iptables::legacy_tables(family, unlisted)
        .map_err(|source| Error::netlink("asking for the tables of iptables-legacy", source))?;
    Ok((!tables.is_empty()).then_some(tables))
}

impl Backend for Kernel {
    fn hold(&mut self) -> Result<(), Error> {
        if self.lock_guard.is_none() {
            self.lock_guard = Some(lock::hold(Duration::from_secs(self.lock.wait.into()))?);
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Snapshot, Error> {
        let FoundRoutes { ours, of_others, unexpected, lo_has_ipv6 } = self
            .routes
            .read()
            .map_err(|source| Error::netlink("reading rules, routes and addresses", source))?;
        let mut snapshot = Snapshot::default();
        snapshot.routes_of_others = of_others.into_iter().collect();
        snapshot.unexpected = unexpected.into_iter().collect();
        snapshot.lo_lacks_ipv6 = !lo_has_ipv6 && namespace::lacks_ipv6("lo");
        separate_duplicates(
            ours.into_iter().map(|own| own.object),
            &mut snapshot.routes,
            &mut snapshot.duplicates,
        );
        let (tables, owner) = (self.look_at_tables()?, self.owner);
        snapshot.lacks_nftables = tables.is_none();
        let tables = tables.unwrap_or_default();
        if let Some(nftables) = self.nftables()? {
            let table = nftables.read_among(&tables);
            snapshot.set_nftables(table.map_err(|source| Error::netlink("reading nf_tables", source))?);
            for other in owner.others() {
                let table = nftables.read_named(&tables, other.table);
                let table = table.map_err(|source| Error::netlink("reading nf_tables", source))?;
                snapshot.tables_joined.insert(other.table.to_owned(), table);
            }
        }
        snapshot.tables_of_others = tables.of_others(&owner);
        snapshot.blocked_tables = tables.blocked_tables(&owner);
        self.known.clear();
        for variant in Variant::ALL {
            let mut listed_rules = self.listed(variant, &tables)?;
            for family in Family::BOTH {
                let Some(FamilyRules { state, unlistable, .. }) = listed_rules.get_mut(family).take() else {
                    tracing::warn!(
                        target: "iptables",
                        "{family} tables of {variant} are there, and no program on PATH to read them"
                    );
                    snapshot.unreadable.push((variant, family));
                    continue;
                };
                for (table, why) in unlistable {
                    let unlistable = self.needed_nftables()?.unlistable(family, table);
                    let unlistable =
                        unlistable.map_err(|source| Error::netlink("reading nf_tables", source))?;
                    let program = self.needed(variant)?.save(family)?.display().to_string();
                    snapshot
                        .unlistable
                        .insert((family, table), UnlistableTable { program, why, ..unlistable });
                }
                self.known.insert((variant, family), state.clone());
                snapshot.set_iptables(variant, family, state);
            }
        }
        self.tables = Some(tables);
        Ok(snapshot)
    }

    fn commit(&mut self, step: &CommitStep) -> Result<(), Error> {
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
                self.listing_generation.iter_mut().for_each(ListingGeneration::follow);
                Ok(())
            }
            CommitStep::Add(object) => {
                self.routes.add(*object).map_err(|source| Error::netlink(step, source))
            }
            CommitStep::Adopt(object) => {
                self.routes.adopt(*object).map_err(|source| Error::netlink(step, source))
            }
            CommitStep::Remove(object) => {
                self.routes.remove(*object).map_err(|source| Error::netlink(step, source))
            }
            CommitStep::RemoveInherited(entry) => {
                self.routes.remove_entry(*entry).map_err(|source| Error::netlink(step, source))
            }
            CommitStep::GiveBack(entry) => {
                self.routes.give_back(*entry).map_err(|source| Error::netlink(step, source))
            }
            CommitStep::RemoveTables(names) => self.needed_nftables()?.remove(names).map_err(Error::from),
            CommitStep::CleanUnlistable(tables) => {
                let owner = self.owner;
                let nftables = self.needed_nftables()?;
                for (family, table) in tables {
                    nftables.clean_unlistable(*family, *table, &owner)?;
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
                // A failure is not reported here: committing the step starts the program again, and reports it then.
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

    fn forget_flows(&mut self, stale: &StaleFlows) -> Result<usize, Error> {
        forget(stale).map_err(|source| Error::netlink("forgetting flows", source))
    }
}

fn separate_duplicates(
    found: impl Iterator<Item = Object>,
    once: &mut BTreeSet<Object>,
    again: &mut Vec<Object>,
) {
    for object in found {
        if !once.insert(object) {
            again.push(object);
        }
    }
}

/// Makes conntrack forget UDP flows that the rules should capture and that pass them by; returns their number. A resolver
/// that keeps its socket open, as most do, would go on past rules that came later. Redirected flows stay: their entry
/// leads answers back.
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
