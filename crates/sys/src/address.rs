//! Addresses of a network namespace, as the C library lists them.

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use std::io;
use std::net::{IpAddr, Ipv6Addr};

/// Every address of every interface, in the kernel's order.
pub fn all() -> io::Result<Vec<IpAddr>> {
    Ok(by_interface()?.into_iter().map(|(address, _)| address).collect())
}

pub fn by_interface() -> io::Result<Vec<(IpAddr, String)>> {
    let named = |InterfaceAddress { interface_name, address, .. }| {
        let address = address?;
        let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
        let address = v4.or_else(|| Some(address.as_sockaddr_in6()?.ip().into()))?;
        // An IPv4 address's label may follow a colon, which no interface name contains.
        let name = interface_name.split(':').next().unwrap_or_default();
        Some((address, name.to_owned()))
    };
    Ok(getifaddrs()?.filter_map(named).collect())
}

/// Every IPv6 address of global scope, including unique local addresses and `lo`'s, with its interface's name.
pub fn global_ipv6() -> io::Result<Vec<(Ipv6Addr, String)>> {
    const SITE_LOCAL: u16 = 0xfec0;
    let is_global = |address: &Ipv6Addr| {
        let is_site_local = address.segments()[0] & 0xffc0 == SITE_LOCAL;
        !address.is_loopback() && !address.is_unicast_link_local() && !is_site_local
    };
    let global = by_interface()?.into_iter().filter_map(|(address, name)| match address {
        IpAddr::V6(address) if is_global(&address) => Some((address, name)),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    });
    Ok(global.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace;
    use std::process::Command;

    #[test]
    fn addresses_with_a_peer_or_a_label_are_listed_with_their_interface() {
        let listed = namespace::within_new(|| {
            for call in [
                "link set lo up",
                "address add 192.0.2.2 peer 192.0.2.3/32 dev lo label lo:1",
                "address add 2001:db8::2 peer 2001:db8::3/128 dev lo nodad",
            ] {
                let done = Command::new("ip").args(call.split(' ')).status().expect("ip starts");
                assert!(done.success(), "ip {call}: {done}");
            }
            (by_interface().expect("a list"), global_ipv6().expect("a list"))
        });
        let (all, global) = listed.expect("tests run as root");
        let own = |address: &str| (address.parse().expect("an address"), "lo".to_owned());
        for address in ["127.0.0.1", "::1", "192.0.2.2", "2001:db8::2"] {
            assert!(all.contains(&own(address)), "{address}: {all:?}");
        }
        assert_eq!(all.len(), 4, "{all:?}");
        assert_eq!(global, [("2001:db8::2".parse().expect("an address"), "lo".to_owned())]);
    }
}
