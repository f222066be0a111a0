//! Runs programs to their end, or up to where they wait for their input.

use std::{
    ffi::OsStr,
    io::{self, Write},
    mem,
    path::{Path, PathBuf},
    process::{self, Child, Command, ExitStatus, Stdio},
    thread,
};

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
}

/// How much of a program's complaint an error shows: complaints end with what matters.
const TAIL: usize = 600;

fn tail(stderr: &str) -> &str {
    let text = stderr.trim();
    let start = text.len().saturating_sub(TAIL);
    (start..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

/// Runs `program`, which reads no input, and waits for it.
///
/// # Errors
/// When the program can't be started or does not exit with 0.
pub fn run(program: &Path, arguments: &[&str]) -> Result<Output, ExecError> {
    let command = format!("{} {}", program.display(), arguments.join(" "));
    tracing::debug!(target: "exec", %command, "run");
    outcome(command, Command::new(program).args(arguments).stdin(Stdio::null()).output())
}

/// A program that has been started and waits for its input.
#[derive(Debug)]
pub struct Waiting {
    command: String,
    child: Option<Child>,
}

impl Waiting {
    /// Starts a program, whose input comes later. One that gets none reads an empty one.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, &OsStr)],
    ) -> Result<Self, ExecError> {
        let command = format!("{} {}", program.display(), arguments.join(" "));
        tracing::debug!(target: "exec", %command, "start");
        let mut program = Command::new(program);
        program.args(arguments).envs(variables.iter().copied());
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match program.spawn() {
            Ok(child) => Ok(Self { command, child: Some(child) }),
            Err(source) => Err(ExecError::Start { command, source }),
        }
    }

    /// Gives the program its input and waits for its end. The input goes by a thread of its own, so that neither side can
    /// block the other.
    ///
    /// # Errors
    /// When it does not exit with 0.
    pub fn finish(mut self, input: &str) -> Result<Output, ExecError> {
        let command = mem::take(&mut self.command);
        tracing::trace!(target: "exec", %command, input, "standard input");
        let Some(mut child) = self.child.take() else { unreachable!("the child is there until the end") };
        let stdin = child.stdin.take();
        let output = thread::scope(|scope| {
            let feed = move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
            if input.len() <= PIPE {
                // A program that does not read it says why by its exit status.
                drop(feed());
            } else {
                scope.spawn(feed);
            }
            child.wait_with_output()
        });
        outcome(command, output)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            let _ = child.wait_with_output();
        }
    }
}

/// What a pipe takes without a reader: a page at least (`pipe(7)`).
const PIPE: usize = 4096;

fn outcome(command: String, ended: io::Result<process::Output>) -> Result<Output, ExecError> {
    let output = match ended {
        Ok(output) => output,
        Err(source) => return Err(ExecError::Start { command, source }),
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(Output { stdout: String::from_utf8_lossy(&output.stdout).into_owned(), stderr }),
        false => Err(ExecError::Status { command, status: output.status, stderr }),
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
