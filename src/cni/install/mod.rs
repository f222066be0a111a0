//! `sidecar-init cni install`: the plugin's program, and its entry in the network configuration that the runtime uses.
//! `--watch` restores what other programs overwrite.
//! The program is installed before the entry and removed after it, so the runtime never misses it. No API server is
//! contacted: all state is in two folders.

mod conflist;
mod entry;
mod folder;
mod folders;
mod keep;
mod neighbours;
mod serve;

pub(crate) use entry::entry;
pub(crate) use folders::{
    CniInstallOptions, Folders, InstallError, RemovedInstallation, WatchOptions, uninstall,
};
pub(crate) use keep::{InstallOutcome, keep};
