//! Waiting for what other processes and the kernel do in their own time.

use std::thread;
use std::time::{Duration, Instant};

/// The longest that anything may take on a busy machine. It bounds a test that fails; none waits for it to pass.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_ok(|| holds().then_some(()).ok_or_else(|| what.to_owned()));
}

/// Waits until a look succeeds, and returns what it finds; until then it says what is missing.
#[track_caller]
pub(crate) fn until_ok<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match look() {
            Ok(found) => return found,
            Err(missing) => assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {missing}"),
        }
        thread::sleep(Duration::from_millis(2));
    }
}
