//! Options of a sandbox, its calls to the program that makes it, and its failures.

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
    /// Program to run in it, with its arguments; empty for the demo.
    pub program: &'a [OsString],
    pub command: String,
    pub dialect: Dialect,
    /// Reason why nothing of the pod is ever captured.
    pub skip: Option<&'a Skip>,
}

/// Program that makes a sandbox. Processes of the sandbox call it.
pub trait Frontend {
    /// Sets the rules of a capture in the network namespace of this process.
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
        "no user namespace can be had, and without root a pod needs one; run this as root, or allow user namespaces \
         (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
    )]
    Users(#[source] io::Error),
    #[error(
        "newuidmap has given this process users, and newgidmap no groups; give yourself as many numbers in /etc/subgid as \
         in /etc/subuid, or none in either"
    )]
    HalfMapped,
    #[error(
        "the pod's network, mount and PID namespaces can't be created; run this as root, or allow user namespaces to have \
         them (sysctl kernel.apparmor_restrict_unprivileged_userns)"
    )]
    Leave(#[source] io::Error),
    #[error("the network of the pod can't be made")]
    Network(#[source] io::Error),
    #[error("this is the machine's own network namespace, where no rules are set")]
    Machine,
    #[error("the rules can't be set")]
    Rules(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{0} does not start")]
    Start(&'static str, #[source] io::Error),
    #[error(
        "--run-as {0} needs several users, and only one is available here: install newuidmap (Debian: uidmap) and give \
         yourself numbers in /etc/subuid and /etc/subgid, or run this as root"
    )]
    OneUser(&'static str),
    #[error(
        "only one user is available here, and iptables takes no rule about another one; leave --backend and its like out, or \
         run this as root"
    )]
    OneUserBackend,
    #[error("the state of the sandbox can't be read any more")]
    Lost(#[source] io::Error),
}
