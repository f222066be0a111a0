//! Listening on one address, or on a port of all addresses in the machine's address families.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Connections that may wait to be accepted; the kernel's own limit may be lower.
const BACKLOG: i32 = 1024;

/// Listens on an address; `[::]` covers both families, or IPv4 on a machine without IPv6. Needs a Tokio runtime. Error: the
/// address, from `flag`, is not this machine's, or is in use.
pub fn listen(flag: &str, address: SocketAddr) -> Result<tokio::net::TcpListener, String> {
    at_first_family(address, bind)
        .and_then(tokio::net::TcpListener::from_std)
        .map_err(|error| format!("{flag} {address}: can't listen: {error}"))
}

fn at_first_family<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let is_all = matches!(address, SocketAddr::V6(address) if address.ip().is_unspecified());
    match bind(address) {
        // Retrying with IPv4 does not help if the port is in use or not permitted.
        Err(error)
            if is_all
                && !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied) =>
        {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // Overrides net.ipv6.bindv6only.
        socket.set_only_v6(false)?;
    }
    // A previous run's connections in TIME_WAIT must not prevent binding after a restart.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn without_ipv6_all_addresses_are_those_of_ipv4() {
        let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 80));
        let one = SocketAddr::from((Ipv6Addr::LOCALHOST, 80));
        let fails = |kind: io::ErrorKind| {
            move |address: SocketAddr| if address.is_ipv6() { Err(kind.into()) } else { Ok(address) }
        };
        let bound = at_first_family(all, fails(io::ErrorKind::Unsupported));
        assert_eq!(bound.expect("IPv4"), "0.0.0.0:80".parse().expect("an address"));
        // A single address has no fallback, and a port in use is not retried with IPv4.
        assert!(at_first_family(one, fails(io::ErrorKind::Unsupported)).is_err());
        assert!(at_first_family(all, fails(io::ErrorKind::AddrInUse)).is_err());
    }
}
