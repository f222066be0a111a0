//! What a sandbox is made from, and what it asks of the program that makes it.

use mesh::pod::Skip;
use mesh::sources::Dialect;
use mesh::{Capture, CapturePolicy};
use std::{error::Error, ffi::OsString};

/// The identity that a command runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAs {
    App,
    Proxy,
    Root,
}

/// A sandbox to be made.
pub struct SandboxOptions<'a> {
    pub capture: Capture,
    /// Whether programs of iptables set the rules.
    pub by_iptables: bool,
    pub has_proxy: bool,
    pub run_as: RunAs,
    /// The program that runs in it, and its arguments; the demo if there is none.
    pub program: &'a [OsString],
    /// The command that would set the same rules elsewhere.
    pub command: String,
    /// How settings are named.
    pub dialect: Dialect,
    /// Why nothing is captured, where a pod never is.
    pub skip: Option<&'a Skip>,
}

/// The program that makes a sandbox. Processes of the sandbox call it.
pub trait Frontend {
    /// Sets the rules of a capture in the network namespace of this process.
    ///
    /// # Errors
    /// When they can't be set.
    fn set_rules(&self, capture: &dyn CapturePolicy) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Prints a part of the demo. Reports where that fails, and returns whether it succeeded.
    fn print(&self, text: &str) -> bool;

    /// Reports why something failed.
    fn report(&self, failure: &dyn Error);
}
