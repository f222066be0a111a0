//! The IPv6 addresses of a network namespace, over rtnetlink.
//!
//! One dump of one family, where `getifaddrs` takes one of all interfaces and one of all addresses.

use super::header::*;
use super::message::{attribute, u32_at};
use super::netlink::{Request, Socket};
use nix::{net::if_::if_indextoname, sys::socket::SockProtocol};
use std::{io, net::Ipv6Addr};

/// Every address of global scope (unique local ones included, as are those of `lo`), with its interface's name.
///
/// # Errors
/// When the kernel refuses. One without IPv6 has no addresses.
pub fn global_ipv6() -> io::Result<Vec<(Ipv6Addr, String)>> {
    use nix::libc::{EAFNOSUPPORT, EOPNOTSUPP};
    let mut socket = Socket::open(SockProtocol::NetlinkRoute)?;
    // struct ifaddrmsg: family, prefix length, flags, scope, interface.
    let request = Request { kind: RTM_GETADDR, flags: 0, head: &[AF_INET6, 0, 0, 0, 0, 0, 0, 0] };
    let found = match socket.dump(&request, global) {
        Err(error) if matches!(error.raw_os_error(), Some(EAFNOSUPPORT | EOPNOTSUPP)) => Vec::new(),
        found => found?,
    };
    Ok(found.into_iter().map(|(address, index)| (address, interface(index))).collect())
}

/// An address and the index of its interface.
fn global(payload: &[u8]) -> Option<(Ipv6Addr, u32)> {
    let (head, attributes) = payload.split_first_chunk::<8>()?;
    let [family, _, _, scope, ..] = *head;
    if family != AF_INET6 || scope != RT_SCOPE_UNIVERSE {
        return None;
    }
    // Of an address with a peer, IFA_ADDRESS is the peer's.
    let own = attribute(attributes, IFA_LOCAL).or_else(|| attribute(attributes, IFA_ADDRESS))?;
    let address: [u8; 16] = own.try_into().ok()?;
    Some((address.into(), u32_at(head, 4)?))
}

/// An interface that has gone since has no name any more.
fn interface(index: u32) -> String {
    if_indextoname(index).map_or_else(|_| format!("interface {index}"), |name| name.to_string_lossy().into())
}
