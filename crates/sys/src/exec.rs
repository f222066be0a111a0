//! Runs programs to their end, or up to where they wait for their input. How long one may take and how much it may print
//! is limited, and none outlives this process (see the module `group`).

use super::child::{self, Interruption, MAX_OUTPUT};
use super::group::ProcessGroup;
use super::{fork, wait};
use nix::libc;
use std::{
    ffi::OsStr,
    io::{self, Read, Write},
    mem,
    os::{fd::AsFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The default time limit of a program.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// What a program printed before it ended well.
#[derive(Debug)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A program that could not be run, or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be started.
    #[error("{command} can't be started")]
    Start {
        command: String,
        /// Why.
        source: io::Error,
    },
    /// It ended with a failure.
    #[error("{command} failed ({status}): {}", tail(.stderr))]
    Status {
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// All that it printed to standard error.
        stderr: String,
    },
    /// It took too long, and was killed.
    #[error(
        "{command} was killed because it did not end within {limit:?}; raise --timeout, or run it by hand to see what it waits for"
    )]
    Late { command: String, limit: Duration },
    /// It printed too much, and was killed.
    #[error("{command} was killed because it printed more than {} MiB to {stream}; run it by hand to see what it prints", MAX_OUTPUT >> 20)]
    Long { command: String, stream: &'static str },
}

/// How much of a program's complaint an error shows: complaints end with what matters.
const TAIL: usize = 600;

fn tail(stderr: &str) -> &str {
    let text = stderr.trim();
    let start = text.len().saturating_sub(TAIL);
    (start..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

/// Starts programs, all in one process group. Its clones share the group, which is killed when the last of them is dropped.
#[derive(Clone, Debug)]
pub struct Runner {
    limit: Duration,
    group: Arc<Mutex<Option<ProcessGroup>>>,
}

impl Runner {
    /// Starts programs that may take this long each.
    pub fn new(limit: Duration) -> Self {
        Self { limit, group: Arc::default() }
    }

    /// Runs `program`, which reads no input, and waits for it.
    ///
    /// # Errors
    /// When the program can't be started, does not exit with 0 or reaches a limit.
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Result<Output, ExecError> {
        self.spawn(program, arguments, &[], Stdio::null())?.finish("")
    }

    /// Calls a library that starts programs by itself, in a process of the group. Its memory is limited: such a library
    /// collects whatever its program prints.
    ///
    /// # Errors
    /// When no process can be made, or the limit of time is reached. What the call itself returns is passed on.
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

    /// What the work returns; `None` if it takes too long.
    fn called(&self, work: impl FnOnce() -> Result<(), String>) -> io::Result<Option<Result<(), String>>> {
        let (mut reader, mut writer) = fork::pipe()?;
        let number = self.number()?;
        let child = fork::fork(|| {
            self.group().iter_mut().for_each(ProcessGroup::close_in_child);
            let begun = fork::join_group(number).and_then(|()| fork::limit_memory(MAX_OUTPUT));
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

    /// Starts a program, whose input comes later. The time that it may take begins with that.
    pub fn start(
        &self,
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, &OsStr)],
    ) -> Result<Waiting, ExecError> {
        self.spawn(program, arguments, variables, Stdio::piped())
    }

    fn spawn(
        &self,
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, &OsStr)],
        stdin: Stdio,
    ) -> Result<Waiting, ExecError> {
        let name = program.to_string_lossy();
        let command = [&[name.as_ref()], arguments].concat().join(" ");
        tracing::debug!(target: "exec", %command, "start");
        let mut program = Command::new(program);
        program.args(arguments).envs(variables.iter().copied());
        program.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        match self.join(&mut program) {
            Ok(child) => Ok(Waiting { command, child: Some(child), runner: self.clone() }),
            Err(source) => Err(ExecError::Start { command, source }),
        }
    }

    /// Starts a program in the group.
    fn join(&self, program: &mut Command) -> io::Result<Child> {
        program.process_group(self.number()?).spawn()
    }

    /// The number of the group, which is made where there is none.
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

/// A program that has been started and waits for its input. Dropped, it is killed.
#[derive(Debug)]
pub struct Waiting {
    command: String,
    child: Option<Child>,
    runner: Runner,
}

impl Waiting {
    /// Gives the program its input and waits for its end.
    ///
    /// # Errors
    /// When it does not exit with 0, or reaches a limit.
    pub fn finish(mut self, input: &str) -> Result<Output, ExecError> {
        let command = mem::take(&mut self.command);
        tracing::trace!(target: "exec", %command, input, "standard input");
        let Some(child) = &mut self.child else { unreachable!("the child is there until the end") };
        let limit = self.runner.limit;
        let output = match child::attend(child, input.as_bytes(), limit) {
            Ok(output) => output,
            Err(cut) => {
                // The processes that it has started are killed too. Others of the group are part of the same failure.
                drop(self.runner.group().take());
                return Err(match cut {
                    Interruption::Late => ExecError::Late { command, limit },
                    Interruption::Long(stream) => ExecError::Long { command, stream },
                    Interruption::Refused(source) => ExecError::Start { command, source },
                });
            }
        };
        self.child = None;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let stderr = text(&output.stderr);
        match output.status.success() {
            true => Ok(Output { stdout: text(&output.stdout), stderr }),
            false => Err(ExecError::Status { command, status: output.status, stderr }),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.child.iter_mut().for_each(child::end);
    }
}

/// The first executable of this name on `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    use nix::unistd::{AccessFlags, access};
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| access(file, AccessFlags::X_OK).is_ok() && file.is_file())
}
