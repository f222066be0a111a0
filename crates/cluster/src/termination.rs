//! Termination of a program: by signals, and by the panic of an essential task.

use std::{io, process};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// Handlers of SIGTERM and SIGINT, which no longer end the process by default.
#[derive(Debug)]
pub struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

impl Termination {
    /// Handles the signals: the kernel ignores unhandled signals to a container's first process. Error: handlers can't be set.
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

/// Starts a task without which the program can't work. A panic unwinds one task while the others continue, with expired
/// certificates or stale objects; so the process exits, to be restarted.
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
