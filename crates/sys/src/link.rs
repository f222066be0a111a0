//! Links over rtnetlink: veth pairs between new network namespaces, bridges, and packet programs attached to links.

use super::header::*;
use super::message::{af, attribute, rtmsg, text, u32_at};
use super::netlink::NetlinkSocket;
use nix::ifaddrs::getifaddrs;
use nix::libc::IFF_UP;
use nix::net::if_::{InterfaceFlags, if_indextoname, if_nametoindex};
use rules::Family;
use std::os::fd::{AsFd, AsRawFd};
use std::{fs, io, net::IpAddr};

const NEW: i32 = NLM_F_CREATE | NLM_F_EXCL;

pub struct NamespaceLinks {
    socket: NetlinkSocket,
}

impl NamespaceLinks {
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: NetlinkSocket::open(NETLINK_ROUTE)? })
    }

    /// Creates a veth pair to another namespace; both ends get this name. Fails if the kernel lacks `veth`.
    pub fn veth_pair(&mut self, name: &str, other: &impl AsFd) -> io::Result<()> {
        let other = other.as_fd().as_raw_fd().to_ne_bytes();
        self.socket.request(RTM_NEWLINK, NEW, &ifinfomsg(0, 0), |message| {
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

    pub fn up(&mut self, name: &str) -> io::Result<()> {
        let up = IFF_UP.cast_unsigned();
        self.socket.request(RTM_NEWLINK, 0, &ifinfomsg(index(name)?, up), |_| {})
    }

    /// Gives a link an address, usable at once because no other host on the link can have it. Fails where IPv6 is off.
    pub fn address(&mut self, name: &str, address: IpAddr, length: u8) -> io::Result<()> {
        let [a, b, c, d] = index(name)?.to_ne_bytes();
        let flags = if address.is_ipv6() { IFA_F_NODAD } else { 0 };
        let head = [af(Family::of(address)), length, flags, RT_SCOPE_UNIVERSE, a, b, c, d];
        self.socket.request(RTM_NEWADDR, NEW, &head, |message| {
            message.address(IFA_LOCAL, address).address(IFA_ADDRESS, address);
        })
    }

    pub fn default_by(&mut self, neighbour: IpAddr) -> io::Result<()> {
        let head = rtmsg(Family::of(neighbour), [RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_UNIVERSE, RTN_UNICAST]);
        self.socket.request(RTM_NEWROUTE, NEW, &head, |message| {
            message.address(RTA_GATEWAY, neighbour);
        })
    }

    /// Makes every address of `like`'s family local to the namespace, unless a more specific route exists.
    pub fn answer_at_all(&mut self, like: IpAddr) -> io::Result<()> {
        // In the kernel's local table, this would precede all other routes.
        let head = rtmsg(Family::of(like), [RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_HOST, RTN_LOCAL]);
        let lo = index("lo")?.to_ne_bytes();
        self.socket.request(RTM_NEWROUTE, NEW, &head, |message| {
            message.attribute(RTA_OIF, &lo);
        })
    }
}

/// True for an existing interface that is down. An unknown state counts as up.
pub fn is_down(name: &str) -> bool {
    let mut links = getifaddrs().into_iter().flatten();
    links.any(|link| link.interface_name == name && !link.flags.contains(InterfaceFlags::IFF_UP))
}

pub fn bridges() -> io::Result<Vec<String>> {
    NetlinkSocket::open(NETLINK_ROUTE)?.dump(RTM_GETLINK, &ifinfomsg(0, 0), |payload| {
        let attributes = payload.get(IFINFOMSG..)?;
        let kind = attribute(attribute(attributes, IFLA_LINKINFO)?, IFLA_INFO_KIND)?;
        let name = attribute(attributes, IFLA_IFNAME)?;
        (text(kind) == "bridge").then(|| text(name).to_owned())
    })
}

const TCMSG: usize = 20;
const TCM_IFINDEX: usize = 4;

const XFRM_USERPOLICY_ID: usize = 64;

/// Descriptions of unread rules and programs that may affect packets here: XDP, tc filters, IPsec, bridge rules.
pub fn unread() -> io::Result<Vec<String>> {
    let mut socket = NetlinkSocket::open(NETLINK_ROUTE)?;
    let mut found = socket.dump(RTM_GETLINK, &ifinfomsg(0, 0), |payload| {
        let attributes = payload.get(IFINFOMSG..)?;
        let attached = attribute(attribute(attributes, IFLA_XDP)?, IFLA_XDP_ATTACHED)?.first()?;
        let name = text(attribute(attributes, IFLA_IFNAME)?);
        (*attached != 0).then(|| format!("an XDP program at {name}"))
    })?;
    found.extend(socket.dump(RTM_GETQDISC, &[0; TCMSG], |payload| {
        let kind = text(attribute(payload.get(TCMSG..)?, TCA_KIND)?);
        let name = if_indextoname(u32_at(payload, TCM_IFINDEX)?).ok()?;
        // Only these classify packets that arrive, or every packet that passes.
        matches!(kind, "clsact" | "ingress")
            .then(|| format!("tc filters at {} ({kind})", name.to_string_lossy()))
    })?);
    // Kernels without IPsec have no policies; listing them needs CAP_NET_ADMIN.
    let policies = NetlinkSocket::open(NETLINK_XFRM)
        .and_then(|mut socket| socket.dump(XFRM_MSG_GETPOLICY, &[0; XFRM_USERPOLICY_ID], |_| Some(())));
    if policies.is_ok_and(|policies| !policies.is_empty()) {
        found.push("IPsec policies".to_owned());
    }
    let calls = fs::read_to_string("/proc/sys/net/bridge/bridge-nf-call-iptables");
    if calls.is_ok_and(|calls| calls.trim() == "1") {
        let of_bridge = |name| format!("rules for frames that cross bridge {name} (bridge-nf-call-iptables)");
        found.extend(bridges()?.into_iter().map(of_bridge));
    }
    Ok(found)
}

fn index(name: &str) -> io::Result<u32> {
    if_nametoindex(name)
        .map_err(|error| io::Error::new(io::Error::from(error).kind(), format!("no link {name}")))
}

pub(super) fn interface(index: u32) -> String {
    match if_indextoname(index) {
        Ok(name) if !name.is_empty() => name.to_string_lossy().into_owned(),
        Ok(_) | Err(_) => index.to_string(),
    }
}

const IFINFOMSG: usize = 16;

/// `struct ifinfomsg`: family, padding, type, index, flags, mask of the flags to change.
fn ifinfomsg(index: u32, flags: u32) -> [u8; IFINFOMSG] {
    let mut head = [0; IFINFOMSG];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    head[12..].copy_from_slice(&flags.to_ne_bytes());
    head
}
