//! A container's network namespace: entering it, and opening a session of the engine there.

use super::protocol::{CniError, CniErrorCode, CniResult};
use mesh::{Mesh, OWNERS};
use nix::errno::Errno;
use rules::Ownership;
use sidecar_init::backend::{self, Backend};
use sidecar_init::engine::{Choice, EngineError, Session};
use sidecar_init::sys::namespace::{self, OpenNamespace};
use sidecar_init::{
    backend::iptables::Lock, backend::nftables::Nftables, sys::address, sys::lock::LockError,
    sys::netfilter::lacks_netlink,
};
use std::{io, net::IpAddr, path::Path, time::Duration};

/// `made.command` in the table record that ADD writes.
pub(super) const ADD_COMMAND: &str = "cni-add";

const IS_HOST: &str = "is the runtime's own network namespace; rules there would redirect all of its traffic";
const MAY_BE_HOST: &str = "may be the runtime's own network namespace, where rules would redirect all of its \
                           traffic; mount /proc to check it";

/// Moves this thread permanently into the namespace at `CNI_NETNS`. Returns false if it does not exist.
pub(super) fn enter(path: &Path) -> CniResult<bool> {
    let shown = path.display().to_string();
    let refused =
        |text: &str| CniError::new(CniErrorCode::Environment, format!("CNI_NETNS: {shown:?} {text}"), "");
    let failed = |error: &io::Error| {
        let msg = format!("CNI_NETNS: {shown:?} can't be entered; CAP_SYS_ADMIN is required");
        CniError::caused(CniErrorCode::Namespace, msg, error)
    };
    // The opened namespace is compared and entered, even if the path changes meanwhile.
    let (held, id) = match OpenNamespace::open(path).and_then(|held| held.id().map(|id| (held, id))) {
        Err(error) if is_gone(&error) => return Ok(false),
        other => other.map_err(|error| failed(&error))?,
    };
    match OpenNamespace::own().and_then(|own| own.id()) {
        Ok(own) if own == id => return Err(refused(IS_HOST)),
        Ok(_) => {}
        Err(_) => return Err(refused(MAY_BE_HOST)),
    }
    match held.enter() {
        // The name of an unmounted namespace is an empty file.
        Err(error) if is_gone(&error) => return Ok(false),
        other => other.map_err(|error| failed(&error))?,
    }
    refuse_host_namespace().map_err(refused)?;
    Ok(true)
}

/// Fails with the reason if this thread is, or may be, in the host's network namespace.
pub(super) fn refuse_host_namespace() -> Result<(), &'static str> {
    match namespace::is_host() {
        Some(false) => Ok(()),
        Some(true) => Err(IS_HOST),
        None => Err(MAY_BE_HOST),
    }
}

pub(super) fn enter_existing(path: &Path) -> CniResult<()> {
    if enter(path)? {
        return Ok(());
    }
    let msg = format!("CNI_NETNS: {:?} is not a network namespace", path.display().to_string());
    let details = "expected one such as /run/netns/NAME or /proc/PID/ns/net";
    Err(CniError::new(CniErrorCode::Environment, msg, details))
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::ENOENT, Errno::ENOTDIR, Errno::EINVAL, Errno::ESRCH];
    error.raw_os_error().is_some_and(|code| gone.contains(&Errno::from_raw(code)))
}

/// Addresses of all interfaces, in the kernel's order; an error if all are loopback addresses.
pub(super) fn addresses() -> CniResult<Vec<IpAddr>> {
    let found = address::all().map_err(|error| {
        CniError::caused(CniErrorCode::Namespace, "the container's interfaces can't be listed", &error)
    })?;
    if found.iter().all(IpAddr::is_loopback) {
        let msg = "the container has no address, on which IPv6 capture depends";
        let details = "put this plugin after the plugins that give the container its interface and addresses";
        return Err(CniError::new(CniErrorCode::Configuration, msg, details));
    }
    Ok(found)
}

/// Mesh for which an ADD set nf_tables rules here, according to their record; `None` for other rules. Starts no program.
pub(super) fn mesh_set_by_add() -> io::Result<Option<Mesh>> {
    let mut nftables = match Nftables::open(Mesh::default().ownership().table) {
        Err(error) if lacks_netlink(&error) => return Ok(None),
        opened => opened?,
    };
    let tables = nftables.tables()?.unwrap_or_default();
    for mesh in Mesh::ALL {
        let table = nftables.read_named(&tables, mesh.ownership().table)?;
        if table.and_then(|table| table.record).is_some_and(|record| record.made.command == ADD_COMMAND) {
            return Ok(Some(*mesh));
        }
    }
    Ok(None)
}

/// Like [`open`], with the namespace's lock until the session is dropped.
pub(super) fn open_locked(timeout: Duration, owner: Ownership, choice: Choice) -> CniResult<Session> {
    let mut session = open(timeout, owner, choice)?;
    session.kernel.hold().map_err(|error| engine_error("the namespace can't be changed", error))?;
    Ok(session)
}

pub(super) fn choice(backend: &str) -> Choice {
    Choice::named(backend).unwrap_or(Choice::Nftables)
}

/// Opens this thread's namespace for an owner. The wait for a lock ends shortly before the call's time limit.
pub(super) fn open(timeout: Duration, owner: Ownership, choice: Choice) -> CniResult<Session> {
    let wait = u32::try_from(timeout.as_secs().saturating_sub(1)).unwrap_or(u32::MAX);
    Session::open(Lock { timeout, ..Lock::on_node(wait) }, owner, choice, OWNERS)
        .map_err(|error| engine_error("the namespace can't be read", error))
}

pub(super) fn engine_error(what: &str, error: impl Into<EngineError>) -> CniError {
    use backend::Error::{Conflict, Locked, NoProgram};
    let error = error.into();
    let of_backend = match &error {
        EngineError::Backend(error) => Some(error),
        EngineError::Failed(failure) => Some(&failure.source),
        _ => None,
    };
    let code = match of_backend {
        Some(Locked(LockError::Busy(holder))) => {
            let who = holder.map_or_else(|| "another program".to_owned(), |id| format!("process {id}"));
            let details = format!("{who} is changing the container's network namespace (timeout)");
            return CniError::new(CniErrorCode::TryAgain, what, details);
        }
        Some(Conflict { .. }) => CniErrorCode::TryAgain,
        Some(NoProgram(_)) => CniErrorCode::NotAvailable,
        Some(_) | None => CniErrorCode::Namespace,
    };
    CniError::caused(code, format!("{what}: {error}"), &error)
}
