//! Guards that the states between two captures need, so that no packet is captured twice.
//!
//! Where one capture replaces another, both exist for a while. [`rules::bridge`] explains what goes wrong then if either
//! hands packets over by TPROXY, and what a guard does about it.

use super::compare::DesiredState;
use crate::backend::{BackendName, Contents, Snapshot, nftables};
use rules::{Mark, Ownership, State, Table, bridge};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The marks of TPROXY in a change, of the live and the desired rules together.
pub(super) struct Bridge {
    by_variant: BTreeMap<BackendName, BTreeSet<Mark>>,
    by_table: BTreeMap<String, BTreeSet<Mark>>,
    owner: Ownership,
}

impl Bridge {
    pub(super) fn between(before: &Snapshot, desired_state: &DesiredState) -> Self {
        let mut by_variant: BTreeMap<BackendName, BTreeSet<Mark>> = BTreeMap::new();
        let mut by_table: BTreeMap<String, BTreeSet<Mark>> = BTreeMap::new();
        let desired = desired_state.contents.iter().map(Cow::Borrowed);
        for contents in before.contents_with_joined().chain(desired) {
            let marks = match contents.table() {
                Some(table) => by_table.entry(table.name.clone()).or_default(),
                None => by_variant.entry(contents.backend()).or_default(),
            };
            marks.extend(contents.marks(&desired_state.owner));
        }
        Self { by_variant, by_table, owner: desired_state.owner }
    }

    /// False where neither capture hands packets over by TPROXY.
    pub(super) fn is_needed(&self) -> bool {
        !self.all_marks().is_empty()
    }

    /// What a backend holds, with the guards that it needs while the other capture exists. Equal to `contents` where it
    /// needs none.
    pub(super) fn guarded<'a>(&self, contents: &'a Contents) -> Cow<'a, Contents> {
        if !self.is_needed() {
            return Cow::Borrowed(contents);
        }
        let backend = contents.backend();
        Cow::Owned(contents.map(|state| self.state(backend, state.clone()), |table| self.table(table)))
    }

    /// The same of a table of nf_tables. Its rules for `mangle` come before those of iptables, and meet no mark of theirs, but
    /// they may meet those of another such table. No two that are joined set marks by TPROXY.
    pub(super) fn table(&self, table: &nftables::bytecode::EncodedTable) -> nftables::bytecode::EncodedTable {
        let marks = match nftables::marks(table).is_empty() {
            true => self.all_marks(),
            false => self.by_variant.values().flatten().copied().collect(),
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
        self.by_variant.values().chain(self.by_table.values()).flatten().copied().collect()
    }

    fn marks_elsewhere(&self, variant: BackendName) -> BTreeSet<Mark> {
        let others = self.by_variant.iter().filter(|(other, _)| **other != variant).map(|(_, marks)| marks);
        others.chain(self.by_table.values()).flatten().copied().collect()
    }
}

/// True if inbound packets are handed over by TPROXY.
pub(super) fn is_transparent(state: &State) -> bool {
    !bridge::marks(state).is_empty()
}
