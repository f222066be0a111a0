//! The programs in the runtime's folder of plugins: this one, by the plugin's name, and `sidecar-node`, which the plugin starts,
//! if it is next to this program. It is optional: without a kubeconfig it is not used.

use super::{
    CniInstallOptions, Folders, InstallError,
    replace::{self, CopiedProgram},
};
use crate::cni::{
    NODE_PROGRAM, PLUGIN, beside,
    protocol::{KUBECONFIG, has_key},
};
use std::{
    env, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The programs in their places, as they were seen last.
#[derive(Debug, Default)]
pub(super) struct Placed {
    plugin: Option<CopiedProgram>,
    node: Option<CopiedProgram>,
}

impl Folders {
    pub(super) fn program(&self) -> PathBuf {
        self.programs.join(PLUGIN)
    }

    fn node_program(&self) -> PathBuf {
        self.programs.join(NODE_PROGRAM)
    }

    /// Copies the programs to the plugins, `sidecar-node` first, because the plugin starts it. Returns how many were missing or
    /// differed.
    pub(super) fn put_programs(&self, placed: &mut Placed) -> Result<u64, InstallError> {
        let failed = |error| InstallError::Programs(self.programs.clone(), error);
        let (ours, place) = (beside(NODE_PROGRAM), self.node_program());
        let is_new_node = ours.is_file()
            && !is_one_file(&ours, &place)
            && replace::copy_program(&ours, &place, &mut placed.node).map_err(failed)?;
        let is_new = replace::copy_program(Path::new("/proc/self/exe"), &self.program(), &mut placed.plugin)
            .map_err(failed)?;
        Ok(u64::from(is_new_node) + u64::from(is_new))
    }

    /// Removes them, and returns which existed.
    pub(super) fn remove_programs(&self) -> Result<Vec<PathBuf>, InstallError> {
        let mut programs = vec![self.program()];
        if !self.holds_originals() {
            programs.push(self.node_program());
        }
        let mut removed = Vec::new();
        for program in programs {
            match fs::remove_file(&program) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(InstallError::Programs(self.programs.clone(), error)),
                Ok(()) => removed.push(program),
            }
        }
        Ok(removed)
    }

    /// Whether `sidecar-node` in this folder is an original and not a copy: the running program is in the folder too, and is
    /// not the plugin.
    fn holds_originals(&self) -> bool {
        let is_plugin = env::current_exe().is_ok_and(|program| program.ends_with(PLUGIN));
        !is_plugin && is_one_file(&beside(NODE_PROGRAM), &self.node_program())
    }
}

impl CniInstallOptions {
    /// Warns that `sidecar-node` is missing, without which the plugin would fail for every pod.
    pub(super) fn warn_of_missing_node(&self) {
        let (ours, place) = (beside(NODE_PROGRAM), self.folders.node_program());
        if has_key(&self.entry, &[KUBECONFIG]) && !ours.is_file() && !place.is_file() {
            tracing::warn!(
                target: "install",
                "the entry has a kubeconfig, but {NODE_PROGRAM}, which asks the API server by it, is not there: the plugin \
                 would fail for every pod; put it at {}, from where it is copied, or at {}",
                ours.display(), place.display()
            );
        }
    }
}

fn is_one_file(one: &Path, other: &Path) -> bool {
    let number = |path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    number(one).is_some_and(|found| number(other) == Some(found))
}
