//! All that concerns us in a network namespace at one moment.

use super::{BackendName, Variant, nftables::bytecode};
use rules::{Family, Ownership, State, routing::Object};
use std::collections::{BTreeMap, BTreeSet};

/// Rules, as what holds them holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Tables of iptables, by family. An absent family holds nothing.
    Iptables { variant: Variant, families: BTreeMap<Family, State> },
    /// A table of nf_tables, for both families.
    Nftables(bytecode::Table),
}

impl Contents {
    pub fn backend(&self) -> BackendName {
        match self {
            Self::Iptables { variant, .. } => BackendName::Iptables(*variant),
            Self::Nftables(_) => BackendName::Nftables,
        }
    }

    /// How many rules are the owner's.
    pub fn count_of(&self, owner: &Ownership) -> usize {
        match self {
            Self::Iptables { families, .. } => families.values().map(|state| state.count_of(owner)).sum(),
            Self::Nftables(table) => table.rules(),
        }
    }

    pub fn holds_any_of(&self, owner: &Ownership) -> bool {
        match self {
            Self::Iptables { families, .. } => families.values().any(|state| state.holds_any_of(owner)),
            Self::Nftables(_) => true,
        }
    }
}

/// What a namespace holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The rules, those of others in the tables of iptables included. What holds none is not listed.
    contents: BTreeMap<BackendName, Contents>,
    /// Policy rules, routes and addresses of the owner's, in the order in which they are added.
    pub routes: BTreeSet<Object>,
    /// Copies of policy rules beyond the first, which nobody wants.
    pub duplicates: Vec<Object>,
    /// Whether the owner's address is on `lo`, and not by the owner's doing.
    pub foreign_address: bool,
    /// Tables that exist and that no program on `PATH` can read.
    pub unreadable: Vec<(Variant, Family)>,
    /// Whether IPv6 is switched off on `lo`: its addresses and routes are refused then; rules are not.
    pub lo_lacks_ipv6: bool,
}

impl Snapshot {
    /// What a backend holds, if that is anything.
    pub fn contents(&self, backend: BackendName) -> Option<&Contents> {
        self.contents.get(&backend)
    }

    /// All that holds rules.
    pub fn all_contents(&self) -> impl Iterator<Item = &Contents> {
        self.contents.values()
    }

    /// The tables of iptables of one variant and family.
    pub fn iptables(&self, variant: Variant, family: Family) -> State {
        match self.contents(BackendName::Iptables(variant)) {
            Some(Contents::Iptables { families, .. }) => families.get(&family).cloned().unwrap_or_default(),
            Some(Contents::Nftables(_)) | None => State::default(),
        }
    }

    /// The owner's table of nf_tables.
    pub fn nftables(&self) -> Option<&bytecode::Table> {
        match self.contents(BackendName::Nftables) {
            Some(Contents::Nftables(table)) => Some(table),
            Some(Contents::Iptables { .. }) | None => None,
        }
    }

    /// Sets the tables of one variant and family.
    pub fn set_iptables(&mut self, variant: Variant, family: Family, state: State) {
        let empty = || Contents::Iptables { variant, families: BTreeMap::new() };
        let backend = BackendName::Iptables(variant);
        if let Contents::Iptables { families, .. } = self.contents.entry(backend).or_insert_with(empty) {
            match state.holds_rules() {
                true => drop(families.insert(family, state)),
                false => drop(families.remove(&family)),
            }
            if families.is_empty() {
                self.contents.remove(&backend);
            }
        }
    }

    /// Sets the table of nf_tables.
    pub fn set_nftables(&mut self, table: Option<bytecode::Table>) {
        match table {
            Some(table) => self.contents.insert(BackendName::Nftables, Contents::Nftables(table)),
            None => self.contents.remove(&BackendName::Nftables),
        };
    }

    /// Whether an object is there; the address counts whoever put it there.
    pub fn has(&self, object: &Object) -> bool {
        self.routes.contains(object) || (matches!(object, Object::Address(_)) && self.foreign_address)
    }

    /// The variants of iptables that hold rules of the owner's.
    pub fn variants_of(&self, owner: &Ownership) -> impl Iterator<Item = Variant> {
        Variant::ALL.into_iter().filter(move |variant| {
            let contents = self.contents(BackendName::Iptables(*variant));
            contents.is_some_and(|contents| contents.holds_any_of(owner))
        })
    }

    /// Whether tables of a variant hold rules, whoever has set them.
    pub fn is_in_use(&self, variant: Variant) -> bool {
        self.contents.contains_key(&BackendName::Iptables(variant))
    }
}
