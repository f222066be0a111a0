//! Listening for connections: at one address, or at a port of all addresses, whichever families the machine has.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Connections that may wait to be accepted; the kernel may be configured to take less.
const BACKLOG: i32 = 1024;

/// `[::]` is all addresses of both families, or of IPv4 where the machine has no IPv6. Needs a Tokio runtime.
///
/// # Errors
/// When the address, which `flag` has given, does not belong to this machine, or is in use.
pub fn listen(flag: &str, address: SocketAddr) -> Result<tokio::net::TcpListener, String> {
    at_first_family(address, bind)
        .and_then(tokio::net::TcpListener::from_std)
        .map_err(|error| format!("{flag} {address}: can't listen: {error}"))
}

fn at_first_family<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let is_all = matches!(address, SocketAddr::V6(address) if address.ip().is_unspecified());
    match bind(address) {
        // A port that is in use, or that we may not bind, is so for both families: the other one would not help.
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
        // Whatever net.ipv6.bindv6only says.
        socket.set_only_v6(false)?;
    }
    // Connections of a previous run that are still in TIME_WAIT must not keep a restart from binding.
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
        // A single address has no replacement, and a port in use is not bound for IPv4 alone.
        assert!(at_first_family(one, fails(io::ErrorKind::Unsupported)).is_err());
        assert!(at_first_family(all, fails(io::ErrorKind::AddrInUse)).is_err());
    }
}
