//! The machine that we run on, asked for facts.

use nix::{errno::Errno, unistd};
use policy::{Host, sources::name_servers};
use rules::{Gid, Uid};
use sidecar_init::sys::address;
use std::{fs, io, net::IpAddr};

/// The local machine and the thread's network namespace.
pub(super) struct System;

const RESOLV_CONF: &str = "/etc/resolv.conf";

impl Host for System {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        let user = known(unistd::User::from_name(name))?;
        Ok(user.and_then(|user| Uid::new(user.uid.as_raw())))
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        let group = known(unistd::Group::from_name(name))?;
        Ok(group.and_then(|group| Gid::new(group.gid.as_raw())))
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        address::all()
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        match fs::read(RESOLV_CONF) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            text => Ok(name_servers(&text?)),
        }
    }
}

/// musl reports a missing database as an error; nobody is known then.
fn known<T>(found: nix::Result<Option<T>>) -> io::Result<Option<T>> {
    match found {
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        other => Ok(other?),
    }
}
