//! Waits for other processes and the kernel.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Upper bound for any wait on a busy machine; only a failing test reaches it.
pub const TIMEOUT: Duration = Duration::from_secs(60);

#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_ok(|| holds().then_some(()).ok_or_else(|| what.to_owned()));
}

/// Waits until `look` succeeds and returns its result. Panics with the last error after the timeout.
#[track_caller]
pub fn until_ok<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let mut missing = String::new();
    let found = poll(TIMEOUT, || look().map_err(|text| missing = text).ok());
    found.unwrap_or_else(|| panic!("not within {TIMEOUT:?}: {missing}"))
}

pub fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        match look() {
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            answer => return answer,
        }
    }
}
