//! A namespace's desired state in one backend's terms, and the differences from the live state.

use crate::backend::nftables::bytecode::EncodedTable;
use crate::backend::nftables::{self, BlockedTable, Obstacle};
use crate::backend::{BackendName, CommitStep, Contents, Snapshot, Variant, of_iptables};
use rules::drift::{ChainDrift, Compared, DifferingPart, Reason, Side, drift};
use rules::{ByFamily, Family, Ownership, State, Table, desired::Desired, render, routing::Object};
use std::{collections::BTreeSet, fmt};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveComparison {
    pub backend: BackendName,
    pub differences: Differences,
    /// The live state, including other captures ([`Snapshot::others`]).
    pub live: Snapshot,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Differing iptables chains, parts of the nf_tables table, and policy rules, routes and addresses.
    pub parts: Vec<DifferingPart>,
    /// True if every differing table is entirely absent, the mark of an interrupted run.
    pub unfinished: bool,
}

pub fn compare_desired(old: &Desired, new: &Desired, owners: &'static [Ownership]) -> Differences {
    let (nft, mut snapshot) = (Variant::Nft, Snapshot::default());
    let backend = BackendName::Iptables(nft);
    let [old, new] = [old, new].map(|desired| DesiredState::of(desired, backend, &snapshot));
    for family in Family::BOTH {
        snapshot.set_iptables(nft, family, old.iptables(backend, family));
    }
    snapshot.routes = old.routes;
    let owner = new.owner.union(owners);
    compare(&snapshot, &DesiredState { owner, ..new })
}

/// Compares a namespace with the desired state in every backend: at most one should have rules.
pub fn compare(snapshot: &Snapshot, desired: &DesiredState) -> Differences {
    let mut differences = Differences { unfinished: true, ..Differences::default() };
    for variant in Variant::ALL {
        for family in Family::BOTH {
            let live = snapshot.iptables(variant, family);
            let target = desired.iptables(BackendName::Iptables(variant), family);
            for ChainDrift { table, chain, lines } in drift(&live, &target, &desired.owner) {
                differences.unfinished &= !holds_any(&live, table, &desired.owner);
                let text = |one: &Compared| one.with_line(render::iptables::appended(&chain, &one.line));
                differences.add(format!("{family} {table} {chain} ({variant})"), lines.iter().map(text));
            }
        }
    }
    let of_table = nftables::differences(snapshot.nftables(), desired.nftables());
    differences.unfinished &= of_table.is_empty() || snapshot.nftables().is_none();
    differences.parts.extend(of_table);
    let dormant = snapshot.blocked_tables.iter().filter(|one| one.obstacle == Obstacle::Dormant);
    for blocked in dormant.filter(|one| desired_in(desired, &one.table)) {
        differences.unfinished = false;
        differences.parts.push(nftables::dormant(&blocked.table));
    }
    let joined = snapshot.joined().map(|table| table.name.as_str());
    for name in snapshot.inherited_tables(&desired.owner).chain(joined) {
        differences.unfinished = false;
        differences.parts.push(nftables::predecessor(name));
    }
    let mut routes = Vec::new();
    let mut route = |object: &Object, side, reason| {
        routes.push(Compared { side, line: object.to_string(), reason: Some(reason) });
    };
    // Routing is set before rules: if there are only rules, the routing was removed; no run was interrupted.
    let rules_stand = snapshot.all_contents().any(|contents| contents.holds_any_of(&desired.owner));
    for object in desired.routes.iter().filter(|object| !snapshot.has(object)) {
        differences.unfinished &= !rules_stand;
        route(object, Side::Desired, Reason::Missing);
    }
    let inherited = snapshot.inheritance(&desired.owner);
    let inherited = inherited.taken_over().map(|route| route.object);
    let unwanted: BTreeSet<Object> =
        inherited.chain(snapshot.routes.iter().copied()).filter(|o| !desired.routes.contains(o)).collect();
    for object in unwanted.iter().chain(&snapshot.duplicates) {
        differences.unfinished = false;
        route(object, Side::Live, Reason::Extra);
    }
    if !routes.is_empty() {
        differences.add("routing".to_owned(), routes);
    }
    differences
}

fn holds_any(state: &State, table: Table, owner: &Ownership) -> bool {
    state.part_of(owner).chains(table).any(|(chain, lines)| owner.owns_chain(chain) || !lines.is_empty())
}

impl Differences {
    fn add(&mut self, name: String, lines: impl IntoIterator<Item = Compared<String>>) {
        self.parts.push(DifferingPart { name, lines: lines.into_iter().collect() });
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl fmt::Display for Differences {
    /// Prints rule lines, `-` for live and `+` for desired rules, each with its reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for DifferingPart { name, lines } in &self.parts {
            writeln!(f, "@@ {name}")?;
            for Compared { side, line, reason } in lines {
                write!(f, "{}{line}", side.sign())?;
                match reason {
                    Some(reason) => writeln!(f, "  # {reason}")?,
                    None => writeln!(f)?,
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredState {
    pub owner: Ownership,
    /// The rules; `None` for none. No other backend should have rules of the owner.
    pub contents: Option<Contents>,
    pub routes: BTreeSet<Object>,
}

impl DesiredState {
    pub fn nothing(owner: Ownership) -> Self {
        Self { owner, contents: None, routes: BTreeSet::new() }
    }

    pub fn of(desired: &Desired, backend: BackendName, snapshot: &Snapshot) -> Self {
        let Desired { owner, v6, routing, .. } = desired;
        let contents = match backend {
            BackendName::Nftables => {
                let table = desired.nft_table();
                table.map(|table| {
                    Contents::Nftables(EncodedTable::of(&table).with_record(desired.made.as_ref()))
                })
            }
            BackendName::Iptables(variant) => {
                let state = |family| match desired.rules(family) {
                    Some(rules) => State::of(rules.rules()),
                    None => State::default(),
                };
                let tables = ByFamily { v4: state(Family::V4), v6: state(Family::V6) };
                Some(Contents::Iptables { variant, tables })
            }
        };
        let mut routes = routing.clone();
        if v6.is_some() && snapshot.lo_lacks_ipv6 {
            // If no IPv6 packet can pass, IPv6 rules do no harm and IPv6 routes are not needed.
            let text = "IPv6 is disabled on lo: IPv6 rules are set, but no addresses and routes";
            tracing::warn!(target: "config", "{text}");
            routes.retain(|object| object.family() == Family::V4);
        }
        Self { owner: *owner, contents, routes }
    }

    /// Contents that a backend should hold; `None` if another or no backend should.
    pub fn contents(&self, backend: BackendName) -> Option<&Contents> {
        self.contents.as_ref().filter(|contents| contents.backend() == backend)
    }

    pub(super) fn iptables(&self, backend: BackendName, family: Family) -> State {
        self.contents(backend).map_or_else(State::default, |content| content.state(family))
    }

    pub(super) fn nftables(&self) -> Option<&EncodedTable> {
        self.contents.as_ref().and_then(Contents::table)
    }
}

/// Obstacles to these steps: an owned table to change, or a dormant iptables table that needs rules.
pub(super) fn blocking(before: &Snapshot, desired: &DesiredState, steps: &[CommitStep]) -> Vec<BlockedTable> {
    if before.blocked_tables.is_empty() {
        return Vec::new();
    }
    let changed: Vec<String> = steps.iter().flat_map(CommitStep::tables).collect();
    let is_blocking = |one: &&BlockedTable| match one.obstacle {
        Obstacle::Owned { .. } => changed.contains(&one.table),
        Obstacle::Dormant => desired_in(desired, &one.table),
        Obstacle::OfBridge => false,
    };
    before.blocked_tables.iter().filter(is_blocking).cloned().collect()
}

fn desired_in(desired: &DesiredState, table: &str) -> bool {
    holds_of(desired.contents(BackendName::IPTABLES_NFT), table, &desired.owner)
}

pub(super) fn holds_of(contents: Option<&Contents>, table: &str, owner: &Ownership) -> bool {
    let Some(Contents::Iptables { tables, .. }) = contents else { return false };
    let holds = |family, state: &State| {
        let own = state.part_of(owner);
        let mut tables = own.tables.iter().filter(|(of, _)| of_iptables(family, **of) == table);
        tables.any(|(_, chains)| chains.values().any(|lines| !lines.is_empty()))
    };
    tables.iter().any(|(family, state)| holds(family, state))
}
