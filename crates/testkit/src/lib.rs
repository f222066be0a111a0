//! What the tests of several crates share: a played API server of Kubernetes, certificates, and waiting.
//!
//! Only a dependency of tests: what fails here is a test, so everything panics with what was expected.

pub mod certificates;
pub mod cluster;
pub mod command_line;
pub mod http;
pub mod monitoring;

use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// How long anything may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "still not after {TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A path as a word of a command line.
pub fn word(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Runs a program to its success, and returns what it prints.
pub fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program is installed");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
