//! Termination of a program: by signals, and by the panic of an essential task.

use std::{io, process};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// SIGTERM and SIGINT handlers; they replace the default, which ends the process.
#[derive(Debug)]
pub struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

impl Termination {
    /// Installs the handlers: the kernel ignores unhandled signals to a container's first process. Error: handlers can't be set.
    pub fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Starts a task without which the program can't work. If it panics, the process exits, to be restarted: other tasks would
/// continue with expired certificates or stale objects.
pub fn spawn_essential(
    name: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        // Tasks are only cancelled when their runtime ends.
        if tokio::spawn(work).await.is_err_and(|error| error.is_panic()) {
            tracing::error!(task = name, "exiting: this task is required");
            process::exit(1);
        }
    })
}
