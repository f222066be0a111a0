//! Where rules live: reading what is there, and committing changes to it.
//!
//! Two verbs, so that a test can stand in for the kernel and break at any step. What to change is decided
//! by [`crate::operations`].

pub mod iptables;
mod kernel;
pub mod memory;
pub mod nftables;

pub use kernel::Kernel;

use crate::sys::exec::ExecError;
use nftables::{Refusal, bytecode};
use rules::{Family, Ownership, State, TableChange, routing::Object};
use std::{
    collections::{BTreeMap, BTreeSet},
    error, fmt, io,
};

/// One of the two kernel interfaces behind iptables. Rules of both can stand side by side, and all fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// The old interface, one program for each family.
    Legacy,
    /// iptables' syntax over nf_tables.
    Nft,
}

impl Variant {
    /// Both variants.
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Nft];
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Nft => "nft",
        })
    }
}

/// All that concerns us in a network namespace at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Tables by variant and family. Absent: nothing there.
    pub tables: BTreeMap<(Variant, Family), State>,
    /// Policy rules, routes and addresses of ours, in the order in which they are added.
    pub routes: BTreeSet<Object>,
    /// Copies of policy rules of ours beyond the first, which nobody wants.
    pub duplicates: Vec<Object>,
    /// Whether the owner's address is on `lo` and not by our doing.
    pub foreign_address: bool,
    /// Tables that exist and that no program on `PATH` can read.
    pub unreadable: Vec<(Variant, Family)>,
    /// Whether legacy tables hold rules, ours or not, in whatever table.
    pub legacy_in_use: bool,
    /// Our own table of nf_tables, if it is there.
    pub native: Option<bytecode::Table>,
}

impl Snapshot {
    /// Whether an object is there; the address counts whoever put it there.
    pub fn has(&self, object: &Object) -> bool {
        self.routes.contains(object) || (matches!(object, Object::Address(_)) && self.foreign_address)
    }

    /// The variants that hold rules of ours.
    pub fn variants_in_use(&self, owner: &Ownership) -> impl Iterator<Item = Variant> {
        Variant::ALL.into_iter().filter(move |variant| {
            Family::BOTH.iter().any(|family| {
                self.tables.get(&(*variant, *family)).is_some_and(|state| state.holds_any_of(owner))
            })
        })
    }

    /// The state of one variant and family.
    pub fn state(&self, variant: Variant, family: Family) -> State {
        self.tables.get(&(variant, family)).cloned().unwrap_or_default()
    }
}

/// One thing to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Changes of tables, in this order. Each table is all or nothing; all of them together are not.
    Tables {
        /// The variant.
        variant: Variant,
        /// The family.
        family: Family,
        /// The changes, at least one.
        changes: Vec<TableChange>,
    },
    /// Our own table of nf_tables, as a whole.
    Native {
        /// What it replaces; `None` if it is not there.
        live: Option<bytecode::Table>,
        /// What it becomes; `None` if it goes.
        wanted: Option<bytecode::Table>,
    },
    /// A policy rule, route or address appears.
    Add(Object),
    /// A policy rule, route or address goes.
    Remove(Object),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tables { variant, family, changes } => {
                let tables: Vec<&str> = changes.iter().map(|change| change.table.name()).collect();
                write!(f, "{family} rules ({variant}: {})", tables.join(", "))
            }
            Self::Native { live, wanted } => {
                f.write_str(match (live, wanted) {
                    (_, None) => "removing",
                    (None, Some(_)) => "creating",
                    (Some(_), Some(_)) => "replacing",
                })?;
                let table = wanted.as_ref().or(live.as_ref()).map_or("", |table| table.name.as_str());
                write!(f, " the nf_tables table {table}")
            }
            Self::Add(object) => write!(f, "adding {object}"),
            Self::Remove(object) => write!(f, "removing {object}"),
        }
    }
}

/// A place that holds rules.
pub trait Backend {
    /// Reads everything that concerns us. Creates nothing.
    ///
    /// # Errors
    /// When something that is there can't be read.
    fn read(&mut self) -> Result<Snapshot, Error>;

    /// Commits one step.
    ///
    /// # Errors
    /// When the step failed; it may have taken effect in part, table by table.
    fn commit(&mut self, step: &Step) -> Result<(), Error>;
}

/// What goes wrong where rules live.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No usable programs of a variant on `PATH`.
    #[error("{0}")]
    NoProgram(String),
    /// A program of iptables failed.
    #[error("{hint}")]
    Program {
        /// What that means and what helps.
        hint: String,
        /// The failure.
        source: ExecError,
    },
    /// Another program changed the rules at the same time; trying again may help.
    #[error("another program changed the rules at the same time")]
    Conflict {
        /// The failure.
        source: Box<dyn error::Error + Send + Sync>,
    },
    /// nf_tables refused a change, of which nothing has taken effect.
    #[error("nf_tables refused the change{}", permission(.0.cause()))]
    Nftables(#[source] Refusal),
    /// What a program printed can't be read.
    #[error("the output of {program} can't be read")]
    Output {
        /// The program.
        program: String,
        /// The line.
        source: rules::parse::ParseError,
    },
    /// The kernel refused a netlink request.
    #[error("{what} failed{}", permission(.source))]
    Netlink {
        /// The request.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A fault that a test asked for.
    #[error("{0}")]
    Injected(String),
}

/// The remedy for the one refusal that users can mend.
fn permission(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (CAP_NET_ADMIN is needed in this network namespace)",
        _ => "",
    }
}
