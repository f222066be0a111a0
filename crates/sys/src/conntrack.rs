//! Connection tracking over ctnetlink: UDP flows to a port, and the final destination of a connection.

use super::header::*;
use super::message::{self, Messages, attribute, ip};
use super::netfilter::{body, message_type, nfgenmsg};
use super::netlink::NetlinkSocket;
use rules::nft::{family_number, protocol_number};
use rules::{Family, Protocol};
use std::io;
use std::net::{IpAddr, SocketAddr};

const GET: u16 = message_type(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET);
const DELETE: u16 = message_type(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConntrackFlow {
    pub destination: IpAddr,
    pub port: u16,
    pub zone: u16,
    pub nated: bool,
    tuple: Vec<u8>,
    family: Family,
}

pub struct Conntrack(NetlinkSocket);

impl Conntrack {
    pub fn open() -> io::Result<Self> {
        NetlinkSocket::open(NETLINK_NETFILTER).map(Self)
    }

    pub fn udp_flows(&mut self, family: Family) -> io::Result<Vec<ConntrackFlow>> {
        self.0.dump(GET, &nfgenmsg(family_number(family), 0), |payload| flow(family, body(payload)?))
    }

    /// Replying address of a connection or flow; `None` if conntrack has no entry in these zones. Needs `CAP_NET_ADMIN`.
    pub fn goes_to(
        &mut self,
        protocol: Protocol,
        (from, to): (SocketAddr, SocketAddr),
        zones: &[u16],
    ) -> io::Result<Option<SocketAddr>> {
        let family = Family::of(to.ip());
        for zone in zones {
            let found = self.0.one(GET, &nfgenmsg(family_number(family), 0), |message| {
                message.nest(CTA_TUPLE_ORIG, |nest| tuple(nest, protocol, from, to));
                message.attribute(CTA_ZONE, &zone.to_be_bytes());
            });
            match found {
                Ok(payload) => return Ok(body(&payload).and_then(|attributes| answerer(family, attributes))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Deletes a connection or a flow from these zones. An entry that is already gone is not an error.
    pub fn forget_call(
        &mut self,
        protocol: Protocol,
        (from, to): (SocketAddr, SocketAddr),
        zones: &[u16],
    ) -> io::Result<()> {
        let family = Family::of(to.ip());
        zones.iter().try_for_each(|zone| self.delete(family, *zone, |nest| tuple(nest, protocol, from, to)))
    }

    pub fn forget(&mut self, flow: &ConntrackFlow) -> io::Result<()> {
        self.delete(flow.family, flow.zone, |nest| nest.raw(&flow.tuple))
    }

    fn delete(&mut self, family: Family, zone: u16, original: impl FnOnce(&mut Messages)) -> io::Result<()> {
        let outcome = self.0.request(DELETE, 0, &nfgenmsg(family_number(family), 0), |message| {
            message.nest(CTA_TUPLE_ORIG, original);
            message.attribute(CTA_ZONE, &zone.to_be_bytes());
        });
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

fn tuple(nest: &mut Messages, protocol: Protocol, from: SocketAddr, to: SocketAddr) {
    nest.nest(CTA_TUPLE_IP, |nest| {
        let [source, destination] = addresses_of(Family::of(to.ip()));
        nest.address(source, from.ip()).address(destination, to.ip());
    });
    nest.nest(CTA_TUPLE_PROTO, |nest| {
        nest.attribute(CTA_PROTO_NUM, &[protocol_number(protocol)]);
        nest.attribute(CTA_PROTO_SRC_PORT, &from.port().to_be_bytes());
        nest.attribute(CTA_PROTO_DST_PORT, &to.port().to_be_bytes());
    });
}

fn answerer(family: Family, attributes: &[u8]) -> Option<SocketAddr> {
    let tuple = attribute(attributes, CTA_TUPLE_REPLY)?;
    let port = attribute(attribute(tuple, CTA_TUPLE_PROTO)?, CTA_PROTO_SRC_PORT)?;
    let address = ip(attribute(attribute(tuple, CTA_TUPLE_IP)?, addresses_of(family)[0])?)?;
    Some(SocketAddr::new(address, u16::from_be_bytes(port.try_into().ok()?)))
}

const fn addresses_of(family: Family) -> [u16; 2] {
    match family {
        Family::V4 => [CTA_IP_V4_SRC, CTA_IP_V4_DST],
        Family::V6 => [CTA_IP_V6_SRC, CTA_IP_V6_DST],
    }
}

fn flow(family: Family, attributes: &[u8]) -> Option<ConntrackFlow> {
    let tuple = attribute(attributes, CTA_TUPLE_ORIG)?;
    let protocol = attribute(tuple, CTA_TUPLE_PROTO)?;
    if attribute(protocol, CTA_PROTO_NUM)? != [IPPROTO_UDP] {
        return None;
    }
    let number = |payload: &[u8]| payload.try_into().ok().map(u16::from_be_bytes);
    let status = message::number(attributes, CTA_STATUS)?;
    Some(ConntrackFlow {
        destination: ip(attribute(attribute(tuple, CTA_TUPLE_IP)?, addresses_of(family)[1])?)?,
        port: number(attribute(protocol, CTA_PROTO_DST_PORT)?)?,
        zone: attribute(attributes, CTA_ZONE).and_then(number).unwrap_or(0),
        nated: status & IPS_NAT_MASK != 0,
        tuple: tuple.to_vec(),
        family,
    })
}
