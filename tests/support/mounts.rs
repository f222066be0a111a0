//! Mount namespaces, in which programs' fixed paths are private.

use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, unshare};

/// Runs `work` on a thread with a mount namespace in which `/run` is empty.
pub(crate) fn in_mount_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        unshare_mounts();
        mount(&["-t", "tmpfs", "tmpfs", "/run"]);
        work()
    };
    thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

pub(crate) fn unshare_mounts() {
    unshare(CloneFlags::CLONE_NEWNS).unwrap_or_else(|error| panic!("a mount namespace: {error}"));
    mount(&["--make-rprivate", "/"]);
}

#[track_caller]
pub(crate) fn mount(arguments: &[&str]) {
    let status = Command::new("mount").args(arguments).status().expect("mount starts");
    assert!(status.success(), "mount {arguments:?} failed: the tests need CAP_SYS_ADMIN");
}
