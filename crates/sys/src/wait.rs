//! Waits for input, for a request to end, or for a time; and until the kernel is done with packets that met rules of before.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::thread::{MembarrierCommand, membarrier};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use std::{io, thread};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Ready,
    /// By SIGINT or SIGTERM.
    Asked,
    Late,
}

/// SIGINT and SIGTERM, taken as requests from now on, by a thread that is the process's only one.
pub struct Requests(SignalFd);

impl Requests {
    /// Starts to take them. Also as process 1, to which the kernel else delivers neither.
    pub fn take() -> io::Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// Waits until a request comes, or it is `end`.
    pub fn pause(&self, end: Instant) -> io::Result<Woken> {
        self.wait(&self.0, Some(end))
    }

    /// Waits until there is something to read, a request comes, or it is `end`.
    pub fn wait(&self, source: &impl AsFd, end: Option<Instant>) -> io::Result<Woken> {
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let mut descriptors = [
                PollFd::new(self.0.as_fd(), PollFlags::POLLIN),
                PollFd::new(source.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut descriptors, left.map_or(PollTimeout::NONE, timeout)) {
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) if descriptors[0].any() == Some(true) => return Ok(Woken::Asked),
                // After requests: a caller whose work always takes longer than its interval has to see them too.
                Ok(_) if left == Some(Duration::ZERO) => return Ok(Woken::Late),
                Ok(0) => {}
                Ok(_) => return Ok(Woken::Ready),
            }
        }
    }
}

/// Rounded up: who wakes early would spin. Longer than a poll can take is waited for in turns.
pub(super) fn timeout(left: Duration) -> PollTimeout {
    let rounded = left.as_millis() + u128::from(!left.is_zero());
    PollTimeout::try_from(rounded).unwrap_or(PollTimeout::MAX)
}

/// Waits until one of these is readable, or for that long; false if none is.
pub fn for_any(sources: &[BorrowedFd<'_>], at_most: Duration) -> io::Result<bool> {
    let mut descriptors: Vec<PollFd<'_>> =
        sources.iter().map(|source| PollFd::new(*source, PollFlags::POLLIN)).collect();
    match poll(&mut descriptors, timeout(at_most)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Where the kernel can't wait for us: far longer than a packet takes.
const INSTEAD: Duration = Duration::from_millis(20);

/// Returns once no packet is between two hooks any more that passed the first of them before the call. The kernel takes a packet
/// from one hook to the next within a read-side critical section of RCU (`__netif_receive_skb` in `net/core/dev.c`), and
/// `MEMBARRIER_CMD_GLOBAL` waits for all of those (`membarrier(2)`): some 10 to 30 ms.
pub fn for_packets() {
    // Kernels without it, and those with processors that no timer interrupts, refuse; so may a filter of system calls.
    if membarrier(MembarrierCommand::Global).is_err() {
        thread::sleep(INSTEAD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::raise;
    use std::thread;

    #[test]
    fn a_request_is_seen_though_time_is_up() {
        // The thread that blocks the signal ends with it.
        let pauses = thread::spawn(|| {
            let requests = Requests::take().expect("signals can be blocked");
            let past = Instant::now();
            let before = requests.pause(past).expect("a poll");
            raise(Signal::SIGTERM).expect("a signal");
            (before, requests.pause(past).expect("a poll"))
        });
        assert_eq!(pauses.join().expect("no panic"), (Woken::Late, Woken::Asked));
    }
}
