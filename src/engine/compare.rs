//! The differences between the live and the desired state, as data and as a diff.

use super::{blocked_tables::dormant_targets, desired_state::DesiredState};
use crate::backend::{BackendName, Snapshot, Variant, nftables};
use rules::{
    Family, ListedRule, Ownership, State, Table,
    desired::Desired,
    drift::{ChainDrift, Compared, Reason, Side, drift},
    render,
    routing::Object,
};
use std::{collections::BTreeSet, fmt};

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveComparison {
    /// What was expected to hold the rules.
    pub backend: BackendName,
    pub differences: Differences,
    /// What was there, other captures included ([`Snapshot::others`]).
    pub live: Snapshot,
}

/// All differences; none if the namespace is as desired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Chains of iptables that differ.
    pub chains: Vec<(Variant, Family, ChainDrift)>,
    /// Differences of the table of nf_tables.
    pub nftables: Vec<nftables::NftDifference>,
    /// Policy rules, routes and addresses that are missing or too many.
    pub routes: Vec<(Object, Reason)>,
    /// Whether all that differs is absent as a whole, table by table: the mark of a run that was cut short
    /// before it had done everything.
    pub unfinished: bool,
}

/// A part of the rules that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferingPart {
    pub name: String,
    /// All its lines, equal ones of a chain included.
    pub lines: Vec<Compared<String>>,
}

/// Compares the rules of two configurations, in the terms of iptables.
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

/// Compares a namespace with the desired state in every backend: all but one should have no rules.
pub fn compare(snapshot: &Snapshot, desired: &DesiredState) -> Differences {
    let mut differences = Differences { unfinished: true, ..Differences::default() };
    for variant in Variant::ALL {
        for family in Family::BOTH {
            let live = snapshot.iptables(variant, family);
            let target = desired.iptables(BackendName::Iptables(variant), family);
            for chain in drift(&live, &target, &desired.owner) {
                differences.unfinished &= !holds_any(&live, chain.table, &desired.owner);
                differences.chains.push((variant, family, chain));
            }
        }
    }
    differences.nftables = nftables::differences(snapshot.nftables(), desired.nftables());
    differences.unfinished &= differences.nftables.is_empty() || snapshot.nftables().is_none();
    for blocked in dormant_targets(snapshot, desired) {
        differences.unfinished = false;
        differences.nftables.push(nftables::NftDifference::of_dormant(&blocked.table));
    }
    let joined = snapshot.joined().map(|table| table.name.as_str());
    for name in snapshot.inherited_tables(&desired.owner).chain(joined) {
        differences.unfinished = false;
        differences.nftables.push(nftables::NftDifference::of_predecessor(name));
    }
    // Routing is set before rules: where rules exist without it, no run was cut short; it was removed.
    let rules_stand = snapshot.all_contents().any(|contents| contents.holds_any_of(&desired.owner));
    for object in desired.routes.iter().filter(|object| !snapshot.has(object)) {
        differences.unfinished &= !rules_stand;
        differences.routes.push((*object, Reason::Missing));
    }
    let inherited = snapshot.inheritance(&desired.owner);
    let inherited = inherited.taken_over().map(|route| route.object);
    let unwanted: BTreeSet<Object> =
        inherited.chain(snapshot.routes.iter().copied()).filter(|o| !desired.routes.contains(o)).collect();
    for object in unwanted.iter().chain(&snapshot.duplicates) {
        differences.unfinished = false;
        differences.routes.push((*object, Reason::Extra));
    }
    differences
}

fn holds_any(state: &State, table: Table, owner: &Ownership) -> bool {
    state
        .part_of(owner)
        .chains(table)
        .any(|(chain, state)| owner.owns_chain(chain) || !state.lines.is_empty())
}

impl Differences {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.nftables.is_empty() && self.routes.is_empty()
    }

    /// What differs, part by part, as text: chains of iptables, parts of our table, and routing.
    pub fn parts(&self) -> Vec<DifferingPart> {
        let chains = self.chains.iter().map(|(variant, family, ChainDrift { table, chain, lines })| {
            let text = |line: &ListedRule| render::iptables::appended(chain, line);
            let lines = lines.iter().map(|one| one.with_line(text(&one.line))).collect();
            DifferingPart { name: format!("{family} {table} {chain} ({variant})"), lines }
        });
        let of_table = self.nftables.iter().map(|nftables::NftDifference { subject, lines }| DifferingPart {
            name: format!("{subject} (nftables)"),
            lines: lines.clone(),
        });
        let routes = self.routes.iter().map(|(object, reason)| Compared {
            side: if *reason == Reason::Missing { Side::Desired } else { Side::Live },
            line: object.to_string(),
            reason: Some(*reason),
        });
        let routes = DifferingPart { name: "routing".to_owned(), lines: routes.collect() };
        let routes = Some(routes).filter(|part| !part.lines.is_empty());
        chains.chain(of_table).chain(routes).collect()
    }
}

impl fmt::Display for Differences {
    /// The lines of rules, `-` for live and `+` for desired ones, with the reason after each line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for DifferingPart { name, lines } in self.parts() {
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
