//! Which guards the states between two captures need, so that no packet is captured twice.
//!
//! Where one capture gives way to another, both stand for a while. [`rules::bridge`] says what goes wrong then if either
//! hands packets over by TPROXY, and what a guard does about it.

use super::desired_state::DesiredState;
use crate::backend::{BackendName, Contents, Snapshot, nftables};
use rules::{ByFamily, Family, Mark, Ownership, State, Table, bridge};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The marks of TPROXY in a change, what is there and what is wanted taken together.
pub(super) struct Bridge {
    marks: BTreeMap<BackendName, BTreeSet<Mark>>,
    /// Those of nf_tables, by the names of the tables that set them.
    by_table: BTreeMap<String, BTreeSet<Mark>>,
    owner: Ownership,
}

impl Bridge {
    /// The one between what is there and what is wanted.
    pub(super) fn between(before: &Snapshot, wanted: &DesiredState) -> Self {
        let mut marks: BTreeMap<BackendName, BTreeSet<Mark>> = BTreeMap::new();
        for contents in before.all_contents().chain(&wanted.contents) {
            marks.entry(contents.backend()).or_default().extend(marks_of(contents, &wanted.owner));
        }
        let mut by_table: BTreeMap<String, BTreeSet<Mark>> = BTreeMap::new();
        for table in before.nftables().into_iter().chain(before.joined()).chain(wanted.nftables()) {
            by_table.entry(table.name.clone()).or_default().extend(nftables::marks(table));
        }
        marks.entry(BackendName::Nftables).or_default().extend(by_table.values().flatten());
        Self { marks, by_table, owner: wanted.owner }
    }

    /// Whether either capture hands packets over by TPROXY. Where none does, nothing needs a guard.
    pub(super) fn is_needed(&self) -> bool {
        self.marks.values().any(|marks| !marks.is_empty())
    }

    /// What a backend holds, with the guards that it needs while the other capture stands. Equal to `contents` where it
    /// needs none.
    pub(super) fn guarded<'a>(&self, contents: &'a Contents) -> Cow<'a, Contents> {
        if !self.is_needed() {
            return Cow::Borrowed(contents);
        }
        let backend = contents.backend();
        Cow::Owned(match contents {
            Contents::Iptables { variant, tables } => {
                let state = |family| self.state(backend, tables.get(family).clone());
                let tables = ByFamily { v4: state(Family::V4), v6: state(Family::V6) };
                Contents::Iptables { variant: *variant, tables }
            }
            Contents::Nftables(table) => Contents::Nftables(self.table(table)),
        })
    }

    /// The same of a table of nf_tables. Its rules for `mangle` come before those of iptables, and meet no mark of theirs, but
    /// they may meet those of another such table. No two that are joined set marks by TPROXY.
    pub(super) fn table(&self, table: &nftables::bytecode::Table) -> nftables::bytecode::Table {
        let marks = match nftables::marks(table).is_empty() {
            true => self.all_marks(),
            false => self.marks_elsewhere(BackendName::Nftables),
        };
        let others = self.by_table.iter().filter(|(name, _)| **name != table.name);
        nftables::guarded(table.clone(), &marks, &others.flat_map(|(_, marks)| marks).copied().collect())
    }

    fn state(&self, backend: BackendName, state: State) -> State {
        let is_transparent = is_transparent(&state);
        let state = bridge::guarded(state, Table::Mangle, &self.marks_elsewhere(backend), &self.owner);
        match is_transparent {
            true => state,
            false => bridge::guarded(state, Table::Nat, &self.all_marks(), &self.owner),
        }
    }

    fn all_marks(&self) -> BTreeSet<Mark> {
        self.marks.values().flatten().copied().collect()
    }

    /// Those that other backends set.
    fn marks_elsewhere(&self, backend: BackendName) -> BTreeSet<Mark> {
        let others = self.marks.iter().filter(|(other, _)| **other != backend);
        others.flat_map(|(_, marks)| marks).copied().collect()
    }
}

/// Whether inbound packets are handed over by TPROXY.
pub(super) fn is_transparent(state: &State) -> bool {
    !bridge::marks(state).is_empty()
}

/// The owner's part of what a backend holds.
pub(super) fn part_of(contents: &Contents, owner: &Ownership) -> Contents {
    match contents {
        Contents::Iptables { variant, tables: ByFamily { v4, v6 } } => {
            let tables = ByFamily { v4: v4.part_of(owner), v6: v6.part_of(owner) };
            Contents::Iptables { variant: *variant, tables }
        }
        Contents::Nftables(table) => Contents::Nftables(table.clone()),
    }
}

fn marks_of(contents: &Contents, owner: &Ownership) -> BTreeSet<Mark> {
    match contents {
        Contents::Iptables { tables, .. } => {
            tables.iter().flat_map(|(_, state)| bridge::marks(&state.part_of(owner))).collect()
        }
        Contents::Nftables(table) => nftables::marks(table),
    }
}
