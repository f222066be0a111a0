//! Backends read the rules of a network namespace and commit changes to them. With only these two verbs, a test can replace the
//! kernel and fail at any step. [`crate::engine`] decides on the changes.

pub mod iptables;
mod kernel;
pub mod nftables;
mod snapshot;
mod step;

pub use kernel::Kernel;
pub use snapshot::{Contents, Snapshot, UnlistableTable, of_iptables};
pub(crate) use step::During;
pub use step::{Backend, BackendName, CommitStep, Error, Result, Variant};
