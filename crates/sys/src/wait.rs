//! Waits for input, a stop request or a deadline, and for packets in flight that met the old rules.

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
    Asked,
    Late,
}

/// SIGINT and SIGTERM as stop requests, in a single-threaded process.
pub struct Requests(SignalFd);

impl Requests {
    /// Blocks the signals and reads them from now on, also as process 1, to which the kernel otherwise delivers neither.
    pub fn take() -> io::Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    pub fn pause(&self, end: Instant) -> io::Result<Woken> {
        self.wait(&self.0, Some(end))
    }

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
                // Requests come first: a caller whose work always exceeds its interval must see them.
                Ok(_) if left == Some(Duration::ZERO) => return Ok(Woken::Late),
                Ok(0) => {}
                Ok(_) => return Ok(Woken::Ready),
            }
        }
    }
}

/// Rounds up, since an early wake-up would spin. A wait beyond `poll`'s limit takes several turns.
pub(super) fn timeout(left: Duration) -> PollTimeout {
    let rounded = left.as_millis() + u128::from(!left.is_zero());
    PollTimeout::try_from(rounded).unwrap_or(PollTimeout::MAX)
}

/// Waits until one source is readable, up to this long; false if none is.
pub fn for_any(sources: &[BorrowedFd<'_>], at_most: Duration) -> io::Result<bool> {
    let mut descriptors: Vec<PollFd<'_>> =
        sources.iter().map(|source| PollFd::new(*source, PollFlags::POLLIN)).collect();
    match poll(&mut descriptors, timeout(at_most)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Replaces the kernel's barrier; far longer than a packet takes.
const INSTEAD: Duration = Duration::from_millis(20);

/// Returns once every packet that was between two hooks at the call has passed the second. The kernel takes a packet from one
/// hook to the next within an RCU read-side critical section (`__netif_receive_skb` in `net/core/dev.c`), and
/// `MEMBARRIER_CMD_GLOBAL` waits for all such sections (`membarrier(2)`): some 10 to 30 ms.
pub fn for_packets() {
    // Refused by kernels without this call or with tickless processors (`nohz_full`), and perhaps by system call filters.
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
    fn requests_are_seen_after_the_deadline() {
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
