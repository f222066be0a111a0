//! Backends: reading the rules of a namespace, and committing changes to them.
//!
//! A backend is one network namespace with everything in it that can have rules. Its two verbs are reading and
//! committing, so that a test can replace the kernel and fail at any step. What to change is decided by
//! [`crate::engine`].

mod error;
pub mod iptables;
mod kernel;
pub mod memory;
pub mod nftables;
mod snapshot;
mod step;

pub use error::Error;
pub use kernel::Kernel;
pub use snapshot::{Contents, Snapshot, UnlistableRule, UnlistableTable, of_iptables};
pub use step::{Backend, BackendName, CommitStep, Variant};
