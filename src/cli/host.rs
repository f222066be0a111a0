//! Facts about the local machine.

use mesh::{Host, sources::name_servers};
use nix::{errno::Errno, unistd};
use rules::{Family, Gid, Table, Uid};
use sidecar_init::{
    backend::{Kernel, iptables::Lock},
    sys::address,
};
use std::{
    fs, io,
    net::{IpAddr, ToSocketAddrs},
};

/// The local machine and the thread's network namespace.
pub(super) enum System {
    Any,
    /// For the drop-in: like `istio-iptables`, it fails where the pod has no address.
    DropIn,
}

const RESOLV_CONF: &str = "/etc/resolv.conf";

impl Host for System {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        let user = known(unistd::User::from_name(name))?;
        Ok(user.and_then(|user| Uid::new(user.uid.as_raw())))
    }

    fn has_user(&self, uid: Uid) -> io::Result<bool> {
        known(unistd::User::from_uid(unistd::Uid::from_raw(uid.number()))).map(|user| user.is_some())
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        let group = known(unistd::Group::from_name(name))?;
        Ok(group.and_then(|group| Gid::new(group.gid.as_raw())))
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        address::all()
    }

    // Rules can be set before the network is, such as in a namespace that was just made.
    fn may_lack_addresses(&self) -> bool {
        matches!(self, Self::Any)
    }

    fn name_servers_in(&self, path: &str) -> io::Result<Vec<IpAddr>> {
        Ok(name_servers(&fs::read(path)?))
    }

    fn has_nat_chain(&self, family: Family, name: &str) -> io::Result<bool> {
        Kernel::open(Lock::default(), mesh::kuma::OWNERSHIP)
            .and_then(|mut kernel| kernel.has_chain(family, Table::Nat, name))
            .map_err(|error| io::Error::new(error.kind(), error))
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        match fs::read(RESOLV_CONF) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            text => Ok(name_servers(&text?)),
        }
    }
}

/// The addresses of a name, by the system's resolver, each once.
pub(super) fn resolve(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut found: Vec<IpAddr> = Vec::new();
    for address in (name, 0).to_socket_addrs()?.map(|address| address.ip()) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

/// musl reports a missing database as an error; then no user or group is known.
fn known<T>(found: nix::Result<Option<T>>) -> io::Result<Option<T>> {
    match found {
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        other => Ok(other?),
    }
}
