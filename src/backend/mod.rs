//! Backends read the rules of a network namespace and commit changes to them. With only two operations, a test can replace the
//! kernel and fail any step. [`crate::engine`] chooses the changes.

pub mod iptables;
mod kernel;
pub mod nftables;
mod snapshot;
mod step;

pub use kernel::Kernel;
pub use snapshot::{Contents, Snapshot, UnlistableTable, of_iptables};
pub(crate) use step::During;
pub use step::{Backend, BackendName, CommitStep, Error, Result, Variant};
