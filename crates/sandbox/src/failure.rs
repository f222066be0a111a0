//! Why a sandbox can't be made, or has ended.

use std::io;

/// The exit code of a failure.
pub(super) const FAILED: u8 = 1;

/// Why a sandbox can't be made, or has ended.
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
