//! Tasks without which the server can't work.
//!
//! A panic unwinds the stack of one task, and the others go on: with certificates that are not renewed, or namespaces as they
//! were. So the process ends, and is started again.

use std::process;
use tokio::task::JoinHandle;

/// Starts a task whose panic ends the process.
pub(super) fn spawn(name: &'static str, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    spawn_with(name, work, exit)
}

fn exit(status: i32) {
    process::exit(status);
}

fn spawn_with(
    name: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
    exit: impl FnOnce(i32) + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        // A task that is cancelled ends with its runtime.
        if tokio::spawn(work).await.is_err_and(|error| error.is_panic()) {
            tracing::error!(task = name, "the process ends, as it can't work without this task");
            exit(1);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::runtime::Builder;

    async fn panics() {
        panic!("by a test");
    }

    async fn ends() {}

    /// The statuses that the process ends with.
    fn statuses(work: impl Future<Output = ()> + Send + 'static) -> Vec<i32> {
        let (sender, receiver) = mpsc::channel();
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let exit = move |status| sender.send(status).expect("a receiver");
        let done = runtime.block_on(async { spawn_with("test", work, exit).await });
        done.expect("the panic is the task's");
        receiver.iter().collect()
    }

    #[test]
    fn a_panic_ends_the_process_and_an_end_does_not() {
        assert_eq!(statuses(panics()), [1]);
        assert_eq!(statuses(ends()), [0; 0]);
    }
}
