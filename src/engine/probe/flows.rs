//! What conntrack knows of the connections that are tried.

use crate::sys::conntrack::Conntrack;
use rules::Protocol;
use std::net::SocketAddr;

/// Conntrack, where it can be queried.
pub(super) struct Flows<'a> {
    conntrack: Option<Conntrack>,
    zones: &'a [u16],
}

impl<'a> Flows<'a> {
    pub(super) fn open(zones: &'a [u16]) -> Self {
        Self { conntrack: Conntrack::open().ok(), zones }
    }

    /// Where a connection really goes; `None` where conntrack does not know it, or refuses to answer.
    pub(super) fn goes_to(
        &mut self,
        protocol: Protocol,
        addresses: (SocketAddr, SocketAddr),
    ) -> Option<SocketAddr> {
        match self.conntrack.as_mut()?.goes_to(protocol, addresses, self.zones) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(target: "validation", %error, "conntrack can't be asked");
                self.conntrack = None;
                None
            }
        }
    }

    /// Deletes the entry: a later connection from the same port would follow it, even if
    /// rules have changed.
    pub(super) fn forget(&mut self, protocol: Protocol, addresses: (SocketAddr, SocketAddr)) {
        if let Some(conntrack) = &mut self.conntrack
            && let Err(error) = conntrack.forget_call(protocol, addresses, self.zones)
        {
            tracing::debug!(target: "validation", %error, "conntrack forgets nothing");
        }
    }

    pub(super) fn can_be_asked(&self) -> bool {
        self.conntrack.is_some()
    }
}
