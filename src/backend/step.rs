//! The backend's interface: reading a namespace, committing step by step, and errors.

use super::{Snapshot, nftables::Refusal, nftables::bytecode::EncodedTable, of_iptables};
use crate::{sys::exec::ExecError, sys::lock};
use rules::routing::{Object, RoutingEntry};
use rules::{Family, Table, TableChange, desired::StaleFlows, render};
use std::{collections::BTreeSet, error, fmt, io};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitStep {
    /// Changes to iptables tables, in this order. Each table's change is atomic; the whole step is not.
    Iptables {
        variant: Variant,
        family: Family,
        changes: Vec<TableChange>,
    },
    /// Removes the owner's rules, and tables left empty, from iptables (nft): in one step, or else like [`CommitStep::Iptables`].
    Clear(Vec<(Family, Vec<TableChange>)>),
    /// Replaces a whole nf_tables table, the owner's or a joined owner's.
    Nftables {
        /// The replaced table, which may have another name; `None` if there is none.
        live: Option<EncodedTable>,
        desired: Option<EncodedTable>,
    },
    Add(Object),
    /// Makes inherited routing the owner's: changes a route or address in place, adds the owner's policy rule.
    Adopt(Object),
    Remove(Object),
    RemoveInherited(RoutingEntry),
    /// Returns adopted or removed routing to another owner, with its protocol.
    GiveBack(RoutingEntry),
    /// Removes inherited `inet` tables from nf_tables. Irreversible, so it comes last.
    RemoveTables(Vec<String>),
    /// Removes the owner's rules from iptables (nft) tables that the program can't show. Irreversible.
    CleanUnlistable(BTreeSet<(Family, Table)>),
    /// Waits until packets in flight have left the old rules.
    WaitForInFlight,
}

impl CommitStep {
    pub fn changes(&self) -> Vec<(Variant, Family, &[TableChange])> {
        if let Self::Iptables { variant, family, changes } = self {
            return vec![(*variant, *family, changes)];
        }
        let Self::Clear(families) = self else { return Vec::new() };
        families.iter().map(|(family, changes)| (Variant::Nft, *family, changes.as_slice())).collect()
    }

    /// nf_tables tables that the step changes, by family and name, including iptables (nft) tables.
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

    /// Input for the iptables programs; empty for steps without a program.
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
                f.write_str("and chains left empty")
            }
            Self::Nftables { live, desired } => {
                let verb = match (live, desired) {
                    (_, None) => "removing",
                    (None, Some(_)) => "creating",
                    (Some(_), Some(_)) => "replacing",
                };
                let name = |table: &Option<EncodedTable>| table.as_ref().map(|table| table.name.clone());
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
            Self::WaitForInFlight => f.write_str("waiting for packets in flight"),
        }
    }
}

fn tables(changes: &[TableChange]) -> String {
    changes.iter().map(|change| change.table.name()).collect::<Vec<_>>().join(", ")
}

pub trait Backend {
    /// Keeps other runs of this program out of the namespace until the backend is dropped, or both would add missing rules.
    fn hold(&mut self) -> Result<()>;

    fn read(&mut self) -> Result<Snapshot>;

    /// Commits one step. A failed step may have taken effect in part, table by table.
    fn commit(&mut self, step: &CommitStep) -> Result<()>;

    /// Prepares the step after the next commit; `None` discards the prepared one.
    fn prepare(&mut self, _: Option<&CommitStep>) {}

    fn has_programs(&self, variant: Variant) -> bool;

    /// True if the namespace can use iptables-legacy. The check may create an empty `nat` table.
    fn takes_legacy(&self) -> bool {
        true
    }

    /// Deletes conntrack flows that bypass the rules meant to capture them; returns their number.
    fn forget_flows(&mut self, stale: &StaleFlows) -> Result<usize>;
}

/// One of the two kernel interfaces behind iptables. Rules of both can exist side by side, and all take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    Legacy,
    Nft,
}

impl Variant {
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Nft];

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

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Locked(#[from] lock::LockError),
    #[error("{0}")]
    NoProgram(String),
    #[error("{hint}")]
    Program { hint: String, source: ExecError },
    #[error("another program changed the rules at the same time")]
    Conflict { source: Box<dyn error::Error + Send + Sync> },
    /// None of the change has taken effect.
    #[error("nf_tables refused the change{}", permission(.0.cause()))]
    Nftables(#[source] Refusal),
    #[error("cannot parse the output of {program}")]
    Output { program: String, source: rules::parse::ParseError },
    #[error(
        "{program} does not list the kernel's rules in table {}; use the version of iptables that wrote them",
        .table.name()
    )]
    ListingMismatch { program: String, table: Table },
    #[error(
        "{program} reported success, but the kernel lacks its rules for table {}; check this program, or \
         choose another with --backend",
        .table.name()
    )]
    NotApplied { program: String, table: Table },
    #[error("{what} failed{}", permission(.source))]
    Netlink { what: String, source: io::Error },
    #[error(
        "this kernel has no nf_tables; use --backend iptables-legacy, or load the module nf_tables on the node"
    )]
    NoNftables,
}

impl Error {
    /// Kind of the error with which the kernel refused a request; [`io::ErrorKind::Other`] for all other errors.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Netlink { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        }
    }
}

pub(crate) trait During<T> {
    fn during(self, what: &(impl ToString + ?Sized)) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, what: &(impl ToString + ?Sized)) -> Result<T> {
        self.map_err(|source| Error::Netlink { what: what.to_string(), source })
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict(_) => Self::Conflict { source: refusal.into() },
            Refusal::Refused { .. } => Error::Nftables(refusal),
        }
    }
}

fn permission(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (CAP_NET_ADMIN is required in this network namespace)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        for variant in Variant::ALL {
            let name = variant.to_string();
            assert_eq!(Variant::named(&name), Some(variant));
            assert_eq!(name.strip_prefix("iptables-").and_then(Variant::named), Some(variant));
        }
        assert_eq!(Variant::named("iptables"), None);
    }
}
