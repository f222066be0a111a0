//! Runs a command in the sandbox as if directly under the caller, with the same streams, signals and exit code.

use super::options::{Frontend, SandboxFailure};
use super::users::{ProcessIdentity, assume};
use nix::sys::signal::Signal;
use std::{ffi::OsString, io, os::unix::process::CommandExt, process::Command};
use sys::exec;
use sys::fork::{Child, fork, reap};
use sys::signals::{Caught, Signals};

/// Exit codes of shells for a program that does not exist, and for one that can't be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

#[derive(Debug, thiserror::Error)]
#[error("{0} can't be started")]
struct Unstarted(String, #[source] io::Error);

/// Runs a program with its arguments and an identity, and returns its exit code. Logs `watched` processes that end earlier.
pub(super) fn run(
    frontend: &dyn Frontend,
    (program, arguments): (&OsString, &[OsString]),
    identity: ProcessIdentity,
    signals: &Signals,
    watched: &[(Child, &str)],
) -> Result<u8, SandboxFailure> {
    let work = || {
        let error = match assume(identity).and_then(|()| signals.release()) {
            Ok(()) => Command::new(program).args(arguments).exec(),
            Err(error) => error,
        };
        // An inaccessible folder in PATH hides that no other folder has the program.
        let name = program.to_string_lossy();
        let is_lost = error.kind() == io::ErrorKind::PermissionDenied && !name.contains('/');
        let error = match is_lost && exec::find(&name).is_none() {
            true => {
                let text = format!("PATH has no program of this name that user {} can start", identity.0);
                io::Error::new(io::ErrorKind::NotFound, text)
            }
            false => error,
        };
        let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
        frontend.report(&Unstarted(program.to_string_lossy().into_owned(), error));
        code
    };
    let command = fork(work).map_err(|error| SandboxFailure::Start("the command", error))?;
    supervise(command, signals, true, watched).map_err(SandboxFailure::Lost)
}

/// Waits for a child and returns its exit code. Forwards signals if `takes` is true; otherwise, they end the child.
pub(super) fn supervise(
    child: Child,
    signals: &Signals,
    takes: bool,
    watched: &[(Child, &str)],
) -> io::Result<u8> {
    loop {
        match signals.next()? {
            Caught { signal: Signal::SIGCHLD, .. } => {
                while let Some(ended) = reap() {
                    if ended.child == child {
                        return Ok(ended.code);
                    }
                    if let Some((_, name)) = watched.iter().find(|(watched, _)| *watched == ended.child) {
                        tracing::error!(target: "sandbox", "{name} exited with {}", ended.code);
                    }
                }
            }
            Caught { by_kernel: true, .. } if takes => {}
            Caught { signal, .. } if takes => child.signal(signal),
            Caught { signal: Signal::SIGWINCH, .. } => {}
            Caught { signal, .. } => {
                child.end();
                return Ok(128 + u8::try_from(signal as i32).unwrap_or_default());
            }
        }
    }
}
