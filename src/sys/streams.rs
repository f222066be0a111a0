//! Standard input, output and error, open before anything uses them.
//!
//! A caller may have closed them; then the next file opened would get their number, and what is printed would go into it.
//! Rust's runtime opens `/dev/null` in their place before `main`, and aborts where there is none, as in a root directory
//! that holds nothing but the binary. So this comes before the runtime.

use nix::{
    fcntl::{OFlag, open},
    libc::STDERR_FILENO,
    sys::stat::Mode,
    unistd::pipe,
};
use std::os::fd::{AsRawFd, IntoRawFd};

/// The C library calls what stands in this section before `main`.
#[used]
#[expect(unsafe_code, reason = "the one way to come before Rust's runtime")]
// SAFETY: the section holds pointers to functions that are called without need of their arguments, as this one is, once,
// while there is one thread. The function uses nothing of the runtime: it makes system calls and does not allocate.
#[unsafe(link_section = ".init_array")]
static BEFORE_THE_RUNTIME: extern "C" fn() = open_closed;

/// Opens those of the three that are closed. The kernel gives the lowest number that is free.
extern "C" fn open_closed() {
    loop {
        let filled = match open(c"/dev/null", OFlag::O_RDWR, Mode::empty()) {
            Ok(null) => null,
            // Its other end closes here: reading finds the end at once. Writing is refused in the same way as to a closed
            // descriptor, which Rust's standard output passes over.
            Err(_) => match pipe() {
                Ok((reader, _)) => reader,
                // The runtime will find out what it can do.
                Err(_) => return,
            },
        };
        if filled.as_raw_fd() > STDERR_FILENO {
            return;
        }
        // It stays for as long as the process does.
        let _ = filled.into_raw_fd();
    }
}
