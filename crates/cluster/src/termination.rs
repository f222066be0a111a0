//! Termination of a program: by signals, and by the panic of a task without which it can't work.

use std::{io, process};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// SIGTERM and SIGINT, which do not end the process by themselves from now on.
#[derive(Debug)]
pub struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

impl Termination {
    /// Handles the signals. The first process of a container is not ended by a signal that it does not handle.
    ///
    /// # Errors
    /// When they can't be handled.
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

/// Starts a task without which the program can't work. A panic unwinds the stack of one task, and the others go on: with
/// certificates that are not renewed, or objects as they were. So the process ends, and is started again.
pub fn spawn_essential(
    name: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        // A task that is cancelled ends with its runtime.
        if tokio::spawn(work).await.is_err_and(|error| error.is_panic()) {
            tracing::error!(task = name, "exiting: this task is required");
            process::exit(1);
        }
    })
}
