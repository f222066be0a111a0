//! A container's network namespace: on the way in, and what is done there.

use super::protocol::{Backend, Code, Fault};
use nix::errno::Errno;
use rules::Ownership;
use sidecar_init::{
    backend::{self, Kernel, Variant, iptables::Lock},
    engine::{self, Choice},
    sys::{address, lock::Refused, namespace},
};
use std::{fs, io, net::IpAddr, os::unix::fs::MetadataExt, path::Path, time::Duration};

/// What became of entering a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    Inside,
    /// There is none any more.
    Gone,
}

/// Moves this thread into the namespace behind `CNI_NETNS`, for good.
///
/// # Errors
/// When it is the one that we are in already or the machine's own, or can't be entered.
pub(super) fn enter(path: &Path) -> Result<Entered, Fault> {
    let own =
        "is the runtime's own network namespace; capturing there would catch the traffic of everything in it";
    let shown = path.display();
    let refused =
        |text: &str| Fault::new(Code::Environment, format!("CNI_NETNS: {:?} {text}", shown.to_string()), "");
    if is_own(path) {
        return Err(refused(own));
    }
    match namespace::enter(path) {
        Ok(()) if namespace::is_host() == Some(true) => Err(refused(own)),
        Ok(()) => Ok(Entered::Inside),
        // What is left of a name whose namespace was unmounted is an empty file.
        Err(error) if is_gone(&error) => Ok(Entered::Gone),
        Err(error) => Err(Fault::caused(
            Code::Namespace,
            format!("CNI_NETNS: {:?} can't be entered; CAP_SYS_ADMIN is needed", shown.to_string()),
            &error,
        )),
    }
}

/// The same where there has to be one.
///
/// # Errors
/// As [`enter`], and when it is gone.
pub(super) fn enter_existing(path: &Path) -> Result<(), Fault> {
    match enter(path)? {
        Entered::Inside => Ok(()),
        Entered::Gone => {
            let msg = format!("CNI_NETNS: {:?} is no network namespace", path.display().to_string());
            Err(Fault::new(
                Code::Environment,
                msg,
                "expected one such as /run/netns/NAME or /proc/PID/ns/net",
            ))
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::ENOENT, Errno::ENOTDIR, Errno::EINVAL, Errno::ESRCH];
    error.raw_os_error().is_some_and(|code| gone.contains(&Errno::from_raw(code)))
}

fn is_own(path: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    match (id(path), id(Path::new("/proc/thread-self/ns/net"))) {
        (Ok(one), Ok(other)) => one == other,
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// The addresses of all interfaces, in the kernel's order.
///
/// # Errors
/// When they can't be listed, or nobody has given the container any: this plugin adds none.
pub(super) fn addresses() -> Result<Vec<IpAddr>, Fault> {
    let found = address::all().map_err(|error| {
        Fault::caused(Code::Namespace, "the container's interfaces can't be listed", &error)
    })?;
    match found.iter().all(IpAddr::is_loopback) {
        false => Ok(found),
        true => Err(Fault::new(
            Code::Configuration,
            "the container has no address, and whether IPv6 is to be captured depends on it",
            "in the list of plugins, this one comes behind those that give the container its interface and addresses",
        )),
    }
}

/// The namespace that this thread is in, as an owner sees it. A lock is waited for until shortly before the call has to end.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn open(timeout: Duration, owner: Ownership) -> Result<Kernel, Fault> {
    let wait = u32::try_from(timeout.as_secs().saturating_sub(1)).unwrap_or(u32::MAX);
    Kernel::open(Lock::on_node(wait), owner)
        .map_err(|error| failed("the namespace can't be read", &engine::Error::from(error)))
}

/// What to tell the engine.
pub(super) fn choice(backend: Backend) -> Choice {
    match backend {
        Backend::Nftables => Choice::Nftables,
        Backend::Iptables => Choice::Iptables(None),
        Backend::IptablesNft => Choice::Iptables(Some(Variant::Nft)),
        Backend::IptablesLegacy => Choice::Iptables(Some(Variant::Legacy)),
    }
}

/// What the engine could not do, as a fault.
pub(super) fn failed(what: &str, error: &engine::Error) -> Fault {
    use backend::Error::{Conflict, Held, NoProgram};
    let code = match error {
        engine::Error::Backend(Held(Refused::Busy(holder))) => {
            let who = holder.map_or_else(|| "another program".to_owned(), |id| format!("process {id}"));
            let details = format!("{who} is changing the container's network namespace (timeout)");
            return Fault::new(Code::TryAgain, what, details);
        }
        engine::Error::Backend(Conflict { .. }) => Code::TryAgain,
        engine::Error::Backend(NoProgram(_)) => Code::NotAvailable,
        engine::Error::Failed(failure) => match failure.source {
            Conflict { .. } => Code::TryAgain,
            NoProgram(_) => Code::NotAvailable,
            _ => Code::Namespace,
        },
        _ => Code::Namespace,
    };
    Fault::caused(code, format!("{what}: {error}"), error)
}
