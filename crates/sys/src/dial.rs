//! Client and server sockets of any user, and TCP sockets for a proxy. Client packets have a TTL of 1, which reaches every
//! address of this machine and no host behind the first router.

use super::{namespace, user::OwnerIds, wait};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{
    self, AddressFamily, Backlog, MsgFlags, SockFlag, SockType, SockaddrIn, SockaddrIn6, SockaddrStorage,
    getpeername, getsockname, getsockopt, setsockopt, sockopt,
};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use nix::{errno::Errno, libc};
use rules::Protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::{io, time::Duration};

/// TTL of packets that no rule redirects: they reach the next machine, which does not forward them.
const HOPS: i32 = 1;
/// Number of source ports that `is_fresh` may refuse.
const MAX_PORTS: u32 = 32;
/// An invalid ID, for which `setfsuid(2)` only returns the current one.
const NO_ID: u32 = u32::MAX;

/// A client socket: non-blocking, and reset instead of closed when it is dropped.
#[derive(Debug)]
pub struct DialedSocket {
    socket: OwnedFd,
    protocol: Protocol,
}

#[derive(Debug, thiserror::Error)]
pub enum NoCall {
    #[error("needs CAP_SETUID and CAP_SETGID to call as user {uid} and group {gid}")]
    Owner { uid: u32, gid: u32 },
    #[error(
        "needs user {uid} and group {gid} to be mapped in the user namespace that owns the network namespace"
    )]
    Unmapped { uid: u32, gid: u32 },
    #[error(transparent)]
    Refused(#[from] io::Error),
}

impl NoCall {
    /// True if a rule in the output hook dropped the packet (EPERM). EACCES would mean a `prohibit` route.
    pub fn is_dropped(&self) -> bool {
        matches!(self, Self::Refused(error) if error.raw_os_error() == Some(libc::EPERM))
    }
}

/// Connects without waiting for an answer. `owner` has the numbers used in rules; `is_fresh` may refuse a source port.
pub fn call(
    protocol: Protocol,
    owner: (u32, u32),
    from: Option<IpAddr>,
    to: SocketAddr,
    mut is_fresh: impl FnMut(u16) -> bool,
) -> Result<DialedSocket, NoCall> {
    let kind = match protocol {
        Protocol::Tcp => SockType::Stream,
        Protocol::Udp => SockType::Datagram,
    };
    let any = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = SockaddrStorage::from(SocketAddr::new(from.unwrap_or(any), 0));
    let mut tries = 0..MAX_PORTS;
    let socket = loop {
        let socket = owned(owner, || new(to, kind))??;
        socket::bind(socket.as_raw_fd(), &from).map_err(io::Error::from)?;
        if is_fresh(local(&socket)?.port()) || tries.next().is_none() {
            break socket;
        }
    };
    match to {
        SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4Ttl, &HOPS),
        SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6Ttl, &HOPS),
    }
    .map_err(io::Error::from)?;
    let connected = socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to));
    match connected {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        // The socket reports an immediate refusal again.
        Err(Errno::ECONNREFUSED) if protocol == Protocol::Tcp => {}
        Err(error) => return Err(io::Error::from(error).into()),
    }
    if protocol == Protocol::Tcp {
        reset_at_end(&socket);
    }
    Ok(DialedSocket { socket, protocol })
}

pub(super) fn new(family_of: SocketAddr, kind: SockType) -> io::Result<OwnedFd> {
    let family = if family_of.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    Ok(socket::socket(family, kind, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?)
}

fn local(socket: &impl AsFd) -> io::Result<SocketAddr> {
    let address: SockaddrStorage = getsockname(socket.as_fd().as_raw_fd())?;
    let v4 = address.as_sockaddr_in().map(|address| SocketAddr::from(*address));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| (*address).into()))
        .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// User and group of this thread's sockets, in the numbers used in rules.
pub fn owner() -> (u32, u32) {
    let (ids, (uid, gid)) = (OwnerIds::here(), own());
    (ids.user_in_rules(uid), ids.group_in_rules(gid))
}

/// File system user and group in our numbers: rules match the credentials that opened the file.
fn own() -> (u32, u32) {
    (setfsuid(Uid::from_raw(NO_ID)).as_raw(), setfsgid(Gid::from_raw(NO_ID)).as_raw())
}

/// Runs `work` as the user and group with these numbers in rules, on a new thread if they differ from the caller's.
fn owned<T: Send>((uid, gid): (u32, u32), work: impl FnOnce() -> T + Send) -> Result<T, NoCall> {
    if owner() == (uid, gid) {
        return Ok(work());
    }
    let ours = OwnerIds::here().ours((uid, gid)).ok_or(NoCall::Unmapped { uid, gid })?;
    namespace::on_new_thread(|| {
        setfsgid(Gid::from_raw(ours.1));
        setfsuid(Uid::from_raw(ours.0));
        if own() == ours { Ok(work()) } else { Err(NoCall::Owner { uid, gid }) }
    })
}

impl DialedSocket {
    pub fn local(&self) -> io::Result<SocketAddr> {
        local(&self.socket)
    }

    /// True once the TCP handshake is complete; always false for datagrams.
    pub fn is_connected(&self) -> bool {
        let peer = getpeername::<SockaddrStorage>(self.socket.as_raw_fd());
        self.protocol == Protocol::Tcp && peer.is_ok()
    }

    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(socket::send(self.socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)?)
    }

    pub fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        Ok(socket::recv(self.socket.as_raw_fd(), room, MsgFlags::empty())?)
    }

    /// The pending network error, such as connection refused or no route. Reading it clears it.
    pub fn take_error(&self) -> Option<io::Error> {
        let error = getsockopt(&self.socket, sockopt::SocketError).ok().filter(|error| *error != 0)?;
        Some(io::Error::from_raw_os_error(error))
    }
}

/// Listens for connections without blocking, for one family only. A transparent listener may use a foreign address.
pub fn listen(address: SocketAddr, transparent: bool) -> io::Result<TcpListener> {
    let socket = new(address, SockType::Stream)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    if address.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    }
    if transparent {
        setsockopt(&socket, sockopt::IpTransparent, &true)?;
    }
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    // Maximum backlog that the machine allows; C libraries differ in their constant for it.
    socket::listen(&socket, Backlog::MAXALLOWABLE)?;
    Ok(socket.into())
}

pub fn receive(owner: (u32, u32), address: SocketAddr) -> Result<UdpSocket, NoCall> {
    let socket = owned(owner, || UdpSocket::bind(address))??;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Original destination of an accepted connection (`SO_ORIGINAL_DST`); `None` if conntrack has no entry for it.
pub fn original_destination(stream: &TcpStream) -> Option<SocketAddr> {
    match stream.local_addr().ok()? {
        SocketAddr::V4(_) => {
            getsockopt(stream, sockopt::OriginalDst).ok().map(|raw| SockaddrIn::from(raw).into())
        }
        SocketAddr::V6(_) => {
            getsockopt(stream, sockopt::Ip6tOriginalDst).ok().map(|raw| SockaddrIn6::from(raw).into())
        }
    }
}

pub fn destination_or_own(stream: &TcpStream) -> io::Result<SocketAddr> {
    original_destination(stream).map_or_else(|| stream.local_addr(), Ok)
}

#[derive(Clone, Copy, Debug, Default)]
pub struct CallSource {
    /// Source address; port 0 lets the kernel choose the port.
    pub address: Option<SocketAddr>,
    /// Mark of a transparent socket, whose source address may be foreign. Needs `CAP_NET_ADMIN`.
    pub transparent: Option<u32>,
}

/// Marks all packets of a socket (`SO_MARK` in `socket(7)`). Needs `CAP_NET_ADMIN`.
pub fn mark(socket: &impl AsFd, mark: u32) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::Mark, &mark)?)
}

pub fn connect(from: CallSource, to: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket = new(to, SockType::Stream)?;
    if let Some(mark) = from.transparent {
        setsockopt(&socket, sockopt::IpTransparent, &true)?;
        setsockopt(&socket, sockopt::Mark, &mark)?;
    }
    if let Some(address) = from.address {
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    }
    let stream = TcpStream::from(socket);
    match socket::connect(stream.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) => {}
        Err(Errno::EINPROGRESS) => connected(&stream, timeout)?,
        Err(error) => return Err(error.into()),
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn connected(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    let mut polled = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
    loop {
        match poll(&mut polled, wait::timeout(timeout)) {
            Err(Errno::EINTR) => {}
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            other => {
                other?;
                return stream.take_error()?.map_or(Ok(()), Err);
            }
        }
    }
}

pub fn reset_at_end(stream: &impl AsFd) {
    let _ = setsockopt(stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
}
