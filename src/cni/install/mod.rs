//! `sidecar-init cni install`: the plugin's program among the runtime's plugins, and its entry in the network configuration
//! that the runtime uses; `sidecar-node` with it, where that lies beside us; kept there, where that is asked for, against whatever rewrites it.
//!
//! The program comes before the entry and goes after it, so that the runtime never looks for what is not there. At each
//! moment every file says what it said or what it is to say. Nothing asks an API server: what there is to know stands in
//! two folders.

mod conflist;
mod entry;
mod failure;
mod folder;
mod keep;
mod metrics;
mod options;
mod programs;
mod removal;
mod replace;
mod serve;

pub(crate) use entry::entry;
pub(crate) use failure::Error;
pub(crate) use keep::{End, keep};
pub(crate) use options::{Folders, InstallOptions, WatchOptions};
pub(crate) use removal::{Removed, uninstall};
