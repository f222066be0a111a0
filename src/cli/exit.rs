//! The exit codes.

use std::process::ExitCode;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Done = 0,
    Failed = 1,
    /// Nothing was touched.
    BadInput = 2,
    /// The rules differ, or other rules come first.
    Drift = 3,
    /// The number that repair controllers look for.
    ValidationFailed = 126,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
