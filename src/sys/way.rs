//! Which way the kernel would send a packet, over rtnetlink. Nothing is sent.

use super::header::*;
use super::message::{attribute, u32_at};
use super::netlink::{Request, Socket};
use nix::{net::if_::if_indextoname, sys::socket::SockProtocol};
use std::{io, net::IpAddr};

/// The way to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The interface by which a packet leaves; `lo` for addresses of this namespace.
    pub interface: String,
    /// The address that it comes from, where its sender names none.
    pub source: Option<IpAddr>,
}

/// The length of a `struct rtmsg`.
const HEAD: usize = 12;

/// The way to an address, for a packet without a mark.
///
/// # Errors
/// When there is none, with the kernel's reason: no route, or one that forbids it.
pub fn to(destination: IpAddr) -> io::Result<Way> {
    let (family, bytes) = match destination {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
    };
    let bits = u8::try_from(bytes.len() * 8).map_err(io::Error::other)?;
    let head: [u8; HEAD] = [family, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let request = Request { kind: RTM_GETROUTE, flags: 0, head: &head };
    let answer = Socket::open(SockProtocol::NetlinkRoute)?.one(&request, |message| {
        message.attribute(RTA_DST, &bytes);
    })?;
    let attributes = answer.get(HEAD..).unwrap_or_default();
    let index = attribute(attributes, RTA_OIF).and_then(|index| u32_at(index, 0));
    let index = index.ok_or(io::ErrorKind::NetworkUnreachable)?;
    let source = attribute(attributes, RTA_PREFSRC).and_then(|source| match destination {
        IpAddr::V4(_) => <[u8; 4]>::try_from(source).ok().map(IpAddr::from),
        IpAddr::V6(_) => <[u8; 16]>::try_from(source).ok().map(IpAddr::from),
    });
    Ok(Way { interface: if_indextoname(index)?.to_string_lossy().into_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::namespace;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn a_namespace_of_its_own_leads_nowhere() {
        let asked = namespace::within_new(|| {
            [IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()]
                .map(|address| to(address).expect_err("no route").kind())
        });
        let asked = asked.expect("CAP_SYS_ADMIN");
        assert_eq!(asked, [io::ErrorKind::NetworkUnreachable; 2]);
    }
}
