//! Verbs of a backend: it reads a namespace, and commits one step after the other.

use super::{Error, Snapshot, nftables::bytecode, of_iptables};
use rules::routing::{Object, RoutingEntry};
use rules::{Family, Table, TableChange, desired::StaleFlows, render};
use std::{collections::BTreeSet, fmt};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitStep {
    /// Changes of iptables' tables, in this order. Each table is all or nothing; all of them together are not.
    Iptables {
        variant: Variant,
        family: Family,
        /// At least one.
        changes: Vec<TableChange>,
    },
    /// All that is the owner's goes from the tables of iptables (nft), and with it the tables and base chains that are
    /// left without rules then. In one step where the kernel allows it; else as [`CommitStep::Iptables`] of each family.
    Clear(Vec<(Family, Vec<TableChange>)>),
    /// A table of nf_tables as a whole, of the owner's or of an owner that it is joined with.
    Nftables {
        /// The replaced table, which may have another name; `None` if there is nothing.
        live: Option<bytecode::EncodedTable>,
        /// `None` if the table goes.
        desired: Option<bytecode::EncodedTable>,
    },
    Add(Object),
    /// Inherited routing becomes the owner's: a route or address in place, a policy rule by adding the owner's.
    Adopt(Object),
    Remove(Object),
    /// A policy rule that is inherited goes.
    RemoveInherited(RoutingEntry),
    /// Adopted or removed routing of another owner is that owner's again, with its protocol.
    GiveBack(RoutingEntry),
    /// Tables of nf_tables that are inherited go, of the family `inet` and of these names. What was in them can't be put
    /// back, so it comes last.
    RemoveTables(Vec<String>),
    /// All that is the owner's goes from tables of iptables (nft) that its program can't show. It can't be put back
    /// either, so only [`CommitStep::RemoveTables`] comes after it.
    CleanUnlistable(BTreeSet<(Family, Table)>),
    /// Packets that have met nothing of the steps so far leave the namespace's hooks.
    WaitForInFlight,
}

impl CommitStep {
    /// Changes for the programs of iptables; none for other steps.
    pub fn changes(&self) -> Vec<(Variant, Family, &[TableChange])> {
        if let Self::Iptables { variant, family, changes } = self {
            return vec![(*variant, *family, changes)];
        }
        let Self::Clear(families) = self else { return Vec::new() };
        families.iter().map(|(family, changes)| (Variant::Nft, *family, changes.as_slice())).collect()
    }

    /// The tables of nf_tables that the step changes, by family and name, those of iptables (nft) included.
    pub fn tables(&self) -> Vec<String> {
        let inet = |name: &String| format!("inet {name}");
        match self {
            Self::Nftables { live, desired } => {
                live.iter().chain(desired).map(|table| inet(&table.name)).collect()
            }
            Self::RemoveTables(names) => names.iter().map(inet).collect(),
            Self::CleanUnlistable(tables) => {
                tables.iter().map(|&(family, table)| of_iptables(family, table)).collect()
            }
            Self::Iptables { .. }
            | Self::Clear(_)
            | Self::Add(_)
            | Self::Adopt(_)
            | Self::Remove(_)
            | Self::RemoveInherited(_)
            | Self::GiveBack(_)
            | Self::WaitForInFlight => {
                let of_nft = self.changes().into_iter().filter(|(variant, ..)| *variant == Variant::Nft);
                let tables = of_nft.flat_map(|(_, family, changes)| {
                    changes.iter().map(move |change| of_iptables(family, change.table))
                });
                tables.collect()
            }
        }
    }

    /// Input of the programs of iptables; empty for steps without a program.
    pub fn script(&self) -> String {
        let script = |(_, family, changes): (Variant, Family, &[TableChange])| {
            let tables: String = changes.iter().map(render::iptables::change).collect();
            match (self, family) {
                (Self::Clear(_), Family::V4) => format!("# iptables-restore\n{tables}"),
                (Self::Clear(_), Family::V6) => format!("# ip6tables-restore\n{tables}"),
                _ => tables,
            }
        };
        self.changes().into_iter().map(script).collect()
    }
}

impl fmt::Display for CommitStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iptables { variant, family, changes } => {
                write!(f, "{family} rules ({variant}: {})", tables(changes))
            }
            Self::Clear(families) => {
                f.write_str("removing ")?;
                for (family, changes) in families {
                    write!(f, "{family} rules ({}: {}), ", Variant::Nft, tables(changes))?;
                }
                f.write_str("and what they leave empty")
            }
            Self::Nftables { live, desired } => {
                let verb = match (live, desired) {
                    (_, None) => "removing",
                    (None, Some(_)) => "creating",
                    (Some(_), Some(_)) => "replacing",
                };
                let name =
                    |table: &Option<bytecode::EncodedTable>| table.as_ref().map(|table| table.name.clone());
                let table = name(live).or_else(|| name(desired)).unwrap_or_default();
                write!(f, "{verb} the nf_tables table {table}")?;
                match name(desired).filter(|desired| *desired != table) {
                    Some(desired) => write!(f, " by {desired}"),
                    None => Ok(()),
                }
            }
            Self::Add(object) => write!(f, "adding {object}"),
            Self::Adopt(object) => write!(f, "taking over {object}"),
            Self::Remove(object) => write!(f, "removing {object}"),
            Self::RemoveInherited(RoutingEntry { object, .. }) => write!(f, "removing {object} (inherited)"),
            Self::GiveBack(RoutingEntry { object, .. }) => write!(f, "giving back {object}"),
            Self::RemoveTables(names) => {
                write!(f, "removing the nf_tables tables {} (inherited)", names.join(", "))
            }
            Self::CleanUnlistable(tables) => {
                let names = |(family, table): &(Family, Table)| format!("{family} {}", table.name());
                let names: Vec<String> = tables.iter().map(names).collect();
                write!(f, "removing rules from tables that {} can't show: {}", Variant::Nft, names.join(", "))
            }
            Self::WaitForInFlight => f.write_str("waiting for packets on their way"),
        }
    }
}

fn tables(changes: &[TableChange]) -> String {
    changes.iter().map(|change| change.table.name()).collect::<Vec<_>>().join(", ")
}

pub trait Backend {
    /// Keeps other runs of this program out of the namespace until the backend is dropped: two at once would each add
    /// what both found missing.
    ///
    /// # Errors
    /// When another run holds it for too long.
    fn hold(&mut self) -> Result<(), Error>;

    /// Reads everything that concerns us. Creates nothing.
    fn read(&mut self) -> Result<Snapshot, Error>;

    /// Commits one step.
    ///
    /// # Errors
    /// When the step failed; it may have taken effect in part, table by table.
    fn commit(&mut self, step: &CommitStep) -> Result<(), Error>;

    /// Prepares the step that comes after the one that is about to be committed, while that is committed. `None` takes it
    /// back: what was prepared so far will not be committed.
    fn prepare(&mut self, _: Option<&CommitStep>) {}

    fn has_programs(&self, variant: Variant) -> bool;

    /// Asking may make the table `nat` of iptables-legacy, empty.
    fn takes_legacy(&self) -> bool {
        true
    }

    /// Makes conntrack forget flows that the rules capture and that pass them by; returns their number.
    ///
    /// # Errors
    /// When conntrack can't be read or refuses.
    fn forget_flows(&mut self, stale: &StaleFlows) -> Result<usize, Error>;
}

/// One of the two kernel interfaces behind iptables. Rules of both can exist side by side, and all take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// The old interface, one program for each family.
    Legacy,
    /// iptables' syntax over nf_tables.
    Nft,
}

impl Variant {
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Nft];

    /// The variant of this name, which may lack `iptables-`.
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "iptables-legacy" | "legacy" => Some(Self::Legacy),
            "iptables-nft" | "nft" => Some(Self::Nft),
            _ => None,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "iptables-legacy",
            Self::Nft => "iptables-nft",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendName {
    Iptables(Variant),
    /// A table of nf_tables, over netlink.
    Nftables,
}

impl BackendName {
    pub const ALL: [Self; 3] = [Self::IPTABLES_NFT, Self::Iptables(Variant::Legacy), Self::Nftables];
    pub const IPTABLES_NFT: Self = Self::Iptables(Variant::Nft);
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iptables(variant) => variant.fmt(f),
            Self::Nftables => f.write_str("nftables"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for variant in Variant::ALL {
            let name = variant.to_string();
            assert_eq!(Variant::named(&name), Some(variant));
            assert_eq!(name.strip_prefix("iptables-").and_then(Variant::named), Some(variant));
        }
        assert_eq!(Variant::named("iptables"), None);
    }
}
