//! Uninstalls the plugin.

use super::failure::InstallError;
use super::folder;
use super::options::Folders;
use std::path::PathBuf;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RemovedInstallation {
    /// The network configurations that had our entry.
    pub(crate) configurations: Vec<PathBuf>,
    pub(crate) programs: Vec<PathBuf>,
}

/// Removes the entry and the programs. The programs can be kept, because a runtime that remembers by which plugins it has added a container
/// calls them when that container ends.
pub(crate) fn uninstall(folders: &Folders, keep_program: bool) -> Result<RemovedInstallation, InstallError> {
    folders.exist()?;
    let _held = folders.lock()?.ok_or_else(|| InstallError::Busy(folders.configurations.clone()))?;
    folders.sweep()?;
    remove(folders, keep_program)
}

pub(super) fn remove(folders: &Folders, keep_program: bool) -> Result<RemovedInstallation, InstallError> {
    let configurations = folder::withdraw(&folders.configurations)
        .map_err(|error| InstallError::Configurations(folders.configurations.clone(), error))?;
    let programs = if keep_program { Vec::new() } else { folders.remove_programs()? };
    Ok(RemovedInstallation { configurations, programs })
}
