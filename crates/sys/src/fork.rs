//! Child processes that continue with our own code, and a process tree that ends together. The parent must have a single thread,
//! or another thread's lock would remain locked in the child; each fork checks this.

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, dup2_stdin, dup2_stdout, fork as fork_process};
use rustix::io::retry_on_intr;
use rustix::process::{self, WaitOptions};
use std::fs::{self, File};
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{thread, time::Duration};

/// Exit code of a child that panicked, as in Rust programs.
const PANICKED: u8 = 101;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child(Pid);

/// End of a process; the code is the exit code, or 128 plus the signal number, as in shells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub child: Child,
    pub code: u8,
}

/// Runs `work` in a child, which exits with the result. Fails if this process has more than one thread.
#[expect(unsafe_code, reason = "a fork is unsafe in general")]
pub fn fork(work: impl FnOnce() -> u8) -> io::Result<Child> {
    be_alone()?;
    // The child would write unflushed output again.
    let _ = io::stdout().flush();
    // SAFETY: this process has one thread, so no other thread holds a lock that the child would need.
    match unsafe { fork_process() }? {
        ForkResult::Parent { child } => Ok(Child(child)),
        ForkResult::Child => {
            let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED);
            std::process::exit(i32::from(code));
        }
    }
}

/// Like [`fork`], but waits until the child reports its start through the [`Beginning`] that `work` gets.
pub fn fork_until_ready(work: impl FnOnce(Beginning) -> u8) -> io::Result<Child> {
    let (mut reader, writer) = io::pipe()?;
    let mut writer = Some(Beginning(writer));
    let child = fork(|| work(writer.take().expect("the child runs once")))?;
    drop(writer);
    let mut answer = String::new();
    reader.read_to_string(&mut answer)?;
    match answer.as_str() {
        READY => Ok(child),
        "" => Err(io::Error::other("it ended before it was ready")),
        against => Err(io::Error::other(against)),
    }
}

const READY: &str = "ready";

pub struct Beginning(PipeWriter);

impl Beginning {
    pub fn say(mut self, begun: &io::Result<()>) {
        let text = begun.as_ref().map_or_else(ToString::to_string, |()| READY.to_owned());
        let _ = self.0.write_all(text.as_bytes());
    }
}

/// Waits briefly until one thread remains: ended threads may still be counted.
fn be_alone() -> io::Result<()> {
    const TRIES: u32 = 1000;
    for _ in 0..TRIES {
        if fs::read_dir("/proc/self/task")?.count() == 1 {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::other("a process with several threads can't be forked"))
}

impl Child {
    pub fn signal(self, signal: Signal) {
        let _ = kill(self.0, signal);
    }

    pub fn end(self) {
        self.signal(Signal::SIGKILL);
        let _ = self.wait();
    }

    pub fn wait(self) -> io::Result<u8> {
        loop {
            if let Some(ended) = end_of(process::Pid::from_raw(self.0.as_raw()), WaitOptions::empty())? {
                return Ok(ended.code);
            }
        }
    }
}

/// Reaps an ended child or adopted orphan, if there is one.
pub fn reap() -> Option<Ended> {
    end_of(None, WaitOptions::NOHANG).ok().flatten()
}

/// End of one child or any child; `None` if none has ended. `nix` reports death by a real-time signal as an error.
fn end_of(child: Option<process::Pid>, options: WaitOptions) -> io::Result<Option<Ended>> {
    let found = retry_on_intr(|| process::waitpid(child, options))?;
    Ok(found.and_then(|(child, status)| {
        let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?))?;
        let child = Child(Pid::from_raw(child.as_raw_pid()));
        Some(Ended { child, code: u8::try_from(code).unwrap_or(u8::MAX) })
    }))
}

/// Puts future children into a new PID namespace, whose processes die when the first exits.
pub fn new_process_namespace() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWPID)?)
}

/// Makes this process end with its parent, the only holder of the writing end of `alive`: a closed pipe means the parent is gone.
pub fn end_with_parent(alive: &impl AsFd) -> io::Result<()> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let mut polled = [PollFd::new(alive.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, PollTimeout::ZERO)? {
        0 => Ok(()),
        _ => Err(io::Error::other("the parent has ended")),
    }
}

/// Limits the address space of this process and its children to their base need plus `bytes`.
pub(super) fn limit_memory(bytes: usize) -> io::Result<()> {
    // Enough for an iptables program and for this one, with their libraries.
    const PROGRAM: u64 = 128 << 20;
    let limit = PROGRAM + bytes as u64;
    Ok(setrlimit(Resource::RLIMIT_AS, limit, limit)?)
}

/// Closes standard input and output, which belong to another process.
pub fn leave_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn exit_codes_match_those_of_shells_for_any_signal() {
        for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("kill -40 $$", 168), ("kill -64 $$", 192)]
        {
            let started = Command::new("sh").args(["-c", script]).spawn().map(|started| started.id());
            let child = Child(Pid::from_raw(started.expect("sh starts").cast_signed()));
            assert_eq!(child.wait().expect("a child of ours"), code, "{script}");
        }
    }
}
