//! The user of a connection, from the socket tables in `/proc/net`.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
};

/// The user of the socket of this protocol that has this address as its own. An unconnected
/// socket has only a port.
pub(super) fn of(protocol: &str, own: SocketAddr) -> Option<u32> {
    let find_in =
        |table: &str, own| find(&fs::read_to_string(format!("/proc/thread-self/net/{table}")).ok()?, own);
    let v6 = format!("{protocol}6");
    match own.ip() {
        // A socket of IPv6 can reach IPv4 too, from a mapped address (`ipv6(7)`). Java's do.
        IpAddr::V4(ip) => find_in(protocol, own)
            .or_else(|| find_in(&v6, SocketAddr::from((ip.to_ipv6_mapped(), own.port())))),
        IpAddr::V6(_) => find_in(&v6, own),
    }
}

fn find(table: &str, own: SocketAddr) -> Option<u32> {
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (ip, port) = words.next()?.split_once(':')?;
        let is_own = u16::from_str_radix(port, 16) == Ok(own.port())
            && (ip == address(own.ip()) || ip.bytes().all(|digit| digit == b'0'));
        // The remote address, the state, the queues, timer and retransmissions come first.
        is_own.then(|| words.nth(5)?.parse().ok())?
    })
}

/// An address as the table has it: words of 32 bits in host byte order.
fn address(ip: IpAddr) -> String {
    let octets = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let word = |word: &[u8]| format!("{:08X}", u32::from_ne_bytes(word.try_into().expect("four")));
    octets.chunks(4).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use sys::{link::NamespaceLinks, namespace};

    #[test]
    fn the_user_stands_behind_the_timers() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:1F90 0200090A:0050 01 00000000:00000000 00:00000000 00000002  1000        7 4711 1\n";
        let own = SocketAddr::from(([127, 0, 0, 1], 8080));
        // The words of an address are in host byte order.
        let expected = cfg!(target_endian = "little").then_some(1000);
        assert_eq!(find(table, own), expected);
        assert_eq!(find(table, SocketAddr::from(([127, 0, 0, 1], 8081))), None);
    }

    #[test]
    fn sockets_of_this_test_are_ours() {
        let checked = namespace::within_new(|| {
            NamespaceLinks::open()
                .and_then(|mut links| links.up("lo"))
                .expect("a link that every namespace has");
            let own = nix::unistd::getuid().as_raw();
            for address in ["127.0.0.1:0", "[::1]:0"] {
                let tcp = TcpListener::bind(address).expect("a port is free");
                assert_eq!(of("tcp", tcp.local_addr().expect("bound")), Some(own), "{address}");
                let udp = UdpSocket::bind(address).expect("a port is free");
                assert_eq!(of("udp", udp.local_addr().expect("bound")), Some(own), "{address}");
            }
            for address in ["[::ffff:127.0.0.1]:0", "[::]:0"] {
                let udp = UdpSocket::bind(address).expect("a port is free");
                let port = udp.local_addr().expect("bound").port();
                assert_eq!(of("udp", SocketAddr::from(([127, 0, 0, 1], port))), Some(own), "{address}");
            }
            assert_eq!(of("tcp", "192.0.2.1:1".parse().expect("an address")), None);
        });
        checked.expect("tests run as root");
    }
}
