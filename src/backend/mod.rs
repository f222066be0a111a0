//! Where rules live: reading what is there, and committing changes to it.
//!
//! A backend stands for one network namespace with all that can hold rules in it. Its two verbs are reading and
//! committing, so that a test can stand in for the kernel and break at any step. What to change is decided by
//! [`crate::engine`].

mod flows;
mod hidden;
pub mod iptables;
mod kernel;
pub mod memory;
mod name;
pub mod nftables;
mod snapshot;

pub use hidden::{Hidden, HiddenRule};
pub use kernel::Kernel;
pub use name::{BackendName, Variant};
pub use snapshot::{Contents, Snapshot, of_iptables};

use crate::sys::{exec::ExecError, lock};
use nftables::{Refusal, bytecode};
use rules::routing::{Object, OwnedRoute};
use rules::{Family, Table, TableChange, desired::StaleFlows, render};
use std::{collections::BTreeSet, error, fmt, io};

/// One thing to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Changes of iptables' tables, in this order. Each table is all or nothing; all of them together are not.
    Iptables {
        variant: Variant,
        family: Family,
        /// At least one.
        changes: Vec<TableChange>,
    },
    /// All that is the owner's goes from the tables of iptables (nft), and with it the tables and base chains that are
    /// left without rules then. In one step where the kernel allows it; else as [`Step::Iptables`] of each family.
    Clear(Vec<(Family, Vec<TableChange>)>),
    /// A table of nf_tables as a whole, of the owner's or of an owner that it is joined with.
    Nftables {
        /// What is replaced, be it by a table of another name; `None` if there is nothing.
        live: Option<bytecode::Table>,
        /// What it becomes; `None` if it goes.
        wanted: Option<bytecode::Table>,
    },
    /// A policy rule, route or address appears.
    Add(Object),
    /// What is inherited becomes the owner's: a route or address where it stands, a policy rule beside it.
    Adopt(Object),
    /// A policy rule, route or address goes.
    Remove(Object),
    /// A policy rule that is inherited goes.
    RemoveInherited(OwnedRoute),
    /// What was of another owner's before it was adopted or removed is that owner's again, with the protocol that says so.
    GiveBack(OwnedRoute),
    /// Tables of nf_tables that are inherited go, of the family `inet` and of these names. What was in them can't be put
    /// back, so nothing may come behind it that can fail.
    RemoveTables(Vec<String>),
    /// All that is the owner's goes from tables of iptables (nft) that its program can't show. It can't be put back either.
    RemoveHidden(BTreeSet<(Family, Table)>),
    /// Packets that have met nothing of the steps so far leave the namespace's hooks.
    WaitForInFlight,
}

impl Step {
    /// What the changes of iptables' tables are to the programs of iptables; none for other steps.
    pub fn changes(&self) -> Vec<(Variant, Family, &[TableChange])> {
        match self {
            Self::Iptables { variant, family, changes } => vec![(*variant, *family, changes)],
            Self::Clear(families) => {
                families.iter().map(|(family, changes)| (Variant::Nft, *family, changes.as_slice())).collect()
            }
            Self::Nftables { .. }
            | Self::Add(_)
            | Self::Adopt(_)
            | Self::Remove(_)
            | Self::RemoveInherited(_)
            | Self::GiveBack(_)
            | Self::RemoveTables(_)
            | Self::RemoveHidden(_)
            | Self::WaitForInFlight => Vec::new(),
        }
    }

    /// What the program of iptables reads; nothing for what no program does.
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

impl fmt::Display for Step {
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
            Self::Nftables { live, wanted } => {
                let verb = match (live, wanted) {
                    (_, None) => "removing",
                    (None, Some(_)) => "creating",
                    (Some(_), Some(_)) => "replacing",
                };
                let name = |table: &Option<bytecode::Table>| table.as_ref().map(|table| table.name.clone());
                let table = name(live).or_else(|| name(wanted)).unwrap_or_default();
                write!(f, "{verb} the nf_tables table {table}")?;
                match name(wanted).filter(|wanted| *wanted != table) {
                    Some(wanted) => write!(f, " by {wanted}"),
                    None => Ok(()),
                }
            }
            Self::Add(object) => write!(f, "adding {object}"),
            Self::Adopt(object) => write!(f, "taking over {object}"),
            Self::Remove(object) => write!(f, "removing {object}"),
            Self::RemoveInherited(OwnedRoute { object, .. }) => write!(f, "removing {object} (inherited)"),
            Self::GiveBack(OwnedRoute { object, .. }) => write!(f, "giving back {object}"),
            Self::RemoveTables(names) => {
                write!(f, "removing the nf_tables tables {} (inherited)", names.join(", "))
            }
            Self::RemoveHidden(tables) => {
                let names = |(family, table): &(Family, Table)| format!("{family} {}", table.name());
                let names: Vec<String> = tables.iter().map(names).collect();
                write!(f, "removing rules from tables that {} can't show: {}", Variant::Nft, names.join(", "))
            }
            Self::WaitForInFlight => f.write_str("waiting for packets on their way"),
        }
    }
}

/// The names of the tables.
fn tables(changes: &[TableChange]) -> String {
    changes.iter().map(|change| change.table.name()).collect::<Vec<_>>().join(", ")
}

/// A network namespace that holds rules.
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
    fn commit(&mut self, step: &Step) -> Result<(), Error>;

    /// Hears which step comes behind the one that is about to be committed, so that it can be prepared meanwhile; `None`
    /// if no step does that it has heard of.
    fn expect(&mut self, _: Option<&Step>) {}

    /// Whether rules of a variant of iptables can be set here.
    fn has_programs(&self, variant: Variant) -> bool;

    /// Whether the kernel takes rules of iptables-legacy. Asking may make its table `nat`, empty.
    fn takes_legacy(&self) -> bool {
        true
    }

    /// Makes conntrack forget flows that the rules capture and that pass them by; says how many.
    ///
    /// # Errors
    /// When conntrack can't be read or refuses.
    fn forget_flows(&mut self, stale: &StaleFlows) -> Result<usize, Error>;
}

/// What goes wrong where rules live.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another run holds the namespace.
    #[error(transparent)]
    Held(#[from] lock::Refused),
    /// No usable programs of a variant on `PATH`.
    #[error("{0}")]
    NoProgram(String),
    /// A program of iptables failed.
    #[error("{hint}")]
    Program {
        /// What that means and what helps.
        hint: String,
        source: ExecError,
    },
    /// Another program changed the rules at the same time; trying again may help.
    #[error("another program changed the rules at the same time")]
    Conflict { source: Box<dyn error::Error + Send + Sync> },
    /// nf_tables refused a change, of which nothing has taken effect.
    #[error("nf_tables refused the change{}", permission(.0.cause()))]
    Nftables(#[source] Refusal),
    /// What a program printed can't be read.
    #[error("the output of {program} can't be read")]
    Output { program: String, source: rules::parse::ParseError },
    /// A program shows other rules than the kernel has.
    #[error(
        "{program} lists other rules than the kernel has in the table {}; use the version of iptables that wrote them",
        .table.name()
    )]
    Unlike { program: String, table: Table },
    /// A program ended with success and has not carried out its changes.
    #[error(
        "{program} ended with success, and the kernel does not have the rules that it was given for the table {}; see what \
         this program is, or choose another with --backend",
        .table.name()
    )]
    Undone { program: String, table: Table },
    /// The kernel refused a request.
    #[error("{what} failed{}", permission(.source))]
    Netlink { what: String, source: io::Error },
    /// The kernel has nothing that could take a table.
    #[error(
        "this kernel has no nf_tables; use --backend iptables-legacy, or have the node load the module nf_tables"
    )]
    NoNftables,
    /// A fault that a test asked for.
    #[error("{0}")]
    Injected(String),
}

impl Error {
    /// The kind of the kernel's refusal; other errors have none.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Netlink { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        }
    }
}

/// The remedy for the one refusal that users can mend.
fn permission(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (CAP_NET_ADMIN is needed in this network namespace)",
        _ => "",
    }
}
