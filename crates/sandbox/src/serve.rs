//! Accepts connections at many addresses, and serves each on a thread.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    io::{self, ErrorKind},
    net::{TcpListener, TcpStream},
    os::fd::AsFd,
    thread,
    time::Duration,
};

/// Enough for a thread that passes bytes on, whose buffers are elsewhere.
const STACK: usize = 128 * 1024;
/// How long to wait where no descriptor is left.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Accepts connections on a thread from now on, and passes each to `each` with the name of its listener.
pub(super) fn start<Name: Copy + Send + 'static>(
    listeners: Vec<(Name, TcpListener)>,
    each: impl Fn(Name, TcpStream) + Send + 'static,
) -> io::Result<()> {
    for (_, listener) in &listeners {
        // A client may have gone before it is accepted.
        listener.set_nonblocking(true)?;
    }
    thread::Builder::new().spawn(move || {
        loop {
            let waiting =
                listeners.iter().map(|(_, listener)| PollFd::new(listener.as_fd(), PollFlags::POLLIN));
            let mut polled: Vec<PollFd<'_>> = waiting.collect();
            match poll(&mut polled, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => thread::sleep(RETRY_INTERVAL),
            }
            let calls: Vec<bool> = polled.iter().map(|polled| polled.any().unwrap_or(false)).collect();
            for ((name, listener), _) in listeners.iter().zip(calls).filter(|(_, calls)| *calls) {
                match listener.accept() {
                    Ok((client, _)) => each(*name, client),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => thread::sleep(RETRY_INTERVAL),
                }
            }
        }
    })?;
    Ok(())
}

/// Does `work` on a new thread. If no thread can be created, the connection is closed.
pub(super) fn on_thread(work: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().stack_size(STACK).spawn(work);
}
