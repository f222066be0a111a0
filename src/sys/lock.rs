//! A lock that only users of one network namespace share, for the time from reading its state to having
//! changed it.
//!
//! The lock belongs to the namespace's own file, so it needs no folder and outlives nobody. Programs that we
//! start inherit it: where we are killed, it is held until the last of them has ended, and the next run does
//! not read a state that is about to change.
//!
//! Where `/proc` is not mounted, as in an empty root directory, the file can't be had, and nothing is locked. Nor are
//! programs of iptables there; our own table is replaced as a whole or not at all.

use super::process;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl},
};
use std::{
    fs::File,
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

const NAMESPACE: &str = "/proc/thread-self/ns/net";
/// Between two attempts.
const RETRY: Duration = Duration::from_millis(10);

/// Held until it is dropped.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "it is held, not used")] Option<Flock<File>>);

/// Why it was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Somebody else has it.
    #[error("{} is changing this network namespace; raise --lock-wait or end it", holder(.0))]
    Busy(Option<u32>),
    /// The kernel refused it.
    #[error("the network namespace can't be locked")]
    Kernel(#[from] io::Error),
}

fn holder(id: &Option<u32>) -> String {
    id.map_or_else(|| "another program".to_owned(), |id| format!("process {id}"))
}

/// Takes the lock of the thread's network namespace.
///
/// # Errors
/// When somebody else holds it for longer than `wait`.
pub fn hold(wait: Duration) -> Result<Held, Refused> {
    let mut file = match File::open(NAMESPACE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Held(None)),
        other => other?,
    };
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).map_err(io::Error::from)?;
    let deadline = Instant::now() + wait;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => return Ok(Held(Some(held))),
            Err((_, Errno::EWOULDBLOCK)) if Instant::now() >= deadline => {
                return Err(Refused::Busy(process::lock_holder(Path::new(NAMESPACE))));
            }
            Err((again, Errno::EWOULDBLOCK | Errno::EINTR)) => file = again,
            Err((_, error)) => return Err(Refused::Kernel(error.into())),
        }
        thread::sleep(RETRY);
    }
}
