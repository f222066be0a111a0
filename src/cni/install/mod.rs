//! `sidecar-init cni install`: the plugin's program among the runtime's plugins, and its entry in the network configuration
//! that the runtime uses; `sidecar-node` with it, where that lies beside us; kept there, where that is asked for, against whatever rewrites it.
//!
//! The program comes before the entry and goes after it, so that the runtime never looks for what is not there. At each
//! moment every file says what it said or what it is to say. Nothing asks an API server: what there is to know stands in
//! two folders.

mod conflist;
mod entry;
mod folder;
mod keep;
mod metrics;
mod programs;
mod replace;
mod serve;

pub(crate) use entry::entry;
pub(crate) use keep::{End, keep};

use crate::cni::protocol::{Places, Read};
use nix::{
    fcntl::{Flock, FlockArg},
    libc::O_DIRECTORY,
};
use std::{
    fs::{self, File},
    io,
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
pub(crate) struct InstallOptions {
    pub(crate) folders: Folders,
    /// Our entry, as JSON on one line.
    pub(crate) entry: String,
    /// Stay, and see to it that it stays.
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
    /// Take all back in the end.
    pub(crate) uninstall: bool,
}

/// Why it can't be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{} is not a directory; {flag} names the one that the runtime reads", .folder.display())]
    NoFolder { folder: PathBuf, flag: &'static str },
    #[error("the entry can't be put into, or taken out of, the network configurations in {}", .0.display())]
    Configurations(PathBuf, #[source] io::Error),
    #[error("the program can't be put into, or taken out of, {}", .0.display())]
    Programs(PathBuf, #[source] io::Error),
    #[error("another install is at work in {}; end it first", .0.display())]
    Busy(PathBuf),
    #[error("{0} can't be served at")]
    Serve(SocketAddr, #[source] io::Error),
    #[error("{} can't be written (--ready-file)", .0.display())]
    ReadyFile(PathBuf, #[source] io::Error),
    #[error("folders can't be watched")]
    Watch(#[source] io::Error),
    #[error("{} was removed while it was watched", .0.display())]
    Removed(PathBuf),
    #[error("nothing to install into has come in time: {0}")]
    Late(String),
    #[error("asked to end before there was anything to install into")]
    Ended,
}

/// What was taken back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    /// The network configurations that had our entry.
    pub(crate) configurations: Vec<PathBuf>,
    pub(crate) programs: Vec<PathBuf>,
}

/// Takes back what was installed. The programs may stay: a runtime that remembers by which plugins it has added a container
/// calls them when that container goes.
pub(crate) fn uninstall(folders: &Folders, keep_program: bool) -> Result<Removed, Error> {
    folders.exist()?;
    let _held = folders.lock()?.ok_or_else(|| Error::Busy(folders.configurations.clone()))?;
    folders.sweep()?;
    remove(folders, keep_program)
}

fn remove(folders: &Folders, keep_program: bool) -> Result<Removed, Error> {
    let configurations = folder::withdraw(&folders.configurations)
        .map_err(|error| Error::Configurations(folders.configurations.clone(), error))?;
    let programs = if keep_program { Vec::new() } else { folders.remove_programs()? };
    Ok(Removed { configurations, programs })
}

/// Where the plugin leaves its counters, by its entry or by default.
pub(crate) fn state_directory(entry: &str) -> PathBuf {
    Read::of(entry.as_bytes()).map_or_else(|_| Places::default(), |read| read.places).state
}

impl Folders {
    fn exist(&self) -> Result<(), Error> {
        let named = [(&self.configurations, "--conf-dir"), (&self.programs, "--bin-dir")];
        match named.into_iter().find(|(folder, _)| !folder.is_dir()) {
            Some((folder, flag)) => Err(Error::NoFolder { folder: folder.clone(), flag }),
            None => Ok(()),
        }
    }

    /// One that is not there any more. Mounted in a container, it may be there without a name.
    fn gone(&self) -> Option<&Path> {
        let is_there = |folder: &Path| fs::metadata(folder).is_ok_and(|it| it.is_dir() && it.nlink() > 0);
        [self.configurations.as_path(), &self.programs].into_iter().find(|folder| !is_there(folder))
    }

    /// Holds the folder of configurations against others of us; `None` if one has it. The kernel lets go of it for whoever
    /// is killed.
    fn lock(&self) -> Result<Option<Flock<File>>, Error> {
        let failed = |error| Error::Configurations(self.configurations.clone(), error);
        let mut options = File::options();
        let folder =
            options.read(true).custom_flags(O_DIRECTORY).open(&self.configurations).map_err(failed)?;
        match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(Some(held)),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(failed(error.into())),
        }
    }

    fn sweep(&self) -> Result<(), Error> {
        let swept = |folder: &Path| replace::sweep(folder);
        swept(&self.configurations)
            .map_err(|error| Error::Configurations(self.configurations.clone(), error))?;
        swept(&self.programs).map_err(|error| Error::Programs(self.programs.clone(), error))
    }
}
