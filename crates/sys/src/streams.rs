//! Opens closed standard streams before the runtime starts: the next file opened would get the number of a closed one. Rust's
//! runtime opens `/dev/null` in their place before `main` and aborts if it is missing, as in a root directory with only the
//! binary. A closed standard output is remembered, because output written to its replacement reaches no caller.

use super::wait;
use nix::fcntl::{OFlag, open};
use nix::libc::{PIPE_BUF, STDERR_FILENO, STDOUT_FILENO};
use nix::poll::{PollFd, PollFlags, poll};
use nix::unistd::{pipe, write};
use nix::{errno::Errno, sys::stat::Mode};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, time::Instant};

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls the functions in this section before `main`.
#[used]
#[expect(unsafe_code, reason = "the only way to run before Rust's runtime")]
// SAFETY: the section holds pointers to functions that are called without need of their arguments, as this one is, once, while
// there is one thread. The function uses nothing of the runtime: it makes system calls and does not allocate.
#[unsafe(link_section = ".init_array")]
static BEFORE_THE_RUNTIME: extern "C" fn() = open_closed;

/// Opens the closed streams. The kernel assigns the lowest free number.
extern "C" fn open_closed() {
    loop {
        let filled = match open(c"/dev/null", OFlag::O_RDWR, Mode::empty()) {
            Ok(null) => null,
            // The other end closes here: a read returns end of file, and a write fails as on a closed descriptor.
            Err(_) => match pipe() {
                Ok((reader, _)) => reader,
                Err(_) => return,
            },
        };
        if filled.as_raw_fd() > STDERR_FILENO {
            return;
        }
        if filled.as_raw_fd() == STDOUT_FILENO {
            STDOUT_WAS_CLOSED.store(true, Ordering::Relaxed);
        }
        let _ = filled.into_raw_fd();
    }
}

/// Writes to standard output, waiting for its reader until `end` at most. Fails if the caller has closed it.
pub fn write_stdout(text: &str, end: Instant) -> io::Result<()> {
    if !text.is_empty() && STDOUT_WAS_CLOSED.load(Ordering::Relaxed) {
        return Err(Errno::EBADF.into());
    }
    let stdout = io::stdout();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        match poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)], wait::timeout(left)) {
            Ok(0) if Instant::now() >= end => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) | Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        // A ready pipe takes this much without blocking (`pipe(7)`).
        let piece = &rest[..rest.len().min(PIPE_BUF)];
        match write(stdout.as_fd(), piece) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
