//! Errors of backends.

use super::nftables::Refusal;
use crate::sys::{exec::ExecError, lock};
use rules::Table;
use std::{error, io};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Locked(#[from] lock::LockError),
    #[error("{0}")]
    NoProgram(String),
    #[error("{hint}")]
    Program { hint: String, source: ExecError },
    /// Trying again may help.
    #[error("another program changed the rules at the same time")]
    Conflict { source: Box<dyn error::Error + Send + Sync> },
    /// Nothing of the change has taken effect.
    #[error("nf_tables refused the change{}", permission(.0.cause()))]
    Nftables(#[source] Refusal),
    #[error("the output of {program} can't be read")]
    Output { program: String, source: rules::parse::ParseError },
    #[error(
        "{program} lists other rules than the kernel has in the table {}; use the version of iptables that wrote them",
        .table.name()
    )]
    ListingMismatch { program: String, table: Table },
    #[error(
        "{program} ended with success, and the kernel does not have the rules that it was given for the table {}; see what \
         this program is, or choose another with --backend",
        .table.name()
    )]
    NotApplied { program: String, table: Table },
    #[error("{what} failed{}", permission(.source))]
    Netlink { what: String, source: io::Error },
    #[error(
        "this kernel has no nf_tables; use --backend iptables-legacy, or have the node load the module nf_tables"
    )]
    NoNftables,
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
