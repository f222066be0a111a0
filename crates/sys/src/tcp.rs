//! TCP sockets as a proxy needs them: the original destination of a connection, listening for addresses of other machines,
//! a source address and mark of choice, and a reset.

use super::dial;
pub use super::dial::listen;
use nix::{
    errno::Errno,
    libc::linger,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{SockType, SockaddrStorage, bind, connect, setsockopt, sockopt},
};
use std::{
    io,
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

/// The original destination of an accepted connection: without a redirect, the address that accepted it.
pub fn original_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    // Without conntrack, nothing was redirected.
    dial::original_destination(stream).map_or_else(|| stream.local_addr(), Ok)
}

/// How a connection is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct From {
    /// From which address; port 0 leaves the port to the kernel.
    pub address: Option<SocketAddr>,
    /// With which mark; such a connection may come from an address that is not ours (`CAP_NET_ADMIN`).
    pub transparent: Option<u32>,
}

/// Marks all that a socket sends (`SO_MARK` in `socket(7)`).
///
/// # Errors
/// When we may not (`CAP_NET_ADMIN`).
pub fn mark(socket: &impl AsFd, mark: u32) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::Mark, &mark)?)
}

/// Connects, for as long as `timeout`.
///
/// # Errors
/// When there is no answer, or the kernel refuses.
pub fn call(from: From, to: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket = dial::new(to, SockType::Stream)?;
    if let Some(mark) = from.transparent {
        setsockopt(&socket, sockopt::IpTransparent, &true)?;
        setsockopt(&socket, sockopt::Mark, &mark)?;
    }
    if let Some(address) = from.address {
        bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    }
    let stream = TcpStream::from(socket);
    match connect(stream.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) => {}
        Err(Errno::EINPROGRESS) => wait(&stream, timeout)?,
        Err(error) => return Err(error.into()),
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn wait(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    let mut polled = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
    loop {
        match poll(&mut polled, timeout) {
            Err(Errno::EINTR) => {}
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            other => {
                other?;
                return stream.take_error()?.map_or(Ok(()), Err);
            }
        }
    }
}

/// Lets the connection end with a reset when it is closed, whatever is on its way.
pub fn reset_at_end(stream: &TcpStream) {
    // Else it ends as others do.
    let _ = setsockopt(stream, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 });
}
