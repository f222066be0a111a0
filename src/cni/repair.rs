//! A container that started without the plugin, seen from the node: its network namespace, and facts about it that flags do
//! not give.

use super::{
    counters::{self, REPAIR},
    protocol::Places,
    watch::{TRACE_TIMEOUT, within},
};
use mesh::{Host, sources::name_servers};
use sidecar_init::sys::{address, process};
use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// A container, by one of its processes or by its network namespace alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RepairTarget {
    Process(u32),
    Namespace(PathBuf),
}

impl RepairTarget {
    /// The path of its network namespace.
    pub(crate) fn namespace(&self) -> PathBuf {
        match self {
            Self::Process(id) => Path::new("/proc").join(id.to_string()).join("ns/net"),
            Self::Namespace(path) => path.clone(),
        }
    }
}

/// Answers for a thread in the container's network namespace and on the node's file system.
impl Host for RepairTarget {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        address::all()
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::Process(id) => Ok(name_servers(&process::read_as(
                &Path::new("/proc").join(id.to_string()),
                "etc/resolv.conf",
            )?)),
            Self::Namespace(_) => Err(io::Error::other("a namespace has none; name a process with --pid")),
        }
    }
}

/// Counts a repair, in the given state directory or the default one, if it exists.
pub(crate) fn count_repair(state: Option<&Path>, outcome: &'static str, took: Duration) -> io::Result<()> {
    let folder = state.map_or_else(|| Places::default().state, Path::to_owned);
    if !folder.is_dir() {
        return Ok(());
    }
    within(TRACE_TIMEOUT, move || counters::count(&folder, REPAIR, outcome, took))
}
