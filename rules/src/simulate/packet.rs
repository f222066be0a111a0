//! Facts of a packet and of the machine before any rule is met.

use crate::{ConnState, Family, Gid, Mark, Protocol, Uid};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A process of this machine sends it.
    Outbound {
        /// The interface to which the destination is routed; `lo` for addresses of this machine.
        interface: String,
        uid: Uid,
        gid: Gid,
    },
    /// It arrives from outside.
    Inbound {
        interface: String,
        /// The destination is an address of this machine.
        local: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub direction: Direction,
    pub protocol: Protocol,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Its mark, as the sender's `SO_MARK` left it; 0 for none.
    pub mark: u32,
    /// The mark of its connection; 0 for a new one.
    pub connmark: u32,
    pub state: ConnState,
}

impl Packet {
    pub fn family(&self) -> Family {
        Family::of(self.destination.ip())
    }
}

/// The machine's routing beside the rules.
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

pub const LOOPBACK: &str = "lo";
