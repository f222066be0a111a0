//! A container that started without the plugin, seen from the node: its network namespace, and facts about it that flags do
//! not give.

use super::{
    counters::{self, REPAIR},
    protocol::Places,
    watch::{TRACE_TIMEOUT, within},
};
use mesh::{Host, sources::name_servers};
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2},
    sys::stat::Mode,
};
use sidecar_init::sys::address;
use std::{
    fs::File,
    io::{self, Read},
    net::IpAddr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

/// How much of a resolv.conf is read.
const MAX_BYTES: u64 = 64 * 1024;

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
            Self::Process(id) => {
                let root = File::open(format!("/proc/{id}/root"))?;
                Ok(name_servers(&start_of_file(&root, "etc/resolv.conf")?))
            }
            Self::Namespace(_) => Err(io::Error::other("a namespace has none; name a process with --pid")),
        }
    }
}

/// The start of a file below a container's root directory. The container may have made the file: its symbolic links are resolved
/// within that root, so that none leads to a file of the node, and reading can't wait or go on without end.
fn start_of_file(root: &File, path: &str) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_IN_ROOT);
    let opened = match openat2(root, path, how) {
        // Before Linux 5.6, or by an old seccomp filter.
        Err(Errno::ENOSYS | Errno::EPERM) => without_links(root, path, flags)?,
        other => other?,
    };
    let file = File::from(opened);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut content)?;
    Ok(content)
}

/// Opens a file below a root directory, if no part of the path is a link.
fn without_links(root: &File, path: &str, flags: OFlag) -> io::Result<OwnedFd> {
    path.split('/').try_fold(OwnedFd::from(root.try_clone()?), |folder, name| {
        openat(folder, name, flags | OFlag::O_NOFOLLOW, Mode::empty()).map_err(io::Error::from)
    })
}

/// Counts a repair, in the given state directory or the default one, if it exists.
pub(crate) fn count_repair(state: Option<&Path>, outcome: &'static str, took: Duration) -> io::Result<()> {
    let folder = state.map_or_else(|| Places::default().state, Path::to_owned);
    if !folder.is_dir() {
        return Ok(());
    }
    within(TRACE_TIMEOUT, move || counters::count(&folder, REPAIR, outcome, took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn links_lead_to_files_of_the_same_root_or_are_refused() {
        let folder = testkit::folder::Folder::new("root");
        for name in ["etc", "run"] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        fs::write(folder.join("run/servers"), "nameserver 10.9.8.7\n").expect("written");
        symlink("/run/servers", folder.join("etc/resolv.conf")).expect("a link");
        let root = File::open(&*folder).expect("a folder");
        let content = start_of_file(&root, "etc/resolv.conf").expect("a file");
        assert_eq!(content, b"nameserver 10.9.8.7\n");
        start_of_file(&root, "etc").expect_err("a folder");
        symlink("run", folder.join("linked")).expect("a link");
        without_links(&root, "run/servers", OFlag::O_CLOEXEC).expect("no link");
        for path in ["linked/servers", "etc/resolv.conf"] {
            without_links(&root, path, OFlag::O_CLOEXEC).expect_err("a link");
        }
    }
}
