//! The routes of packets: those that the kernel of a namespace gives, or those of a typical pod.

use super::pod::{OUTSIDE, PodContext};
use rules::simulate::LOOPBACK;
use rules::{Family, Protocol, Uid};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingPacket {
    pub to: SocketAddr,
    /// `None` unless its sender names one.
    pub from: Option<IpAddr>,
    /// `None` unless its sender names one.
    pub source_port: Option<u16>,
    pub protocol: Protocol,
    pub uid: Uid,
    pub mark: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingPacket<'a> {
    pub to: IpAddr,
    pub from: Option<IpAddr>,
    pub at: Option<&'a str>,
    pub mark: u32,
}

/// The route that a packet takes out of the pod; `lo` where it stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub interface: String,
    /// The address that it comes from, where its sender names none.
    pub source: Option<IpAddr>,
    /// Other interfaces by which it leaves with other source ports.
    pub others: Vec<String>,
    /// True for addresses of broadcast and multicast.
    pub is_group: bool,
}

impl Route {
    pub fn by(interface: String) -> Self {
        Self { interface, source: None, others: Vec::new(), is_group: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub interface: String,
    /// Its destination is here.
    pub local: bool,
}

/// The ports that the kernel picks for calls by default (`net.ipv4.ip_local_port_range`).
pub const LOCAL_PORTS: (u16, u16) = (32_768, 60_999);

pub trait Routes {
    /// # Errors
    /// Why no such packet is sent, as a clause.
    fn leaving(&self, packet: &OutgoingPacket) -> Result<Route, String>;

    /// # Errors
    /// Why no such packet is taken in, as a clause.
    fn arriving(&self, packet: &IncomingPacket<'_>) -> Result<Arrival, String>;

    /// The first and the last port that the kernel picks for calls.
    fn local_ports(&self) -> (u16, u16) {
        LOCAL_PORTS
    }

    /// The address of an interface that REDIRECT chooses.
    ///
    /// # Errors
    /// Why there is none, so that REDIRECT drops, as a clause.
    fn address_at(&self, interface: &str, family: Family) -> Result<IpAddr, String>;
}

/// As in the usual pod: by `lo` to itself, and by one interface to everybody else.
impl Routes for PodContext {
    fn leaving(&self, packet: &OutgoingPacket) -> Result<Route, String> {
        let interface = self.route(packet.to.ip()).to_owned();
        let is_group = match packet.to.ip() {
            IpAddr::V4(to) => to.is_multicast() || to.is_broadcast(),
            IpAddr::V6(to) => to.is_multicast(),
        };
        Ok(Route { is_group, ..Route::by(interface) })
    }

    fn arriving(&self, packet: &IncomingPacket<'_>) -> Result<Arrival, String> {
        let local = self.addresses.is_empty() || self.route(packet.to) == LOOPBACK;
        Ok(Arrival { interface: packet.at.unwrap_or(OUTSIDE).to_owned(), local })
    }

    fn address_at(&self, _: &str, family: Family) -> Result<IpAddr, String> {
        Ok(self.address(family).0)
    }
}
