//! The addresses of a network namespace, over rtnetlink.
//!
//! One dump of addresses, of one family where that is enough; `getifaddrs` takes one of all interfaces before.

use super::header::*;
use super::message::{attribute, u32_at};
use super::netlink::{NetlinkRequest, NetlinkSocket};
use nix::{net::if_::if_indextoname, sys::socket::SockProtocol};
use std::{
    io,
    net::{IpAddr, Ipv6Addr},
};

/// Every address of every interface, in the kernel's order.
pub fn all() -> io::Result<Vec<IpAddr>> {
    let request = NetlinkRequest { kind: RTM_GETADDR, flags: 0, head: &[0; HEAD] };
    NetlinkSocket::open(SockProtocol::NetlinkRoute)?
        .dump(&request, |payload| Some(ScopedAddress::read(payload)?.address))
}

/// Every address of every interface, each with its interface's name.
pub fn by_interface() -> io::Result<Vec<(IpAddr, String)>> {
    let request = NetlinkRequest { kind: RTM_GETADDR, flags: 0, head: &[0; HEAD] };
    let found = NetlinkSocket::open(SockProtocol::NetlinkRoute)?.dump(&request, ScopedAddress::read)?;
    Ok(found.into_iter().map(|content| (content.address, interface(content.interface))).collect())
}

/// Every address of global scope (unique local ones included, as are those of `lo`), with its interface's name.
///
/// # Errors
/// When the kernel refuses. One without IPv6 has no addresses.
pub fn global_ipv6() -> io::Result<Vec<(Ipv6Addr, String)>> {
    use nix::libc::{EAFNOSUPPORT, EOPNOTSUPP};
    let mut socket = NetlinkSocket::open(SockProtocol::NetlinkRoute)?;
    let request = NetlinkRequest { kind: RTM_GETADDR, flags: 0, head: &[AF_INET6, 0, 0, 0, 0, 0, 0, 0] };
    let found = match socket.dump(&request, global) {
        Err(error) if matches!(error.raw_os_error(), Some(EAFNOSUPPORT | EOPNOTSUPP)) => Vec::new(),
        found => found?,
    };
    Ok(found.into_iter().map(|(address, index)| (address, interface(index))).collect())
}

/// An address and the index of its interface.
fn global(payload: &[u8]) -> Option<(Ipv6Addr, u32)> {
    let ScopedAddress { address, scope, interface } = ScopedAddress::read(payload)?;
    match address {
        IpAddr::V6(address) if scope == RT_SCOPE_UNIVERSE => Some((address, interface)),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// The length of a `struct ifaddrmsg`: family, prefix length, flags, scope, interface.
const HEAD: usize = 8;

/// An address of an interface.
struct ScopedAddress {
    address: IpAddr,
    scope: u8,
    interface: u32,
}

impl ScopedAddress {
    fn read(payload: &[u8]) -> Option<Self> {
        let (head, attributes) = payload.split_first_chunk::<HEAD>()?;
        let [family, _, _, scope, ..] = *head;
        // Of an address with a peer, IFA_ADDRESS is the peer's.
        let own = attribute(attributes, IFA_LOCAL).or_else(|| attribute(attributes, IFA_ADDRESS))?;
        let address = match family {
            AF_INET => <[u8; 4]>::try_from(own).ok()?.into(),
            AF_INET6 => <[u8; 16]>::try_from(own).ok()?.into(),
            _ => return None,
        };
        Some(Self { address, scope, interface: u32_at(head, 4)? })
    }
}

/// An interface that has gone since has no name any more.
fn interface(index: u32) -> String {
    if_indextoname(index).map_or_else(|_| format!("interface {index}"), |name| name.to_string_lossy().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::{
        ifaddrs::getifaddrs,
        sched::{CloneFlags, unshare},
        sys::socket::SockaddrStorage,
    };
    use std::{process::Command, thread};

    /// In the order of libc's list.
    fn by_libc() -> Vec<IpAddr> {
        let ip = |address: SockaddrStorage| {
            let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
            v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
        };
        let interfaces = getifaddrs().expect("interfaces can be listed");
        interfaces.filter_map(|interface| ip(interface.address?)).collect()
    }

    #[test]
    fn addresses_are_those_that_libc_tells_of() {
        let of_own_namespace = || {
            unshare(CloneFlags::CLONE_NEWNET).expect("tests run as root");
            for call in [
                "link set lo up",
                "address add 192.0.2.1/32 dev lo",
                "address add 192.0.2.2 peer 192.0.2.3/32 dev lo",
                "address add 2001:db8::1/128 dev lo nodad",
                "address add 2001:db8::2 peer 2001:db8::3/128 dev lo nodad",
            ] {
                let done = Command::new("ip").args(call.split(' ')).status().expect("ip starts");
                assert!(done.success(), "ip {call}: {done}");
            }
            let found = all().expect("addresses can be listed");
            assert_eq!(found, by_libc());
            let own: [IpAddr; 2] = ["192.0.2.2", "2001:db8::2"].map(|own| own.parse().expect("an address"));
            assert!(own.iter().all(|own| found.contains(own)), "{found:?}");
            assert_eq!(found.len(), 6, "{found:?}");
        };
        thread::spawn(of_own_namespace).join().expect("the addresses are the same");
    }
}
