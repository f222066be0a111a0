//! Processes of the sandbox that serve: the world, the proxy, the demo's application.

use super::failure::{FAILED, SandboxFailure};
use std::{io, thread};
use sys::{
    fork::{Beginning, Child, fork_until_ready, leave_streams},
    namespace::OpenNamespace,
};

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
        FAILED
    };
    fork_until_ready(work).map_err(|error| SandboxFailure::Start(name, error))
}
