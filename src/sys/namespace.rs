//! Network namespaces.

use nix::sched::{CloneFlags, setns};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Moves the calling thread into the namespace behind `path`, for good. Threads and processes that it
/// starts from now on are there as well.
///
/// # Errors
/// When the path can't be opened, is no network namespace, or we may not enter it.
pub fn enter(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    setns(file, CloneFlags::CLONE_NEWNET)?;
    Ok(())
}

/// Whether we share the network namespace of process 1, which on a node is the machine's own. `None` where
/// that can't be seen: in a pod, process 1 is the pod's.
pub fn is_that_of_process_1() -> Option<bool> {
    let inode = |path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    Some(inode("/proc/1/ns/net").ok()? == inode("/proc/thread-self/ns/net").ok()?)
}
