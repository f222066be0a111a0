//! The process group of the programs that we start. It ends when we end, however that happens.
//!
//! A program that outlived us could change rules while the next run works, and it would keep the namespace's lock, which it
//! inherits. So a small process leads the group and waits at the reading end of a pipe, whose other end only we hold. When
//! that end is closed, by SIGKILL as by anything else, the leader kills its group.
//!
//! `PR_SET_PDEATHSIG` is not enough: it reaches the program and not what the program has started, such as the commands of
//! a wrapper script, and it follows the thread that started the program instead of the process.

use nix::{
    errno::Errno,
    libc,
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, dup2_stdin, fork, getpid, pipe2, read, setpgid},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// A process group with its leader. Dropped, all of it is killed.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    leader: Pid,
    /// Closed when this process ends.
    alive: Option<OwnedFd>,
}

impl ProcessGroup {
    /// Makes a group without programs.
    #[expect(unsafe_code, reason = "a fork is unsafe in general")]
    pub(super) fn new() -> io::Result<Self> {
        let (reader, alive) = pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        // SAFETY: the child makes system calls alone, until it ends. It takes no lock and allocates nothing, so it does not
        // matter which other threads there are.
        match unsafe { fork() }? {
            ForkResult::Child => lead(reader.as_fd()),
            ForkResult::Parent { child: leader } => {
                // The leader does so too. A program that joins needs a group, whichever of the two is first.
                let _ = setpgid(leader, leader);
                Ok(Self { leader, alive: Some(alive) })
            }
        }
    }

    /// The number by which a program joins.
    pub(super) fn number(&self) -> libc::pid_t {
        self.leader.as_raw()
    }

    /// Closes the copy of the pipe's end that a forked child has: it would hide from the leader that the parent has ended.
    pub(super) fn close_in_child(&mut self) {
        drop(self.alive.take());
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(-self.number()), Signal::SIGKILL);
        while waitpid(self.leader, None) == Err(Errno::EINTR) {}
    }
}

/// Waits for the end of the parent, then ends the group.
#[expect(unsafe_code, reason = "nix has no _exit, and no close_range")]
fn lead(alive: BorrowedFd<'_>) -> ! {
    let own = getpid();
    let _ = setpgid(own, own);
    // What is sent to end the parent may reach this process too, by its name. The parent decides.
    let _ = SigSet::all().thread_block();
    let _ = prctl::set_name(c"sidecar-guard");
    // Whatever else is open belongs to the parent: it may close a lock or its output long before it ends.
    if dup2_stdin(alive).is_ok() {
        // SAFETY: this process uses none of the descriptors that are closed.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) };
        if closed != 0 {
            close_one_by_one();
        }
        // SAFETY: standard input is open; nothing else owns its number here.
        let alive = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
        while read(alive, &mut [0]) == Err(Errno::EINTR) {}
    }
    let _ = kill(Pid::from_raw(-own.as_raw()), Signal::SIGKILL);
    // SAFETY: it does not return, and runs nothing of the parent's.
    unsafe { libc::_exit(0) }
}

/// What kernels before 5.9 need. The limit of open files can be 2^30 in a container, and so many calls would take minutes.
#[expect(unsafe_code, reason = "nix closes what it owns")]
fn close_one_by_one() {
    // Far more than this program ever opens.
    const DESCRIPTORS: libc::c_int = 1 << 16;
    for number in 1..DESCRIPTORS {
        // SAFETY: this process uses none of the descriptors that are closed.
        unsafe { libc::close(number) };
    }
}
