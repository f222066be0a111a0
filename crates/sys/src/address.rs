//! The addresses of a network namespace, over rtnetlink: by one dump, of one family where that is enough.

use super::message::{attribute, ip, u32_at};
use super::netlink::{NetlinkSocket, SockProtocol};
use super::{header::*, link::interface};
use std::io;
use std::net::{IpAddr, Ipv6Addr};

/// Every address of every interface, in the kernel's order.
pub fn all() -> io::Result<Vec<IpAddr>> {
    Ok(of_family(AF_UNSPEC)?.into_iter().map(|found| found.address).collect())
}

/// Every address of every interface, each with its interface's name.
pub fn by_interface() -> io::Result<Vec<(IpAddr, String)>> {
    Ok(of_family(AF_UNSPEC)?.into_iter().map(|found| (found.address, interface(found.interface))).collect())
}

/// Every IPv6 address of global scope, unique local ones and those of `lo` included, with its interface's name.
pub fn global_ipv6() -> io::Result<Vec<(Ipv6Addr, String)>> {
    use nix::libc::{EAFNOSUPPORT, EOPNOTSUPP};
    let found = match of_family(AF_INET6) {
        Err(error) if matches!(error.raw_os_error(), Some(EAFNOSUPPORT | EOPNOTSUPP)) => Vec::new(),
        found => found?,
    };
    let global = found.into_iter().filter_map(|found| match found.address {
        IpAddr::V6(address) if found.scope == RT_SCOPE_UNIVERSE => {
            Some((address, interface(found.interface)))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    });
    Ok(global.collect())
}

fn of_family(family: u8) -> io::Result<Vec<ScopedAddress>> {
    let head: [u8; HEAD] = [family, 0, 0, 0, 0, 0, 0, 0];
    NetlinkSocket::open(SockProtocol::NetlinkRoute)?.dump(RTM_GETADDR, &head, ScopedAddress::read)
}

/// The length of a `struct ifaddrmsg`: family, prefix length, flags, scope, interface.
const HEAD: usize = 8;

struct ScopedAddress {
    address: IpAddr,
    scope: u8,
    interface: u32,
}

impl ScopedAddress {
    fn read(payload: &[u8]) -> Option<Self> {
        let (head, attributes) = payload.split_first_chunk::<HEAD>()?;
        // Of an address with a peer, IFA_ADDRESS is the peer's.
        let own = attribute(attributes, IFA_LOCAL).or_else(|| attribute(attributes, IFA_ADDRESS))?;
        Some(Self { address: ip(own)?, scope: head[3], interface: u32_at(head, 4)? })
    }
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
