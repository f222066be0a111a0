//! The installed files, their folders, and their removal. The programs are this one, under the plugin's name, and any
//! `sidecar-node` beside it, which the plugin starts for a kubeconfig.

use super::folder;
use crate::cni::files::{self, CopiedProgram};
use crate::cni::protocol::{KUBECONFIG, has_key};
use crate::cni::{NODE_PROGRAM, PLUGIN, beside};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, io, net::SocketAddr, time::Duration};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folders {
    pub(crate) configurations: PathBuf,
    pub(crate) programs: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CniInstallOptions {
    pub(crate) folders: Folders,
    pub(crate) entry: String,
    pub(crate) watch: Option<WatchOptions>,
    pub(crate) wait: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchOptions {
    pub(crate) ready_file: Option<PathBuf>,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) uninstall: bool,
}

impl Folders {
    pub(super) fn exist(&self) -> Result<(), InstallError> {
        let named = [(&self.configurations, "--conf-dir"), (&self.programs, "--bin-dir")];
        let missing = named.into_iter().find(|(folder, _)| !folder.is_dir());
        missing.map_or(Ok(()), |(folder, flag)| Err(InstallError::NoFolder { folder: folder.clone(), flag }))
    }

    /// A removed folder. Mounted in a container, it may still exist without a name.
    pub(super) fn gone(&self) -> Option<&Path> {
        let is_there = |folder: &Path| fs::metadata(folder).is_ok_and(|it| it.is_dir() && it.nlink() > 0);
        [self.configurations.as_path(), &self.programs].into_iter().find(|folder| !is_there(folder))
    }

    /// Locks the folder of configurations until the process ends; `None` if another installer holds the lock.
    pub(super) fn lock(&self) -> Result<Option<Flock<File>>, InstallError> {
        let folder = File::open(&self.configurations).map_err(|error| self.unchanged(error))?;
        match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(Some(held)),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(self.unchanged(error.into())),
        }
    }

    pub(super) fn unchanged(&self, error: io::Error) -> InstallError {
        InstallError::Configurations(self.configurations.clone(), error)
    }

    fn not_copied(&self, error: io::Error) -> InstallError {
        InstallError::Programs(self.programs.clone(), error)
    }

    /// Removes leftovers of killed runs. The caller holds the lock.
    pub(super) fn sweep(&self) -> Result<(), InstallError> {
        files::sweep(&self.configurations, Duration::ZERO).map_err(|error| self.unchanged(error))?;
        files::sweep(&self.programs, Duration::ZERO).map_err(|error| self.not_copied(error))
    }

    pub(super) fn program(&self) -> PathBuf {
        self.programs.join(PLUGIN)
    }

    fn node_program(&self) -> PathBuf {
        self.programs.join(NODE_PROGRAM)
    }

    /// Copies the programs, `sidecar-node` first, because the plugin starts it. Returns the number of copied programs.
    pub(super) fn put_programs(&self, placed: &mut Placed) -> Result<u64, InstallError> {
        let failed = |error| self.not_copied(error);
        let (ours, place) = (beside(NODE_PROGRAM), self.node_program());
        let is_new_node = ours.is_file()
            && !is_one_file(&ours, &place)
            && files::copy_program(&ours, &place, &mut placed.node).map_err(failed)?;
        let is_new = files::copy_program(Path::new("/proc/self/exe"), &self.program(), &mut placed.plugin)
            .map_err(failed)?;
        Ok(u64::from(is_new_node) + u64::from(is_new))
    }

    pub(super) fn remove_programs(&self) -> Result<Vec<PathBuf>, InstallError> {
        let node = (!self.holds_originals()).then(|| self.node_program());
        let programs = [self.program()].into_iter().chain(node);
        let removed = programs.filter_map(|program| {
            let removed = files::present(fs::remove_file(&program));
            removed.map(|there| there.map(|()| program)).transpose()
        });
        removed.collect::<io::Result<_>>().map_err(|error| self.not_copied(error))
    }

    /// True if `sidecar-node` in this folder is an original: the running program is in the folder too, and is not the plugin.
    fn holds_originals(&self) -> bool {
        let is_plugin = env::current_exe().is_ok_and(|program| program.ends_with(PLUGIN));
        !is_plugin && is_one_file(&beside(NODE_PROGRAM), &self.node_program())
    }

    /// Warns about a missing `sidecar-node`, without which the plugin would fail for every pod.
    pub(super) fn warn_of_missing_node(&self, entry: &str) {
        let (ours, place) = (beside(NODE_PROGRAM), self.node_program());
        if has_key(entry, &[KUBECONFIG]) && !ours.is_file() && !place.is_file() {
            tracing::warn!(
                target: "install",
                "the entry has a kubeconfig, but {NODE_PROGRAM}, which uses it, is missing: the plugin would \
                 fail for every pod; put it at {}, to be copied, or at {}",
                ours.display(), place.display()
            );
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("{} is not a directory; {flag} names the one that the runtime reads", .folder.display())]
    NoFolder { folder: PathBuf, flag: &'static str },
    #[error("cannot change the network configurations in {}", .0.display())]
    Configurations(PathBuf, #[source] io::Error),
    #[error("cannot change the program in {}", .0.display())]
    Programs(PathBuf, #[source] io::Error),
    #[error("another install is running in {}; stop it first", .0.display())]
    Busy(PathBuf),
    #[error("cannot listen on {0}")]
    Serve(SocketAddr, #[source] io::Error),
    #[error("{} can't be written (--ready-file)", .0.display())]
    ReadyFile(PathBuf, #[source] io::Error),
    #[error("cannot watch folders")]
    Watch(#[source] io::Error),
    #[error("{} was removed while it was watched", .0.display())]
    Removed(PathBuf),
    #[error("no usable network configuration appeared in time: {0}")]
    Late(String),
    #[error("stopped before a usable network configuration appeared")]
    Ended,
}

#[derive(Debug, Default)]
pub(super) struct Placed {
    plugin: Option<CopiedProgram>,
    node: Option<CopiedProgram>,
}

fn is_one_file(one: &Path, other: &Path) -> bool {
    let number = |path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    number(one).is_some_and(|found| number(other) == Some(found))
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RemovedInstallation {
    pub(crate) configurations: Vec<PathBuf>,
    pub(crate) programs: Vec<PathBuf>,
}

pub(crate) fn uninstall(folders: &Folders, keep_program: bool) -> Result<RemovedInstallation, InstallError> {
    folders.exist()?;
    let _held = folders.lock()?.ok_or_else(|| InstallError::Busy(folders.configurations.clone()))?;
    folders.sweep()?;
    remove(folders, keep_program)
}

pub(super) fn remove(folders: &Folders, keep_program: bool) -> Result<RemovedInstallation, InstallError> {
    let configurations =
        folder::withdraw(&folders.configurations).map_err(|error| folders.unchanged(error))?;
    let programs = if keep_program { Vec::new() } else { folders.remove_programs()? };
    Ok(RemovedInstallation { configurations, programs })
}
