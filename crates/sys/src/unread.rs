//! Programs in the kernel's path of packets that may decide before or behind the rules, and that are not read: XDP, filters
//! of tc, and rules of bridges.

use super::header::*;
use super::link::bridges;
use super::message::{attribute, text, u32_at};
use super::netlink::{NetlinkRequest, NetlinkSocket};
use nix::{net::if_::if_indextoname, sys::socket::SockProtocol};
use std::{fs, io};

/// The lengths of a `struct ifinfomsg` and a `struct tcmsg`, and the offset of the latter's interface.
const IFINFOMSG: usize = 16;
const TCMSG: usize = 20;
const TCM_IFINDEX: usize = 4;

/// Each of them in words, of the thread's network namespace.
///
/// # Errors
/// Where the kernel does not list links or queueing disciplines.
pub fn unread() -> io::Result<Vec<String>> {
    let mut socket = NetlinkSocket::open(SockProtocol::NetlinkRoute)?;
    let links = NetlinkRequest { kind: RTM_GETLINK, flags: 0, head: &[0; IFINFOMSG] };
    let mut found = socket.dump(&links, |payload| {
        let attributes = payload.get(IFINFOMSG..)?;
        let attached = attribute(attribute(attributes, IFLA_XDP)?, IFLA_XDP_ATTACHED)?.first()?;
        let name = text(attribute(attributes, IFLA_IFNAME)?);
        (*attached != 0).then(|| format!("a program of XDP at {name}"))
    })?;
    let disciplines = NetlinkRequest { kind: RTM_GETQDISC, flags: 0, head: &[0; TCMSG] };
    found.extend(socket.dump(&disciplines, |payload| {
        let kind = text(attribute(payload.get(TCMSG..)?, TCA_KIND)?);
        let name = if_indextoname(u32_at(payload, TCM_IFINDEX)?).ok()?;
        // Only these classify packets that arrive, or all that pass.
        matches!(kind, "clsact" | "ingress")
            .then(|| format!("filters of tc at {} ({kind})", name.to_string_lossy()))
    })?);
    let calls = fs::read_to_string("/proc/sys/net/bridge/bridge-nf-call-iptables");
    if calls.is_ok_and(|calls| calls.trim() == "1") {
        let of_bridge = |name| format!("rules for frames that cross bridge {name} (bridge-nf-call-iptables)");
        found.extend(bridges()?.into_iter().map(of_bridge));
    }
    Ok(found)
}
