//! Errors of backends.

use super::nftables::Refusal;
use crate::sys::{exec::ExecError, lock};
use rules::Table;
use std::{error, io};

/// Why a backend could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another run holds the namespace.
    #[error(transparent)]
    Locked(#[from] lock::LockError),
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
    ListingMismatch { program: String, table: Table },
    /// A program ended with success and has not carried out its changes.
    #[error(
        "{program} ended with success, and the kernel does not have the rules that it was given for the table {}; see what \
         this program is, or choose another with --backend",
        .table.name()
    )]
    NotApplied { program: String, table: Table },
    /// The kernel refused a request.
    #[error("{what} failed{}", permission(.source))]
    Netlink { what: String, source: io::Error },
    /// The kernel has no nf_tables.
    #[error(
        "this kernel has no nf_tables; use --backend iptables-legacy, or have the node load the module nf_tables"
    )]
    NoNftables,
    /// A fault that a test injected.
    #[error("{0}")]
    Injected(String),
}

impl Error {
    pub(crate) fn netlink(what: &(impl ToString + ?Sized), source: io::Error) -> Self {
        Self::Netlink { what: what.to_string(), source }
    }

    /// The kind of the error with which the kernel refused a request; [`io::ErrorKind::Other`] for every other error.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Netlink { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        }
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

/// The remedy for the one refusal that users can mend.
fn permission(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (CAP_NET_ADMIN is needed in this network namespace)",
        _ => "",
    }
}
