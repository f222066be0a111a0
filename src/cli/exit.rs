//! The exit codes.

use std::process::ExitCode;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Done = 0,
    Failed = 1,
    /// Nothing was touched.
    BadInput = 2,
    /// Something is not as expected: rules differ, other rules come first, or a connection ended otherwise.
    Drift = 3,
    /// The number that repair controllers look for.
    ValidationFailed = 126,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
