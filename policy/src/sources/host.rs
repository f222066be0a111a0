//! What the host knows and the configuration asks of it.

use rules::{Gid, Uid};
use std::{io, net::IpAddr};

/// Answers about the machine and the network namespace, asked only when nothing declares them.
pub trait Host {
    /// The number of a user; `None` if there is no such user.
    ///
    /// # Errors
    /// When the user database can't be read.
    fn user(&self, name: &str) -> io::Result<Option<Uid>>;

    /// The number of a group; `None` if there is no such group.
    ///
    /// # Errors
    /// When the group database can't be read.
    fn group(&self, name: &str) -> io::Result<Option<Gid>>;

    /// The addresses of all interfaces, in the kernel's order.
    ///
    /// # Errors
    /// When they can't be listed.
    fn addresses(&self) -> io::Result<Vec<IpAddr>>;

    /// The DNS servers of resolv.conf; none if there is no such file.
    ///
    /// # Errors
    /// When it can't be read.
    fn name_servers(&self) -> io::Result<Vec<IpAddr>>;
}

/// No host to ask, as for a preview or a webhook: names of users are unknown, and addresses and servers are declared or
/// there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn user(&self, _: &str) -> io::Result<Option<Uid>> {
        Ok(None)
    }

    fn group(&self, _: &str) -> io::Result<Option<Gid>> {
        Ok(None)
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}
