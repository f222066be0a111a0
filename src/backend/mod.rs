//! Backends: reading the rules of a network namespace, and committing changes to them. There are two verbs, so that a test
//! can replace the kernel and fail at any step. What to change is decided by [`crate::engine`].

pub mod iptables;
mod kernel;
pub mod nftables;
mod snapshot;
mod step;

pub use kernel::Kernel;
pub use snapshot::{Contents, Snapshot, UnlistableTable, of_iptables};
pub(crate) use step::During;
pub use step::{Backend, BackendName, CommitStep, Error, Variant};
