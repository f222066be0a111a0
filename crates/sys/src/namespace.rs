//! Network namespaces and their settings (`/proc/sys/net`).

use nix::libc::O_NONBLOCK;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use std::net::{Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, fs::File, io, panic::resume_unwind, thread};

/// An open network namespace; it stays the same even if its path changes.
#[derive(Debug)]
pub struct OpenNamespace {
    file: File,
    pub found: PathBuf,
}

impl OpenNamespace {
    /// Opens a namespace file. Other files fail only in [`OpenNamespace::enter`].
    pub fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for its writer.
        let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
        Ok(Self { file, found: path.to_owned() })
    }

    pub fn own() -> io::Result<Self> {
        Self::open(Path::new("/proc/self/ns/net"))
    }

    /// Moves the calling thread into the namespace, for good. New threads and processes inherit the namespace.
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

    /// `/proc` folder of the process through which the namespace was found; `None` for other paths.
    pub fn process(&self) -> Option<&Path> {
        let folder = self.found.parent().filter(|_| self.found.ends_with("ns/net"))?.parent()?;
        folder.join("root").is_dir().then_some(folder)
    }

    /// True for a namespace. An `ip netns` name may be a plain file left by a reboot.
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

pub type NamespaceId = (u64, u64);

pub fn enter(path: &Path) -> io::Result<()> {
    OpenNamespace::open(path)?.enter()
}

/// Needs `CAP_SYS_ADMIN`.
pub fn enter_new() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWNET)?)
}

/// Runs `work` in the namespace at `path`, on a new thread: the caller's namespace does not change.
pub fn within<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_new_thread(|| enter(path).map(|()| work()))
}

/// Runs `work` in a new network namespace, on a new thread. The namespace disappears with its last user.
pub fn within_new<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_new_thread(|| enter_new().map(|()| work()))
}

pub(super) fn on_new_thread<T: Send, E: From<io::Error> + Send>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    thread::scope(|scope| {
        // At a process limit, `Scope::spawn` would panic.
        let started = thread::Builder::new().spawn_scoped(scope, work)?;
        started.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// True if IPv6 is disabled on an interface or in the kernel. Addresses and routes are refused then; rules are not. If the
/// setting can't be read, as without `/proc`, a missing `::1` decides.
pub fn lacks_ipv6(interface: &str) -> bool {
    let settings = Path::new("/proc/sys/net");
    match fs::read(settings.join("ipv6/conf").join(interface).join("disable_ipv6")) {
        Ok(value) => value.starts_with(b"1"),
        Err(error) if error.kind() == io::ErrorKind::NotFound && settings.exists() => true,
        Err(_) => UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err(),
    }
}

/// True in the machine's first network namespace, the host's, which alone has this setting (`net_core_table` in
/// `net/core/sysctl_net_core.c`); `None` where `/proc/sys` is not mounted.
pub fn is_host() -> Option<bool> {
    match fs::metadata("/proc/sys/net/core/netdev_max_backlog") {
        Ok(_) => Some(true),
        // A user's own namespace may lack the setting, or the folder.
        Err(error) if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/sys/net").exists() => {
            Some(false)
        }
        Err(_) => None,
    }
}

/// Seconds that conntrack keeps a TCP connection that one side has closed.
pub const CLOSE_WAIT: &str = "netfilter/nf_conntrack_tcp_timeout_close_wait";

/// Writes a setting below `/proc/sys/net` and returns its previous value. Fails if it is missing or read-only.
pub fn set_sysctl(name: &str, value: &str) -> io::Result<String> {
    let path = Path::new("/proc/sys/net").join(name);
    let before = fs::read_to_string(&path)?.trim().to_owned();
    if before != value {
        fs::write(&path, value)?;
    }
    Ok(before)
}
