//! Waiting for what other processes and the kernel do in their own time.

use std::{
    thread,
    time::{Duration, Instant},
};

/// The longest that anything may take on a busy machine. It bounds a test that fails; none waits for it to pass.
pub const TIMEOUT: Duration = Duration::from_secs(60);

#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_ok(|| holds().then_some(()).ok_or_else(|| what.to_owned()));
}

/// Waits until a look succeeds, and returns what it finds; until then it says what is missing.
#[track_caller]
pub fn until_ok<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let mut missing = String::new();
    let found = poll(TIMEOUT, || look().map_err(|text| missing = text).ok());
    found.unwrap_or_else(|| panic!("not within {TIMEOUT:?}: {missing}"))
}

/// Looks again and again until there is an answer; `None` if there is none within the limit.
pub fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        match look() {
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            answer => return answer,
        }
    }
}
