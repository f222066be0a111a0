//! What is to be installed, and into which folders.

use super::failure::InstallError;
use super::replace;
use nix::{
    fcntl::{Flock, FlockArg},
    libc::O_DIRECTORY,
};
use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// Where the runtime looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folders {
    /// For network configurations.
    pub(crate) configurations: PathBuf,
    /// For plugins.
    pub(crate) programs: PathBuf,
}

/// What is to be installed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CniInstallOptions {
    pub(crate) folders: Folders,
    /// Our entry, as JSON on one line.
    pub(crate) entry: String,
    /// Keep running, and restore what is lost.
    pub(crate) watch: Option<WatchOptions>,
    /// How long to wait for a network configuration.
    pub(crate) wait: Option<Duration>,
}

/// Options for `--watch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchOptions {
    /// A file that is there while all is installed.
    pub(crate) ready_file: Option<PathBuf>,
    /// Where readiness and metrics are served.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Uninstall at the end.
    pub(crate) uninstall: bool,
}

impl Folders {
    pub(super) fn exist(&self) -> Result<(), InstallError> {
        let named = [(&self.configurations, "--conf-dir"), (&self.programs, "--bin-dir")];
        match named.into_iter().find(|(folder, _)| !folder.is_dir()) {
            Some((folder, flag)) => Err(InstallError::NoFolder { folder: folder.clone(), flag }),
            None => Ok(()),
        }
    }

    /// A folder that was removed. Mounted in a container, it may still exist without a name.
    pub(super) fn gone(&self) -> Option<&Path> {
        let is_there = |folder: &Path| fs::metadata(folder).is_ok_and(|it| it.is_dir() && it.nlink() > 0);
        [self.configurations.as_path(), &self.programs].into_iter().find(|folder| !is_there(folder))
    }

    /// Locks the folder of configurations; `None` if another installer has the lock. The kernel releases it when the process
    /// ends.
    pub(super) fn lock(&self) -> Result<Option<Flock<File>>, InstallError> {
        let failed = |error| InstallError::Configurations(self.configurations.clone(), error);
        let mut options = File::options();
        let folder =
            options.read(true).custom_flags(O_DIRECTORY).open(&self.configurations).map_err(failed)?;
        match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(Some(held)),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(failed(error.into())),
        }
    }

    /// Removes what killed runs have left. The caller holds the lock.
    pub(super) fn sweep(&self) -> Result<(), InstallError> {
        replace::sweep(&self.configurations)
            .map_err(|error| InstallError::Configurations(self.configurations.clone(), error))?;
        replace::sweep(&self.programs).map_err(|error| InstallError::Programs(self.programs.clone(), error))
    }
}
