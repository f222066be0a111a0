//! Child programs with time and output limits. None of them outlives this process.
//!
//! A surviving program could change rules during the next run, and would keep the inherited namespace lock. A small process
//! therefore leads the group of all programs and reads from a pipe whose writing end only this process holds. When that end
//! closes, even by SIGKILL, the leader kills its group.
//!
//! `PR_SET_PDEATHSIG` is not enough: it does not reach grandchildren, such as the commands of a wrapper script, and it follows
//! the thread that started the program instead of the process.

use super::{fork, wait};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{ForkResult, Pid, dup2_stdin, fork, getpid, read, setpgid};
use nix::{errno::Errno, libc, sys::prctl, sys::wait::waitpid};
use rustix::process::{PidfdFlags, pidfd_open};
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{ffi::OsStr, mem, os::unix::process::CommandExt, thread};

pub const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("{command} can't be started")]
    Start { command: String, source: io::Error },
    #[error("{command} failed ({status}): {}", tail(.stderr))]
    Status { command: String, status: ExitStatus, stderr: String },
    #[error(
        "{command} was killed because it did not finish within {limit:?}; raise --timeout, or run it by hand to find the cause"
    )]
    Late { command: String, limit: Duration },
    #[error("{command} was killed because it printed more than {} MiB to {stream}; run it by hand to see its output", MAX_OUTPUT >> 20)]
    Long { command: String, stream: &'static str },
}

/// Number of last bytes of standard error that an error quotes: the cause comes last.
const TAIL: usize = 600;

fn tail(stderr: &str) -> &str {
    let text = stderr.trim();
    let start = text.len().saturating_sub(TAIL);
    (start..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

/// Starts programs in one process group. Clones share the group, which is killed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Runner {
    limit: Duration,
    group: Arc<Mutex<Option<ProcessGroup>>>,
}

impl Runner {
    pub fn new(limit: Duration) -> Self {
        Self { limit, group: Arc::default() }
    }

    /// Runs `program` without input and returns its output. Fails on a non-zero exit status and at a limit.
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Result<String, ExecError> {
        self.start(program, arguments, &[])?.finish("")
    }

    /// Calls, in a memory-limited child of the group, a library that starts programs and collects their output.
    pub fn call(
        &self,
        command: &str,
        work: impl FnOnce() -> Result<(), String>,
    ) -> Result<Result<(), String>, ExecError> {
        let command = command.to_owned();
        tracing::debug!(target: "exec", %command, "call");
        match self.called(work) {
            Ok(Some(returned)) => Ok(returned),
            Ok(None) => {
                drop(self.group().take());
                Err(ExecError::Late { command, limit: self.limit })
            }
            Err(source) => Err(ExecError::Start { command, source }),
        }
    }

    /// Returns `None` on a timeout.
    fn called(&self, work: impl FnOnce() -> Result<(), String>) -> io::Result<Option<Result<(), String>>> {
        let (mut reader, mut writer) = io::pipe()?;
        let number = self.number()?;
        let child = fork::fork(|| {
            // The child's copy of the pipe would hide the parent's exit from the leader.
            self.group().iter_mut().for_each(|group| drop(group.alive.take()));
            let joined = setpgid(Pid::from_raw(0), Pid::from_raw(number)).map_err(io::Error::from);
            let begun = joined.and_then(|()| fork::limit_memory(MAX_OUTPUT));
            let returned = begun.map_err(|error| error.to_string()).and_then(|()| work());
            let _ = writer.write_all(returned.as_ref().err().map_or("", |error| tail(error)).as_bytes());
            u8::from(returned.is_err())
        })?;
        drop(writer);
        if !wait::for_any(&[reader.as_fd()], self.limit)? {
            child.end();
            return Ok(None);
        }
        let mut stderr = String::new();
        reader.read_to_string(&mut stderr)?;
        Ok(Some(match child.wait()? {
            0 => Ok(()),
            code if stderr.is_empty() => Err(format!("ended with {code}")),
            _ => Err(stderr),
        }))
    }

    /// Starts a program that gets its input later. The time limit starts with the input.
    pub fn start(
        &self,
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, &OsStr)],
    ) -> Result<Waiting, ExecError> {
        let name = program.to_string_lossy();
        let command = [&[name.as_ref()], arguments].concat().join(" ");
        tracing::debug!(target: "exec", %command, "start");
        let mut program = Command::new(program);
        program.args(arguments).envs(variables.iter().copied());
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match self.number().and_then(|number| program.process_group(number).spawn()) {
            Ok(child) => Ok(Waiting { command, child: Some(child), runner: self.clone() }),
            Err(source) => Err(ExecError::Start { command, source }),
        }
    }

    fn number(&self) -> io::Result<libc::pid_t> {
        match &mut *self.group() {
            Some(group) => Ok(group.number()),
            none => Ok(none.insert(ProcessGroup::new()?).number()),
        }
    }

    fn group(&self) -> MutexGuard<'_, Option<ProcessGroup>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running program that waits for input. Dropping this kills the program.
#[derive(Debug)]
pub struct Waiting {
    command: String,
    child: Option<Child>,
    runner: Runner,
}

impl Waiting {
    pub fn finish(mut self, input: &str) -> Result<String, ExecError> {
        let command = mem::take(&mut self.command);
        tracing::trace!(target: "exec", %command, input, "standard input");
        let Some(child) = &mut self.child else { unreachable!("the child is there until the end") };
        let limit = self.runner.limit;
        let failed = match attend(child, input.as_bytes(), limit, &command) {
            Ok(Ok(process::Output { status, stdout, stderr })) => {
                self.child = None;
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                return match status.success() {
                    true => Ok(text(&stdout)),
                    false => Err(ExecError::Status { command, status, stderr: text(&stderr) }),
                };
            }
            Ok(Err(reached)) => reached,
            Err(source) => ExecError::Start { command, source },
        };
        // Kills the program's own children too. Other programs of the group are part of the same failure.
        drop(self.runner.group().take());
        Err(failed)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.child.iter_mut().for_each(end);
    }
}

/// First executable with this name on `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    use nix::unistd::{AccessFlags, access};
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| access(file, AccessFlags::X_OK).is_ok() && file.is_file())
}

/// Maximum number of bytes of each output stream.
const MAX_OUTPUT: usize = 16 << 20;

/// Writes a program's input, collects its output and waits for its exit, but not for its children, which may still hold the
/// streams. At a limit, returns with the program still running.
fn attend(
    child: &mut Child,
    input: &[u8],
    limit: Duration,
    command: &str,
) -> io::Result<Result<process::Output, ExecError>> {
    let begun = Instant::now();
    child.stdin.iter().try_for_each(without_waiting)?;
    child.stdout.iter().try_for_each(without_waiting)?;
    child.stderr.iter().try_for_each(without_waiting)?;
    let mut feed = InputPipe { pipe: child.stdin.take(), left: input };
    let mut stdout = OutputPipe { pipe: child.stdout.take(), taken: Vec::new(), name: "standard output" };
    let mut stderr = OutputPipe { pipe: child.stderr.take(), taken: Vec::new(), name: "standard error" };
    // Readable once the program has ended; missing on kernels before 5.3.
    let end = pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty()).ok();
    let mut has_ended = false;
    loop {
        feed.write();
        if let Some(stream) = stdout.read()?.or(stderr.read()?) {
            return Ok(Err(ExecError::Long { command: command.to_owned(), stream }));
        }
        if has_ended {
            break;
        }
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(Err(ExecError::Late { command: command.to_owned(), limit }));
        }
        let mut timeout = wait::timeout(left);
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
    Ok(Ok(process::Output { status: child.wait()?, stdout: stdout.taken, stderr: stderr.taken }))
}

/// Kills a program and waits up to one second for its exit: the kernel may be busy on its behalf.
fn end(child: &mut Child) {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let begun = Instant::now();
    let _ = child.kill();
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < TIMEOUT {
        thread::sleep(Duration::from_millis(1));
    }
}

fn without_waiting(pipe: &impl AsFd) -> nix::Result<()> {
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
}

struct InputPipe<'a> {
    pipe: Option<ChildStdin>,
    left: &'a [u8],
}

impl InputPipe<'_> {
    fn write(&mut self) {
        while let Some(pipe) = self.pipe.as_mut().filter(|_| !self.left.is_empty()) {
            match pipe.write(self.left) {
                Ok(written) => self.left = &self.left[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // If a program does not read its input, its exit status explains why.
                Err(_) => self.left = &[],
            }
        }
        self.pipe = None;
    }
}

struct OutputPipe<P> {
    pipe: Option<P>,
    taken: Vec<u8>,
    name: &'static str,
}

impl<P: Read> OutputPipe<P> {
    /// Reads the available output. Returns the stream's name once the limit is exceeded.
    fn read(&mut self) -> io::Result<Option<&'static str>> {
        let mut buffer = [0; 16 << 10];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(length) => self.taken.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            if self.taken.len() > MAX_OUTPUT {
                return Ok(Some(self.name));
            }
        }
        Ok(None)
    }
}

#[derive(Debug)]
struct ProcessGroup {
    leader: Pid,
    alive: Option<PipeWriter>,
}

impl ProcessGroup {
    #[expect(unsafe_code, reason = "a fork is unsafe in general")]
    fn new() -> io::Result<Self> {
        let (reader, alive) = io::pipe()?;
        // SAFETY: the child only makes system calls until it ends: it takes no lock, allocates nothing and needs no other thread.
        match unsafe { fork() }? {
            ForkResult::Child => lead(reader.as_fd()),
            ForkResult::Parent { child: leader } => {
                // The leader does this too: a joining program needs the group, whichever process runs first.
                let _ = setpgid(leader, leader);
                Ok(Self { leader, alive: Some(alive) })
            }
        }
    }

    fn number(&self) -> libc::pid_t {
        self.leader.as_raw()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(-self.number()), Signal::SIGKILL);
        while waitpid(self.leader, None) == Err(Errno::EINTR) {}
    }
}

#[expect(unsafe_code, reason = "nix has no _exit, and no close_range")]
fn lead(alive: BorrowedFd<'_>) -> ! {
    let own = getpid();
    let _ = setpgid(own, own);
    // Signals that target the parent by name may reach this process too. Only the parent's exit matters.
    let _ = SigSet::all().thread_block();
    let _ = prctl::set_name(c"sidecar-guard");
    // The other descriptors belong to the parent, which may close a lock or its output long before it ends.
    if dup2_stdin(alive).is_ok() {
        // SAFETY: this process uses none of the closed descriptors.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) };
        if closed != 0 {
            close_one_by_one();
        }
        // SAFETY: standard input is open; nothing else owns its number here.
        let alive = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
        while read(alive, &mut [0]) == Err(Errno::EINTR) {}
    }
    let _ = kill(Pid::from_raw(-own.as_raw()), Signal::SIGKILL);
    // SAFETY: it does not return, and runs no code of the parent.
    unsafe { libc::_exit(0) }
}

/// Replaces `close_range` on kernels before 5.9. Closing up to the limit, 2^30 in some containers, would take minutes.
#[expect(unsafe_code, reason = "nix closes what it owns")]
fn close_one_by_one() {
    const DESCRIPTORS: libc::c_int = 1 << 16;
    for number in 1..DESCRIPTORS {
        // SAFETY: this process uses none of the closed descriptors.
        unsafe { libc::close(number) };
    }
}
