//! Relevant state of a network namespace at one moment.

use super::nftables::{self, BlockedTable, Obstacle};
use super::{BackendName, CommitStep, Variant, nftables::bytecode::EncodedTable};
use rules::inheritance::{self, Evidence, Inheritance};
use rules::routing::{Object, RoutingEntry};
use rules::{ByFamily, Family, Listing, Mark, Ownership, State, Table, bridge};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    Iptables { variant: Variant, tables: ByFamily<State> },
    Nftables(EncodedTable),
}

impl Contents {
    pub fn backend(&self) -> BackendName {
        match self {
            Self::Iptables { variant, .. } => BackendName::Iptables(*variant),
            Self::Nftables(_) => BackendName::Nftables,
        }
    }

    pub fn count_of(&self, owner: &Ownership) -> usize {
        let of_iptables: usize = self.states().map(|(_, state)| state.count_of(owner)).sum();
        of_iptables + self.table().map_or(0, EncodedTable::rule_count)
    }

    pub fn states(&self) -> impl Iterator<Item = (Family, &State)> {
        let tables = match self {
            Self::Iptables { tables, .. } => Some(tables),
            Self::Nftables(_) => None,
        };
        tables.into_iter().flat_map(ByFamily::iter)
    }

    pub fn state(&self, family: Family) -> State {
        let state = self.states().find(|(of, _)| *of == family);
        state.map_or_else(State::default, |(_, state)| state.clone())
    }

    pub fn table(&self) -> Option<&EncodedTable> {
        match self {
            Self::Nftables(table) => Some(table),
            Self::Iptables { .. } => None,
        }
    }

    #[must_use]
    pub fn map(
        &self,
        state: impl Fn(&State) -> State,
        table: impl FnOnce(&EncodedTable) -> EncodedTable,
    ) -> Self {
        match self {
            Self::Iptables { variant, tables: ByFamily { v4, v6 } } => {
                Self::Iptables { variant: *variant, tables: ByFamily { v4: state(v4), v6: state(v6) } }
            }
            Self::Nftables(before) => Self::Nftables(table(before)),
        }
    }

    #[must_use]
    pub fn part_of(&self, owner: &Ownership) -> Self {
        self.map(|state| state.part_of(owner), Clone::clone)
    }

    pub fn marks(&self, owner: &Ownership) -> BTreeSet<Mark> {
        let of_iptables = self.states().flat_map(|(_, state)| bridge::marks(&state.part_of(owner)));
        of_iptables.chain(self.table().into_iter().flat_map(nftables::marks)).collect()
    }

    pub fn holds_any_of(&self, owner: &Ownership) -> bool {
        self.table().is_some() || self.states().any(|(_, state)| state.holds_any_of(owner))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Non-empty rule sets, in the order of the backends' names; iptables tables include other programs' rules.
    contents: BTreeMap<BackendName, Contents>,
    /// The owner's policy rules, routes and addresses, in the order in which they are added.
    pub routes: BTreeSet<Object>,
    pub duplicates: Vec<Object>,
    /// Equal entries with another routing protocol. They work like the owner's entries, and outlive them unless inherited.
    pub routes_of_others: BTreeSet<RoutingEntry>,
    /// Descriptions of policy rules and routes with the owner's protocol that the owner would not make.
    pub unexpected: BTreeSet<String>,
    pub tables_of_others: BTreeSet<String>,
    /// Joined owners' tables, by name; `None` for absent ones.
    pub tables_joined: BTreeMap<String, Option<EncodedTable>>,
    /// nf_tables tables whose rules are not in effect as written: see [`Obstacle`].
    pub blocked_tables: Vec<BlockedTable>,
    pub unreadable: Vec<(Variant, Family)>,
    pub unlistable: BTreeMap<(Family, Table), UnlistableTable>,
    /// True if the kernel has no nf_tables, so only iptables-legacy remains.
    pub lacks_nftables: bool,
    /// True if IPv6 is disabled on `lo`: the kernel then refuses addresses and routes, but not rules.
    pub lo_lacks_ipv6: bool,
}

impl Snapshot {
    pub fn contents(&self, backend: BackendName) -> Option<&Contents> {
        self.contents.get(&backend)
    }

    pub fn all_contents(&self) -> impl Iterator<Item = &Contents> {
        self.contents.values()
    }

    pub fn iptables(&self, variant: Variant, family: Family) -> State {
        self.contents(BackendName::Iptables(variant))
            .map_or_else(State::default, |content| content.state(family))
    }

    pub fn table_named(&self, name: &str) -> Option<&EncodedTable> {
        self.nftables().into_iter().chain(self.joined()).find(|table| table.name == name)
    }

    pub fn joined(&self) -> impl Iterator<Item = &EncodedTable> {
        self.tables_joined.values().flatten()
    }

    pub fn nftables(&self) -> Option<&EncodedTable> {
        self.contents(BackendName::Nftables).and_then(Contents::table)
    }

    /// Contents with rules of the owner and joined owners, each nf_tables table separately.
    pub fn contents_with_joined(&self) -> impl Iterator<Item = Cow<'_, Contents>> {
        let joined = self.joined().map(|table| Cow::Owned(Contents::Nftables(table.clone())));
        self.all_contents().map(Cow::Borrowed).chain(joined)
    }

    pub fn apply(&mut self, step: &CommitStep) {
        match step {
            CommitStep::Iptables { .. } | CommitStep::Clear(_) => {
                for (variant, family, changes) in step.changes() {
                    let live = self.iptables(variant, family);
                    let after = changes.iter().fold(live, |state, change| state.after(change));
                    self.set_iptables(variant, family, after);
                }
            }
            CommitStep::Nftables { live, desired } => {
                live.iter().for_each(|live| self.set_table(&live.name, None));
                desired.iter().for_each(|desired| self.set_table(&desired.name, Some(desired)));
            }
            CommitStep::Add(object) => drop(self.routes.insert(*object)),
            CommitStep::Adopt(object) => {
                if !matches!(object, Object::Rule { .. }) {
                    self.routes_of_others.retain(|route| route.object != *object);
                }
                self.routes.insert(*object);
            }
            CommitStep::Remove(object) => match self.duplicates.iter().position(|copy| copy == object) {
                Some(copy) => drop(self.duplicates.remove(copy)),
                None => drop(self.routes.remove(object)),
            },
            CommitStep::RemoveInherited(route) => drop(self.routes_of_others.remove(route)),
            CommitStep::GiveBack(route) => {
                if !matches!(route.object, Object::Rule { .. }) {
                    self.routes.remove(&route.object);
                }
                self.routes_of_others.insert(*route);
            }
            CommitStep::RemoveTables(names) => self.tables_of_others.retain(|name| !names.contains(name)),
            CommitStep::CleanUnlistable(tables) => self.unlistable.retain(|place, _| !tables.contains(place)),
            CommitStep::WaitForInFlight => {}
        }
    }

    pub fn set_iptables(&mut self, variant: Variant, family: Family, state: State) {
        let mut tables = match self.contents.remove(&BackendName::Iptables(variant)) {
            Some(Contents::Iptables { tables, .. }) => tables,
            Some(Contents::Nftables(_)) | None => ByFamily::default(),
        };
        *tables.get_mut(family) = state;
        if tables.iter().any(|(_, state)| state.holds_rules()) {
            self.contents.insert(BackendName::Iptables(variant), Contents::Iptables { variant, tables });
        }
    }

    pub fn set_nftables(&mut self, table: Option<EncodedTable>) {
        self.contents.remove(&BackendName::Nftables);
        if let Some(table) = table {
            self.contents.insert(BackendName::Nftables, Contents::Nftables(table));
        }
    }

    fn set_table(&mut self, name: &str, table: Option<&EncodedTable>) {
        match self.tables_joined.get_mut(name) {
            Some(joined) => *joined = table.cloned(),
            None => self.set_nftables(table.cloned()),
        }
    }

    pub fn is_dormant(&self, table: &str) -> bool {
        self.blocked_tables.iter().any(|one| one.table == table && one.obstacle == Obstacle::Dormant)
    }

    /// iptables tables except dormant ones, which no packet passes through.
    fn active_tables<'a>(&self, variant: Variant, family: Family, state: &'a State) -> Cow<'a, State> {
        let is_dormant_table = |table: &Table| self.is_dormant(&of_iptables(family, *table));
        if variant == Variant::Legacy || !state.tables.keys().any(is_dormant_table) {
            return Cow::Borrowed(state);
        }
        let mut state = state.clone();
        state.tables.retain(|table, _| !is_dormant_table(table));
        Cow::Owned(state)
    }

    pub fn has(&self, object: &Object) -> bool {
        self.routes.contains(object) || self.others_have(object)
    }

    pub fn others_have(&self, object: &Object) -> bool {
        self.routes_of_others.iter().any(|route| route.object == *object)
    }

    pub fn routes_of(&self, other: &Ownership) -> impl Iterator<Item = &RoutingEntry> {
        let protocol = other.protocol;
        self.routes_of_others.iter().filter(move |route| route.protocol == protocol)
    }

    pub fn inheritance(&self, owner: &Ownership) -> Inheritance {
        let others: Vec<Ownership> = owner.others().collect();
        let joined = others.iter().flat_map(|other| self.routes_of(other)).copied().collect();
        let mut found = Inheritance { joined, ..Inheritance::default() };
        for one in owner.each() {
            let states = self.all_contents().flat_map(Contents::states);
            let states: Vec<_> = states.map(|(family, state)| (family, state.seen_by(&one))).collect();
            let has_routing = match one.table == owner.table {
                true => !self.routes.is_empty(),
                false => self.routes_of(&one).next().is_some(),
            };
            let evidence = Evidence::of(
                states.iter().map(|(family, state)| (*family, state)),
                &one,
                self.inherited_tables(&one).next().is_some(),
                has_routing || self.table_named(one.table).is_some(),
            );
            found.extend(inheritance::classify_routing(&one, &evidence, &self.routes_of_others));
        }
        found
    }

    /// nf_tables tables of predecessors, including joined owners' predecessors.
    pub fn inherited_tables<'a>(&'a self, owner: &Ownership) -> impl Iterator<Item = &'a str> + use<'a> {
        let tables: BTreeSet<&str> =
            inheritance::predecessors(owner).flat_map(|one| one.tables).copied().collect();
        self.tables_of_others.iter().map(String::as_str).filter(move |name| tables.contains(name))
    }

    /// True if the namespace has nothing that could belong to the owner or its predecessor.
    pub fn is_bare(&self) -> bool {
        let Self { contents, routes, duplicates, routes_of_others, tables_of_others, .. } = self;
        let no_routing = routes.is_empty() && duplicates.is_empty() && routes_of_others.is_empty();
        contents.is_empty() && self.unlistable.is_empty() && tables_of_others.is_empty() && no_routing
    }

    /// Evidence that this owner captures in the namespace; `None` if it does not.
    pub fn evidence_of(&self, owner: &Ownership) -> Option<String> {
        let by_rules = self.all_contents().find_map(|contents| match contents {
            Contents::Iptables { variant, tables } => tables.iter().find_map(|(family, state)| {
                let state = self.active_tables(*variant, family, state);
                Some(format!("{}, {variant}, {family}", state.evidence_of(owner)?))
            }),
            Contents::Nftables(_) => None,
        });
        let is_owned = |name: &&String| {
            owner.owns_table(name)
                || owner.predecessor.is_some_and(|predecessor| predecessor.tables.contains(&name.as_str()))
        };
        let own = self.nftables().map(|table| &table.name);
        let captures = |name: &&String| is_owned(name) && !self.is_dormant(&format!("inet {name}"));
        let by_table = || own.into_iter().chain(&self.tables_of_others).find(captures);
        let in_unlistable = || {
            let is_met = |(place, _): &(&(Family, Table), &UnlistableTable)| {
                !self.is_dormant(&of_iptables(place.0, place.1))
            };
            self.unlistable.iter().filter(is_met).find_map(|((family, _), unlistable)| {
                let evidence = unlistable.listing.state(owner).evidence_of(owner)?;
                Some(format!("{evidence}, {}, {family}", Variant::Nft))
            })
        };
        by_rules
            .or_else(in_unlistable)
            .or_else(|| by_table().map(|name| format!("table inet {name} of nf_tables")))
    }

    /// Other owners in `all` that capture in this namespace, each with the evidence.
    pub fn others<'a>(
        &'a self,
        owner: &'a Ownership,
        all: &'a [Ownership],
    ) -> impl Iterator<Item = (Ownership, String)> + 'a {
        let others = all.iter().filter(|other| !owner.owns_table(other.table));
        others.filter_map(|other| Some((other.alone(), self.evidence_of(other)?)))
    }

    pub fn variants_of(&self, owner: &Ownership) -> impl Iterator<Item = Variant> {
        Variant::ALL.into_iter().filter(move |variant| {
            let contents = self.contents(BackendName::Iptables(*variant));
            contents.is_some_and(|contents| contents.holds_any_of(owner))
        })
    }

    pub fn is_in_use(&self, variant: Variant) -> bool {
        self.contents(BackendName::Iptables(variant)).is_some()
    }
}

pub fn of_iptables(family: Family, table: Table) -> String {
    match family {
        Family::V4 => format!("ip {table}"),
        Family::V6 => format!("ip6 {table}"),
    }
}

/// An iptables (nft) table that its program can't show, as our own reader decodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlistableTable {
    pub program: String,
    pub why: String,
    pub listing: Listing,
}

impl UnlistableTable {
    pub fn holds_any_of(&self, owner: &Ownership) -> bool {
        self.listing.state(owner).holds_any_of(owner)
    }
}
