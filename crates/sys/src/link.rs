//! Veth pairs between network namespaces, with addresses and routes, and the names of bridges, over rtnetlink.
//!
//! The pairs are for new namespaces: nothing is removed; everything ends with the namespace.

use super::header::*;
use super::message::{Messages, attribute, text};
use super::netlink::{NetlinkRequest, NetlinkSocket};
use nix::{
    ifaddrs::getifaddrs,
    libc::IFF_UP,
    net::if_::{InterfaceFlags, if_nametoindex},
    sys::socket::SockProtocol,
};
use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, AsRawFd},
};

/// The links of a network namespace.
pub struct NamespaceLinks {
    socket: NetlinkSocket,
}

impl NamespaceLinks {
    /// Opens a connection in the thread's network namespace.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: NetlinkSocket::open(SockProtocol::NetlinkRoute)? })
    }

    /// Creates a veth pair to another namespace. Both ends have this name.
    ///
    /// # Errors
    /// What the kernel answers: without its module `veth`, that the operation is not supported.
    pub fn veth_pair(&mut self, name: &str, other: &impl AsFd) -> io::Result<()> {
        let request =
            NetlinkRequest { kind: RTM_NEWLINK, flags: NLM_F_CREATE | NLM_F_EXCL, head: &ifinfomsg(0, 0) };
        // A descriptor is never negative.
        let other = other.as_fd().as_raw_fd().to_ne_bytes();
        self.socket.request(&request, |message| {
            message.text(IFLA_IFNAME, name);
            message.nest(IFLA_LINKINFO, |info| {
                info.text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |data| {
                    data.nest(VETH_INFO_PEER, |peer| {
                        peer.raw(&ifinfomsg(0, 0));
                        peer.text(IFLA_IFNAME, name).attribute(IFLA_NET_NS_FD, &other);
                    });
                });
            });
        })
    }

    /// Sets a link up.
    ///
    /// # Errors
    /// When there is none of this name, or the kernel refuses.
    pub fn up(&mut self, name: &str) -> io::Result<()> {
        let up = IFF_UP.cast_unsigned();
        let head = ifinfomsg(index(name)?, up);
        self.socket.request(&NetlinkRequest { kind: RTM_NEWLINK, flags: 0, head: &head }, |_| {})
    }

    /// Gives a link an address, usable at once: no other host on the link can have it, so none is probed for.
    ///
    /// # Errors
    /// When there is no link of this name, or the kernel refuses, as where IPv6 is switched off.
    pub fn address(&mut self, name: &str, address: IpAddr, length: u8) -> io::Result<()> {
        let [a, b, c, d] = index(name)?.to_ne_bytes();
        let flags = if address.is_ipv6() { IFA_F_NODAD } else { 0 };
        let head = [af(address), length, flags, RT_SCOPE_UNIVERSE, a, b, c, d];
        let request = NetlinkRequest { kind: RTM_NEWADDR, flags: NLM_F_CREATE | NLM_F_EXCL, head: &head };
        self.socket.request(&request, |message| {
            octets(message, IFA_LOCAL, address);
            octets(message, IFA_ADDRESS, address);
        })
    }

    /// Adds a default route by a neighbour.
    pub fn default_by(&mut self, neighbour: IpAddr) -> io::Result<()> {
        let head = rtmsg(neighbour, RT_SCOPE_UNIVERSE, RTN_UNICAST);
        let request = NetlinkRequest { kind: RTM_NEWROUTE, flags: NLM_F_CREATE | NLM_F_EXCL, head: &head };
        self.socket.request(&request, |message| octets(message, RTA_GATEWAY, neighbour))
    }

    /// Makes every address of a family without a more specific route local to the namespace, so that its servers answer
    /// at all of them. `like` is an address of the family.
    pub fn answer_at_all(&mut self, like: IpAddr) -> io::Result<()> {
        let head = rtmsg(like, RT_SCOPE_HOST, RTN_LOCAL);
        let request = NetlinkRequest { kind: RTM_NEWROUTE, flags: NLM_F_CREATE | NLM_F_EXCL, head: &head };
        let lo = index("lo")?.to_ne_bytes();
        self.socket.request(&request, |message| {
            message.attribute(RTA_OIF, &lo);
        })
    }
}

/// Whether an interface is there and down. One of unknown state counts as up.
pub fn is_down(name: &str) -> bool {
    let mut links = getifaddrs().into_iter().flatten();
    links.any(|link| link.interface_name == name && !link.flags.contains(InterfaceFlags::IFF_UP))
}

/// The names of a namespace's bridges.
pub fn bridges() -> io::Result<Vec<String>> {
    let head = ifinfomsg(0, 0);
    let request = NetlinkRequest { kind: RTM_GETLINK, flags: 0, head: &head };
    NetlinkSocket::open(SockProtocol::NetlinkRoute)?.dump(&request, |payload| {
        let attributes = payload.get(head.len()..)?;
        let kind = attribute(attribute(attributes, IFLA_LINKINFO)?, IFLA_INFO_KIND)?;
        let name = attribute(attributes, IFLA_IFNAME)?;
        (text(kind) == "bridge").then(|| text(name).to_owned())
    })
}

fn index(name: &str) -> io::Result<u32> {
    if_nametoindex(name)
        .map_err(|error| io::Error::new(io::Error::from(error).kind(), format!("no link {name}")))
}

fn octets(message: &mut Messages, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => message.attribute(kind, &address.octets()),
        IpAddr::V6(address) => message.attribute(kind, &address.octets()),
    };
}

const fn af(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

/// `struct ifinfomsg`: family, padding, type, index, flags, which of the flags to change.
fn ifinfomsg(index: u32, flags: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    head[12..].copy_from_slice(&flags.to_ne_bytes());
    head
}

/// `struct rtmsg` of a default route: family, lengths, tos, table, protocol, scope, type, flags. In the main table even
/// where it is local: in the kernel's own one it would come before all others.
fn rtmsg(like: IpAddr, scope: u8, kind: u8) -> [u8; 12] {
    [af(like), 0, 0, 0, RT_TABLE_MAIN, RTPROT_BOOT, scope, kind, 0, 0, 0, 0]
}
