//! What is known of a packet and of the machine before any rule is met.

use crate::{ConnState, Family, Gid, Mark, Protocol, Uid};
use std::net::{IpAddr, SocketAddr};

/// Where a packet comes from and where routing would take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A process of this machine sends it.
    Outbound {
        /// The interface to which the destination is routed; `lo` for addresses of this machine.
        interface: String,
        /// The user that made the socket.
        uid: Uid,
        /// The group that made the socket.
        gid: Gid,
    },
    /// It arrives from outside.
    Inbound {
        /// The interface on which it arrives.
        interface: String,
        /// Whether the destination is an address of this machine.
        local: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub direction: Direction,
    pub protocol: Protocol,
    /// Where it says it comes from.
    pub source: SocketAddr,
    /// Where it is to go.
    pub destination: SocketAddr,
    /// Its mark, as the sender's `SO_MARK` left it; 0 for none.
    pub mark: u32,
    /// The mark of its connection; 0 for a new one.
    pub connmark: u32,
    /// What conntrack thinks of it.
    pub state: ConnState,
}

impl Packet {
    /// The family of its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.destination.ip())
    }
}

/// What the machine's routing does beside the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Packets with these marks are delivered here whatever their destination, by policy rules that lead to
    /// a local default route.
    pub local_marks: Vec<Mark>,
    /// Addresses of this machine, other than loopback's.
    pub addresses: Vec<IpAddr>,
}

impl Routing {
    pub(super) fn takes_address(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.contains(&address)
    }
}

/// The interface through which a machine talks to itself.
pub const LOOPBACK: &str = "lo";
