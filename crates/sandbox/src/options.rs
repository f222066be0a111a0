//! A sandbox's options, its calls to the program that makes it, and its failures.

use mesh::{Capture, CapturePolicy, pod::Skip, sources::Dialect};
use std::{error::Error, ffi::OsString, io};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAs {
    App,
    Proxy,
    Root,
}

pub struct SandboxOptions<'a> {
    pub capture: Capture,
    pub by_iptables: bool,
    pub has_proxy: bool,
    pub run_as: RunAs,
    /// Program to run, with its arguments; empty for the demo.
    pub program: &'a [OsString],
    pub command: String,
    pub dialect: Dialect,
    /// Reason why the pod is never captured.
    pub skip: Option<&'a Skip>,
}

/// Callbacks into the program that makes a sandbox.
pub trait Frontend {
    /// Sets a capture's rules in this process's network namespace.
    ///
    /// # Errors
    /// The reason why they can't be set.
    fn set_rules(&self, capture: &dyn CapturePolicy) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Prints a part of the demo. Reports a failure, and returns true on success.
    fn print(&self, text: &str) -> bool;

    fn report(&self, failure: &dyn Error);
}

pub(super) const FAILED: u8 = 1;

#[derive(Debug, thiserror::Error)]
pub enum SandboxFailure {
    #[error(
        "cannot create a user namespace, which is required without root; run this as root, or allow user namespaces (sysctl \
         user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
    )]
    Users(#[source] io::Error),
    #[error(
        "newuidmap mapped users, but newgidmap mapped no groups; give yourself as many IDs in \
         /etc/subgid as in /etc/subuid, or none"
    )]
    HalfMapped,
    #[error(
        "cannot create the pod's network, mount and PID namespaces; run this as root, or allow them in user \
         namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns)"
    )]
    Leave(#[source] io::Error),
    #[error("cannot create the pod's network")]
    Network(#[source] io::Error),
    #[error("refusing to set rules: this is the machine's own network namespace")]
    Machine,
    #[error("cannot set the rules")]
    Rules(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{0} does not start")]
    Start(&'static str, #[source] io::Error),
    #[error(
        "--run-as {0} needs several users, but only one is available: install newuidmap (Debian: uidmap) and \
         add entries for yourself to /etc/subuid and /etc/subgid, or run this as root"
    )]
    OneUser(&'static str),
    #[error(
        "only one user is available, and iptables refuses rules for others; drop --backend and similar \
         flags, or run this as root"
    )]
    OneUserBackend,
    #[error("the state of the sandbox can't be read")]
    Lost(#[source] io::Error),
}
