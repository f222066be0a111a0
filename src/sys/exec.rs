//! Runs a program to its end, with a text on its standard input.

use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Seek, Write},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
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

/// Runs `program` and waits for it.
///
/// The input is a file in memory rather than a pipe, so that neither side can block the other.
///
/// # Errors
/// When the program can't be started or does not exit with 0.
pub fn run(
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
    input: &str,
) -> Result<Output, ExecError> {
    let command = format!("{} {}", program.display(), arguments.join(" "));
    tracing::debug!(target: "exec", %command, "run");
    if !input.is_empty() {
        tracing::trace!(target: "exec", %command, input, "standard input");
    }
    let ended = stdin(input).and_then(|stdin| {
        let variables = variables.iter().copied();
        Command::new(program).args(arguments).envs(variables).stdin(stdin).output()
    });
    let output = ended.map_err(|source| ExecError::Start { command: command.clone(), source })?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(ExecError::Status { command, status: output.status, stderr });
    }
    Ok(Output { stdout: String::from_utf8_lossy(&output.stdout).into_owned(), stderr })
}

fn stdin(input: &str) -> io::Result<Stdio> {
    if input.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(memfd_create("stdin", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// The first executable of this name on `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    use nix::unistd::{AccessFlags, access};
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| access(file, AccessFlags::X_OK).is_ok() && file.is_file())
}
