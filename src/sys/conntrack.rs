//! Connection tracking over ctnetlink, as far as flows to one UDP port are concerned.
//!
//! Numbers are from `linux/netfilter/nfnetlink.h`, `nfnetlink_conntrack.h` and `nf_conntrack_common.h`.

use super::message::{Messages, attribute, u32_at};
use super::netfilter::Family;
use super::netlink::{Request, Socket};
use nix::sys::socket::SockProtocol;
use std::{io, net::IpAddr};

/// `NFNL_SUBSYS_CTNETLINK`, in the upper half of a message type.
const CONNTRACK: u16 = 1 << 8;
const GET: u16 = CONNTRACK | 1;
const DELETE: u16 = CONNTRACK | 2;

const ORIGINAL: u16 = 1;
const STATUS: u16 = 3;
const ZONE: u16 = 18;

const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const DESTINATION_V4: u16 = 2;
const DESTINATION_V6: u16 = 4;
const PROTOCOL_NUMBER: u16 = 1;
const DESTINATION_PORT: u16 = 3;

/// `IPS_SRC_NAT | IPS_DST_NAT`.
const NATED: u32 = 0x30;

const UDP: u8 = 17;

/// A UDP flow that conntrack knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where its first packet went.
    pub destination: IpAddr,
    /// And to which port.
    pub port: u16,
    /// Its zone.
    pub zone: u16,
    /// Whether its addresses are rewritten.
    pub nated: bool,
    /// Its original tuple, as the kernel told it.
    tuple: Vec<u8>,
    family: Family,
}

/// A connection to conntrack.
pub struct Conntrack(Socket);

impl Conntrack {
    /// Opens a connection in the thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses the socket.
    pub fn open() -> io::Result<Self> {
        Socket::open(SockProtocol::NetlinkNetFilter).map(Self)
    }

    /// All UDP flows of a family.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn udp_flows(&mut self, family: Family) -> io::Result<Vec<Flow>> {
        let head = [family as u8, 0, 0, 0];
        self.0.dump(&Request { kind: GET, flags: 0, head: &head }, |payload| flow(family, payload.get(4..)?))
    }

    /// Forgets a flow; one that is gone already is fine.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn forget(&mut self, flow: &Flow) -> io::Result<()> {
        let head = [flow.family as u8, 0, 0, 0];
        let request = Request { kind: DELETE, flags: 0, head: &head };
        let outcome = self.0.request(&request, |message: &mut Messages| {
            message.nest(ORIGINAL, |nest| nest.raw(&flow.tuple));
            message.attribute(ZONE, &flow.zone.to_be_bytes());
        });
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

fn flow(family: Family, attributes: &[u8]) -> Option<Flow> {
    let tuple = attribute(attributes, ORIGINAL)?;
    let protocol = attribute(tuple, TUPLE_PROTOCOL)?;
    if attribute(protocol, PROTOCOL_NUMBER)? != [UDP] {
        return None;
    }
    let addresses = attribute(tuple, TUPLE_ADDRESSES)?;
    let destination = match family {
        Family::V4 => IpAddr::from(<[u8; 4]>::try_from(attribute(addresses, DESTINATION_V4)?).ok()?),
        Family::V6 => IpAddr::from(<[u8; 16]>::try_from(attribute(addresses, DESTINATION_V6)?).ok()?),
    };
    let number = |payload: &[u8]| payload.try_into().ok().map(u16::from_be_bytes);
    // Numbers of netfilter are in network order.
    let status = u32::from_be(u32_at(attribute(attributes, STATUS)?, 0)?);
    Some(Flow {
        destination,
        port: number(attribute(protocol, DESTINATION_PORT)?)?,
        zone: attribute(attributes, ZONE).and_then(number).unwrap_or(0),
        nated: status & NATED != 0,
        tuple: tuple.to_vec(),
        family,
    })
}
