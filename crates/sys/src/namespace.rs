//! Network namespaces, and their settings (`/proc/sys/net`).

use nix::libc::O_NONBLOCK;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use std::net::{Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, fs::File, io, panic::resume_unwind, thread};

/// An open network namespace: it remains the same one even if its path changes.
#[derive(Debug)]
pub struct OpenNamespace {
    file: File,
    /// For messages.
    pub found: PathBuf,
}

impl OpenNamespace {
    /// A file that is no namespace is refused by [`OpenNamespace::enter`] only.
    pub fn open(path: &Path) -> io::Result<Self> {
        // A pipe would wait for its writer.
        let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
        Ok(Self { file, found: path.to_owned() })
    }

    pub fn own() -> io::Result<Self> {
        Self::open(Path::new("/proc/self/ns/net"))
    }

    /// Moves the calling thread into it, for good. Threads and processes that it starts from now on are there as well.
    pub fn enter(&self) -> io::Result<()> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)?;
        Ok(())
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, found: self.found.clone() })
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// The folder of the process below `/proc` by which it was found; `None` where it was found by another path.
    pub fn process(&self) -> Option<&Path> {
        let folder = self.found.parent().filter(|_| self.found.ends_with("ns/net"))?.parent()?;
        folder.join("root").is_dir().then_some(folder)
    }

    /// A name of `ip netns` may be a file that a restart of the machine has left.
    pub fn is_one(&self) -> bool {
        fstatfs(&self.file).is_ok_and(|system| system.filesystem_type() == NSFS_MAGIC)
    }

    pub fn id(&self) -> io::Result<NamespaceId> {
        self.file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
    }
}

impl AsFd for OpenNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Device and inode.
pub type NamespaceId = (u64, u64);

/// Moves the calling thread, and what it starts from now on, into the namespace behind `path`, for good.
pub fn enter(path: &Path) -> io::Result<()> {
    OpenNamespace::open(path)?.enter()
}

/// Moves the calling thread into a new network namespace, for good. Needs `CAP_SYS_ADMIN`.
pub fn enter_new() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWNET)?)
}

/// Does `work` in the namespace behind `path`, on a new thread: the caller's namespace does not change.
pub fn within<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_new_thread(|| enter(path).map(|()| work()))
}

/// Does `work` in a new network namespace, on a new thread. The namespace ends with its last user.
pub fn within_new<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_new_thread(|| enter_new().map(|()| work()))
}

/// Does `work` on a new thread, which may change what is a thread's own: its namespaces, or its users.
pub(super) fn on_new_thread<T: Send, E: From<io::Error> + Send>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    thread::scope(|scope| {
        // A limit of processes may refuse the thread, at which `Scope::spawn` panics.
        let started = thread::Builder::new().spawn_scoped(scope, work)?;
        started.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// True if IPv6 is switched off on an interface, or absent as a whole. Addresses and routes are refused then;
/// rules are not. Where the setting can't be read, as without `/proc`, it is if `::1` is not there.
pub fn lacks_ipv6(interface: &str) -> bool {
    let settings = Path::new("/proc/sys/net");
    match fs::read(settings.join("ipv6/conf").join(interface).join("disable_ipv6")) {
        Ok(value) => value.starts_with(b"1"),
        Err(error) if error.kind() == io::ErrorKind::NotFound && settings.exists() => true,
        Err(_) => UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err(),
    }
}

/// True in the machine's first network namespace, the host's own, where alone this setting exists (`net_core_table` in
/// `net/core/sysctl_net_core.c`); `None` where `/proc/sys` is not mounted.
pub fn is_host() -> Option<bool> {
    match fs::metadata("/proc/sys/net/core/netdev_max_backlog") {
        Ok(_) => Some(true),
        // In a namespace of a user's own there may be no setting in the folder, nor the folder.
        Err(error) if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/sys/net").exists() => {
            Some(false)
        }
        Err(_) => None,
    }
}

/// Seconds that conntrack remembers a TCP connection that one side has closed.
pub const CLOSE_WAIT: &str = "netfilter/nf_conntrack_tcp_timeout_close_wait";

/// Sets a setting below `/proc/sys/net`, and returns what it was. It may be missing, or for reading only.
pub fn set_sysctl(name: &str, value: &str) -> io::Result<String> {
    let path = Path::new("/proc/sys/net").join(name);
    let before = fs::read_to_string(&path)?.trim().to_owned();
    if before != value {
        fs::write(&path, value)?;
    }
    Ok(before)
}
