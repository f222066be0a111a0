//! The programs, by name, and where they are.

use std::{env, path::PathBuf};

/// The command, and the name by which the program is this plugin.
pub(crate) const COMMAND: &str = "cni";
pub(crate) const PLUGIN: &str = "sidecar-cni";
/// The program that speaks to the API server.
pub(crate) const NODE_PROGRAM: &str = "sidecar-node";

/// A program that was installed beside us.
pub(crate) fn beside(name: &str) -> PathBuf {
    let ours = env::current_exe().unwrap_or_default();
    ours.with_file_name(name)
}
