//! Where rules live: reading what is there, and committing changes to it.
//!
//! A backend stands for one network namespace with all that can hold rules in it. Its two verbs are reading and
//! committing, so that a test can stand in for the kernel and break at any step. What to change is decided by
//! [`crate::engine`].

mod error;
mod flows;
mod hidden;
pub mod iptables;
mod kernel;
pub mod memory;
mod name;
pub mod nftables;
mod snapshot;
mod step;

pub use error::Error;
pub use hidden::{Hidden, HiddenRule};
pub use kernel::Kernel;
pub use name::{BackendName, Variant};
pub use snapshot::{Contents, Snapshot, of_iptables};
pub use step::{Backend, Step};
