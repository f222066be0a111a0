//! What conntrack knows of the connections that are tried.

use crate::sys::conntrack::Conntrack;
use rules::Protocol;
use std::net::SocketAddr;

/// Conntrack, as far as it can be asked.
pub(super) struct Flows<'a> {
    conntrack: Option<Conntrack>,
    zones: &'a [u16],
}

impl<'a> Flows<'a> {
    pub(super) fn open(zones: &'a [u16]) -> Self {
        Self { conntrack: Conntrack::open().ok(), zones }
    }

    /// Where a connection really goes; `None` where conntrack does not know it, or answers nobody like us.
    pub(super) fn goes_to(
        &mut self,
        protocol: Protocol,
        way: (SocketAddr, SocketAddr),
    ) -> Option<SocketAddr> {
        match self.conntrack.as_mut()?.goes_to(protocol, way, self.zones) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(target: "validation", %error, "conntrack can't be asked");
                self.conntrack = None;
                None
            }
        }
    }

    /// Leaves nothing behind: whoever called from the same port soon would go the way of this connection, whatever the
    /// rules say by then.
    pub(super) fn forget(&mut self, protocol: Protocol, way: (SocketAddr, SocketAddr)) {
        if let Some(conntrack) = &mut self.conntrack
            && let Err(error) = conntrack.forget_call(protocol, way, self.zones)
        {
            tracing::debug!(target: "validation", %error, "conntrack forgets nothing");
        }
    }

    pub(super) fn can_be_asked(&self) -> bool {
        self.conntrack.is_some()
    }
}
