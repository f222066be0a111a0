//! Signals read one by one, for a process between a caller and a command; and the file size limit as an error.

use nix::sys::signal::Signal::{
    SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGXFSZ,
};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;

/// Signals forwarded to the command, and SIGCHLD.
const HELD: [Signal; 9] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCHLD];

/// `SI_KERNEL` (`asm-generic/siginfo.h`): a terminal signals its whole foreground process group.
const SI_KERNEL: i32 = 0x80;

pub struct Signals {
    queue: SignalFd,
    before: SigSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    pub signal: Signal,
    /// True if the kernel sent it, as for a terminal: the command has received it already.
    pub by_kernel: bool,
}

impl Signals {
    pub fn hold() -> io::Result<Self> {
        let content: SigSet = HELD.into_iter().collect();
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&content), Some(&mut before))?;
        Ok(Self { queue: SignalFd::with_flags(&content, SfdFlags::SFD_CLOEXEC)?, before })
    }

    pub fn next(&self) -> io::Result<Caught> {
        loop {
            let Some(info) = self.queue.read_signal()? else { continue };
            let number = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
            let signal = Signal::try_from(number)?;
            return Ok(Caught { signal, by_kernel: info.ssi_code == SI_KERNEL });
        }
    }

    pub fn release(&self) -> io::Result<()> {
        Ok(pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None)?)
    }
}

/// Makes a write beyond the file size limit (`RLIMIT_FSIZE`) fail with `EFBIG`, here and in programs started from now on.
#[expect(unsafe_code, reason = "a signal's disposition belongs to the whole process")]
pub fn ignore_file_size_limit() -> io::Result<()> {
    // SAFETY: no handler is installed, so no code of ours ever runs in a signal's context.
    unsafe { signal(SIGXFSZ, SigHandler::SigIgn) }?;
    Ok(())
}
