//! Processes of the sandbox that serve: the world, the proxy, the demo's application.

use super::Exit;
use super::failure::SandboxFailure;
use sidecar_init::sys::{
    fork::{Beginning, Child, fork_until_ready, leave_streams},
    namespace::OpenNamespace,
};
use std::{io, thread};

/// Starts a process that serves in a network namespace, on threads, until the sandbox ends.
pub(super) fn start(
    name: &'static str,
    place: &OpenNamespace,
    serve: impl FnOnce() -> io::Result<()>,
) -> Result<Child, SandboxFailure> {
    let work = |beginning: Beginning| {
        let begun = leave_streams().and_then(|()| place.enter()).and_then(|()| serve());
        beginning.say(&begun);
        while begun.is_ok() {
            thread::park();
        }
        Exit::Failed as u8
    };
    fork_until_ready(work).map_err(|error| SandboxFailure::Start(name, error))
}
