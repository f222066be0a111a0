//! A lock on one network namespace, held from reading its state to the end of the change.
//!
//! Its owner listens to a fixed NFLOG group of the namespace. The kernel gives a group to one socket at a time and frees it when
//! the socket is closed, however its process ends. Listening needs `CAP_NET_ADMIN`, as changing rules does, and the group exists
//! only in the kernel, so an init container and a plugin on the node's file system exclude each other. Alternatives fail: any
//! process can lock the namespace's file; root's files differ between a container and its node; closing a socket that owns a
//! table (`NFT_TABLE_F_OWNER`) takes 10 to 30 ms.
//!
//! Child programs inherit the socket, so the lock is held until the last child has ended, and the next run never reads a state
//! about to change. If the kernel lacks NFLOG over netlink, as gVisor does, the namespace's file is locked instead; a lock held
//! longer than the wait is then ignored with a warning. If `/proc` is not mounted either, nothing is locked; our own table is
//! still replaced as a whole or not at all.

use super::header::{NETLINK_NETFILTER, NFNL_SUBSYS_NFTABLES, NFPROTO_UNSPEC, NFT_MSG_GETGEN};
use super::netfilter::{message_type, nfgenmsg};
use super::netlink::NetlinkSocket;
use super::{netfilter, nflog, process};
use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};
use nix::{errno::Errno, libc};
use std::fs::{self, File};
use std::time::{Duration, Instant};
use std::{io, os::fd::AsFd, thread};

const GROUP: u16 = 0x5349;
const NAMESPACE: &str = "/proc/thread-self/ns/net";
const RETRY: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub struct LockGuard(
    #[cfg_attr(not(test), expect(dead_code, reason = "it is kept open, not used"))] LockKind,
);

#[derive(Debug)]
enum LockKind {
    Group(#[expect(dead_code, reason = "it is kept open, not used")] NetlinkSocket),
    File(#[expect(dead_code, reason = "it is kept open, not used")] Flock<File>),
    Nothing,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{} is changing this network namespace; raise --lock-wait or end it", holder(.0))]
    Busy(Option<u32>),
    #[error("the network namespace can't be locked")]
    Kernel(#[from] io::Error),
}

fn holder(id: &Option<u32>) -> String {
    id.map_or_else(|| "another program".to_owned(), |id| format!("process {id}"))
}

/// Takes the lock of the thread's network namespace. Fails if another process holds it for longer than `wait`.
pub fn hold(wait: Duration) -> Result<LockGuard, LockError> {
    let begun = Instant::now();
    let is_late = || begun.elapsed() >= wait;
    let mut socket = match NetlinkSocket::open(NETLINK_NETFILTER) {
        Err(error) if netfilter::lacks_netlink(&error) => return by_file(is_late),
        opened => opened?,
    };
    loop {
        let error = match nflog::bind(&mut socket, GROUP, |_| {}) {
            Ok(()) => {
                inherit(&socket)?;
                return Ok(LockGuard(LockKind::Group(socket)));
            }
            Err(error) => error,
        };
        match error.raw_os_error() {
            // Without the capability to change rules, the change itself reports the error.
            Some(libc::EPERM) if !may_change(&mut socket) => return Ok(LockGuard(LockKind::Nothing)),
            Some(libc::EPERM | libc::EEXIST | libc::EBUSY | libc::EAGAIN) if is_late() => {
                return Err(LockError::Busy(listener()));
            }
            Some(libc::EPERM | libc::EEXIST | libc::EBUSY | libc::EAGAIN) => {}
            Some(libc::EINVAL | libc::EOPNOTSUPP) => return by_file(is_late),
            _ => return Err(error.into()),
        }
        thread::sleep(RETRY);
    }
}

/// True if we may send netfilter requests: `EPERM` may also mean that the group is taken.
fn may_change(socket: &mut NetlinkSocket) -> bool {
    let kind = message_type(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN);
    let answer = socket.one(kind, &nfgenmsg(NFPROTO_UNSPEC, 0), |_| {});
    !answer.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
}

fn inherit(descriptor: &impl AsFd) -> io::Result<()> {
    Ok(fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty())).map(drop)?)
}

fn listener() -> Option<u32> {
    let column = |line: &str, at: usize| line.split_whitespace().nth(at).map(str::to_owned);
    // Columns: group, port, ..
    let listeners = fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_log").ok()?;
    let group = listeners.lines().find(|line| column(line, 0) == Some(GROUP.to_string()))?;
    let port = column(group, 1)?;
    // Columns: address, protocol, port, groups, buffers (4), drops, inode.
    let sockets = fs::read_to_string("/proc/thread-self/net/netlink").ok()?;
    let protocol = libc::NETLINK_NETFILTER.to_string();
    let is_it =
        |line: &&str| column(line, 1).as_ref() == Some(&protocol) && column(line, 2).as_ref() == Some(&port);
    let inode = column(sockets.lines().find(is_it)?, 9)?.parse().ok()?;
    // A socket's port is its creator's process ID, if that was free; processes that inherit the socket start later.
    let holders = process::holding_socket(inode);
    let maker = port.parse().ok().filter(|id| holders.contains(id));
    maker.or_else(|| holders.first().copied())
}

fn by_file(is_late: impl Fn() -> bool) -> Result<LockGuard, LockError> {
    let mut file = match File::open(NAMESPACE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockGuard(LockKind::Nothing)),
        other => other?,
    };
    inherit(&file)?;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(guard) => return Ok(LockGuard(LockKind::File(guard))),
            Err((_, Errno::EWOULDBLOCK)) if is_late() => {
                tracing::warn!(
                    target: "backend",
                    "ignoring the lock of another program, held for too long: without NFLOG \
                     (CONFIG_NETFILTER_NETLINK_LOG), any program of the pod can lock the network namespace"
                );
                return Ok(LockGuard(LockKind::Nothing));
            }
            Err((again, Errno::EWOULDBLOCK | Errno::EINTR)) => file = again,
            Err((_, error)) => return Err(LockError::Kernel(error.into())),
        }
        thread::sleep(RETRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels without NFLOG have only this lock, and every program of a pod can hold it.
    #[test]
    fn held_file_lock_delays_and_is_then_ignored() {
        const WAIT: Duration = Duration::from_millis(50);
        let lock = || {
            let begun = Instant::now();
            let LockGuard(kind) = by_file(|| begun.elapsed() >= WAIT).expect("it can be opened");
            (kind, begun.elapsed())
        };
        let (guard, took) = lock();
        assert!(matches!(guard, LockKind::File(_)) && took < WAIT, "{guard:?} after {took:?}");
        let (passed, took) = lock();
        assert!(matches!(passed, LockKind::Nothing) && took >= WAIT, "{passed:?} after {took:?}");
        drop(guard);
        assert!(matches!(lock().0, LockKind::File(_)));
    }
}
