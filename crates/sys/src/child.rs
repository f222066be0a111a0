//! A program at work: what it is given, what it prints and its end, within limits of time and length.

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    io::{self, Read, Write},
    os::fd::{AsFd, FromRawFd, OwnedFd},
    process::{Child, ChildStdin, Output},
    thread,
    time::{Duration, Instant},
};

/// As much as a program may print to each of its streams.
pub(super) const MAX_OUTPUT: usize = 16 << 20;

/// Why a program was not waited for.
#[derive(Debug)]
pub(super) enum Interruption {
    /// It took longer than it may.
    Late,
    /// It printed more than [`MAX_OUTPUT`] to this stream.
    Long(&'static str),
    /// The kernel refused.
    Refused(io::Error),
}

impl From<io::Error> for Interruption {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Errno> for Interruption {
    fn from(error: Errno) -> Self {
        Self::Refused(error.into())
    }
}

/// Gives a program its input, takes what it prints, and waits for its end. What it has started itself may still hold its
/// streams then, and is not waited for.
///
/// # Errors
/// When a limit is reached. The program still runs then.
pub(super) fn attend(child: &mut Child, input: &[u8], limit: Duration) -> Result<Output, Interruption> {
    let begun = Instant::now();
    let mut feed = InputPipe::new(child.stdin.take(), input)?;
    let mut stdout = OutputPipe::new(child.stdout.take(), "standard output")?;
    let mut stderr = OutputPipe::new(child.stderr.take(), "standard error")?;
    let end = end_of(child);
    let mut has_ended = false;
    loop {
        feed.write();
        stdout.read()?;
        stderr.read()?;
        if has_ended {
            break;
        }
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(Interruption::Late);
        }
        // Rounded up: who wakes early would spin. Longer than a poll can take is waited for in turns.
        let mut timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(4);
        match &end {
            Some(end) => polled.push(PollFd::new(end.as_fd(), PollFlags::POLLIN)),
            None if child.try_wait()?.is_some() => {
                has_ended = true;
                continue;
            }
            None => timeout = PollTimeout::from(1_u8),
        }
        polled.extend(feed.pipe.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)));
        polled.extend(stdout.pipe.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        polled.extend(stderr.pipe.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        match poll(&mut polled, timeout) {
            Ok(_) => has_ended = end.is_some() && polled[0].any() == Some(true),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Output { status: child.wait()?, stdout: stdout.taken, stderr: stderr.taken })
}

/// Ends a program, and waits for that a moment: the kernel may be busy on its behalf.
pub(super) fn end(child: &mut Child) {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let begun = Instant::now();
    // It may have ended, or been killed with its group.
    let _ = child.kill();
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < TIMEOUT {
        thread::sleep(Duration::from_millis(1));
    }
}

/// What can be read once a program has ended; `None` on kernels before 5.3.
#[expect(unsafe_code, reason = "nix has no pidfd_open")]
fn end_of(child: &Child) -> Option<OwnedFd> {
    // SAFETY: the child has not been waited for, so the number is its own.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    let descriptor = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0)?;
    // SAFETY: the kernel has just opened it for us.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn without_waiting(pipe: &impl AsFd) -> nix::Result<()> {
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
}

/// A program's input, as far as it is not written.
struct InputPipe<'a> {
    pipe: Option<ChildStdin>,
    left: &'a [u8],
}

impl<'a> InputPipe<'a> {
    fn new(pipe: Option<ChildStdin>, left: &'a [u8]) -> nix::Result<Self> {
        pipe.iter().try_for_each(without_waiting)?;
        Ok(Self { pipe, left })
    }

    /// Writes as much as the program takes now.
    fn write(&mut self) {
        while let Some(pipe) = self.pipe.as_mut().filter(|_| !self.left.is_empty()) {
            match pipe.write(self.left) {
                Ok(written) => self.left = &self.left[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A program that does not read it explains that by its exit status.
                Err(_) => self.left = &[],
            }
        }
        self.pipe = None;
    }
}

/// A stream of a program, as far as it was read.
struct OutputPipe<P> {
    /// `None` once it is closed.
    pipe: Option<P>,
    taken: Vec<u8>,
    name: &'static str,
}

impl<P: Read + AsFd> OutputPipe<P> {
    fn new(pipe: Option<P>, name: &'static str) -> nix::Result<Self> {
        pipe.iter().try_for_each(without_waiting)?;
        Ok(Self { pipe, taken: Vec::new(), name })
    }

    /// Takes what was printed so far.
    fn read(&mut self) -> Result<(), Interruption> {
        let mut buffer = [0; 16 << 10];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(length) => self.taken.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if self.taken.len() > MAX_OUTPUT {
                return Err(Interruption::Long(self.name));
            }
        }
        Ok(())
    }
}
