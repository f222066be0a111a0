//! Facts of the host that the configuration needs.

use rules::{Family, Gid, Uid};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Placeholders for a pod's addresses where they are not known (RFC 5737, RFC 3849). Answers state that.
pub const STAND_IN: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(198, 51, 100, 7), Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7));

/// Facts of the machine and the network namespace, used only where they are not declared. Each fails where it can't be read.
pub trait Host {
    /// The number of a user; `None` if there is no such user, or names mean nothing here: a host that the
    /// pod does not run on has other users.
    fn user(&self, _name: &str) -> io::Result<Option<Uid>> {
        Ok(None)
    }

    /// True where it is unknown.
    fn has_user(&self, _uid: Uid) -> io::Result<bool> {
        Ok(true)
    }

    /// The number of a group; `None` as with [`Host::user`].
    fn group(&self, _name: &str) -> io::Result<Option<Gid>> {
        Ok(None)
    }

    /// False for placeholders for addresses that are not known.
    fn knows_addresses(&self) -> bool {
        true
    }

    /// All interfaces, in the kernel's order.
    fn addresses(&self) -> io::Result<Vec<IpAddr>>;

    /// True if a pod without any address is taken for one that gets IPv4 addresses. Otherwise it is a problem: its family
    /// can't be known.
    fn may_lack_addresses(&self) -> bool {
        false
    }

    /// None if resolv.conf does not exist.
    fn name_servers(&self) -> io::Result<Vec<IpAddr>>;

    /// The DNS servers of a file in the form of resolv.conf.
    fn name_servers_in(&self, _path: &str) -> io::Result<Vec<IpAddr>> {
        self.name_servers()
    }

    /// True if a table `nat` of iptables, of either variant, holds the chain; false where no tables can be read.
    fn has_nat_chain(&self, _family: Family, _name: &str) -> io::Result<bool> {
        Ok(false)
    }
}

/// No host to ask, as for a preview or a webhook: names of users are unknown, and addresses and servers are declared or
/// there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullHost;

impl Host for NullHost {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

/// The DNS servers of resolv.conf in the order of the file, read as libc reads them (`res_init.c` of glibc, `resolvconf.c` of musl):
/// other lines, and what is not an address, are skipped. libc uses only the first three; other resolvers may use more.
pub fn name_servers(text: &[u8]) -> Vec<IpAddr> {
    text.split(|&byte| byte == b'\n').filter_map(server).collect()
}

fn server(line: &[u8]) -> Option<IpAddr> {
    let rest = line.strip_prefix(b"nameserver")?;
    let (b' ' | b'\t', rest) = rest.split_first()? else { return None };
    let address = std::str::from_utf8(rest).ok()?.split_ascii_whitespace().next()?;
    // `fe80::1%eth0`: the zone is the interface's, and rules have none.
    address.split('%').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_hides_no_server() {
        let check = |text: &[u8], expected: &[&str]| {
            let found: Vec<String> = name_servers(text).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(text));
        };
        check(b"nameserver 10.0.0.10\n", &["10.0.0.10"]);
        check(b"options insecure1\noptions ndots\ndomain\nnameserver 10.0.0.10", &["10.0.0.10"]);
        check(b"nameserver 10.0.0\nnameserver \nnameserver 10.0.0.10\n", &["10.0.0.10"]);
        check(b"search caf\xe9.example\nnameserver 10.0.0.10\n", &["10.0.0.10"]);
        check(b"nameserver\t10.0.0.10 # the cluster's\r\nnameserver fd00::a\r\n", &["10.0.0.10", "fd00::a"]);
        check(b"nameserver fe80::1%eth0\n", &["fe80::1"]);
        check(b"#nameserver 10.0.0.1\n; nameserver 10.0.0.2\nnameservers 10.0.0.3\n", &[]);
        check(b" nameserver 10.0.0.10\n", &[]);
        check(b"", &[]);
    }
}
