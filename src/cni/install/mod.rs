//! `sidecar-init cni install`: the plugin's program among the runtime's plugins, and its entry in the network configuration
//! that the runtime uses, with `sidecar-node` if that is next to this program. `--watch` restores what other programs overwrite.
//!
//! The program is installed before the entry and removed after it, so the runtime never misses it. At each moment every file
//! has its old content or its new one. No API server is contacted: all state is in two folders.

mod conflist;
mod entry;
mod folder;
mod folders;
mod keep;
mod neighbours;
mod replace;
mod serve;

pub(crate) use entry::entry;
pub(crate) use folders::{
    CniInstallOptions, Folders, InstallError, RemovedInstallation, WatchOptions, uninstall,
};
pub(crate) use keep::{InstallOutcome, keep};
