//! Proof by real connections that capture works: what `--run-validation` asks for.
//!
//! A connection to a port where nobody listens, made as the proxy's user over loopback, must arrive at one
//! of the proxy's ports with its original destination known to the kernel.

use nix::{
    sys::{
        socket::{
            self, AddressFamily, SockFlag, SockType, SockaddrStorage, bind, getsockopt, setsockopt, socket,
            sockopt,
        },
        time::{TimeVal, TimeValLike},
    },
    unistd::{Gid, Uid, setfsgid, setfsuid},
};
use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    thread,
    time::{Duration, Instant},
};

/// What to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validate {
    /// Ports that captured connections may arrive at.
    pub listeners: Vec<u16>,
    /// The port that is dialled.
    pub probe_port: u16,
    /// User and group of the dialling socket: the proxy's, whose calls to the pod itself are captured.
    pub owner: (u32, u32),
    /// The addresses that are dialled: those from which the proxy calls the application, so that no rule but the proxy's
    /// own captures the call. IPv6 has to work where it is given.
    pub passthrough: (Ipv4Addr, Option<Ipv6Addr>),
    /// How long to try each family.
    pub timeout: Duration,
}

/// Why capture counts as not working.
#[derive(Debug, thiserror::Error)]
pub enum Unproven {
    /// No listener could be set up.
    #[error("can't listen on {address}; is the proxy already running?")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Nothing arrived.
    #[error(
        "no connection to {destination} arrived at the proxy's ports within {timeout:?}; traffic of this pod is \
         not captured. Where a CNI plugin sets the rules, the pod may have started before the node was ready: \
         delete the pod"
    )]
    Nothing {
        /// What was dialled.
        destination: SocketAddr,
        /// For how long.
        timeout: Duration,
    },
}

/// Between two attempts, and between two looks at the listeners.
const RETRY: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);

/// Tries each family.
///
/// # Errors
/// When one of them is not captured.
pub fn validate(what: &Validate) -> Result<(), Unproven> {
    let (v4, v6) = what.passthrough;
    prove(what, Ipv4Addr::LOCALHOST.into(), v4.into())?;
    if let Some(v6) = v6 {
        prove(what, Ipv6Addr::LOCALHOST.into(), v6.into())?;
    }
    Ok(())
}

fn prove(what: &Validate, loopback: IpAddr, to: IpAddr) -> Result<(), Unproven> {
    let listeners: Vec<TcpListener> = what
        .listeners
        .iter()
        .map(|&port| listen(SocketAddr::new(loopback, port)))
        .collect::<Result<_, _>>()?;
    let destination = SocketAddr::new(to, what.probe_port);
    let deadline = Instant::now() + what.timeout;
    while Instant::now() < deadline {
        let wait = RETRY.min(deadline.saturating_duration_since(Instant::now()));
        let round = Instant::now() + wait;
        let proven = thread::scope(|scope| {
            scope.spawn(|| dial(what.owner, loopback, destination, wait));
            while Instant::now() < round {
                if listeners.iter().any(|listener| arrived(listener, what.probe_port)) {
                    return true;
                }
                thread::sleep(LOOK);
            }
            false
        });
        if proven {
            return Ok(());
        }
    }
    Err(Unproven::Nothing { destination, timeout: what.timeout })
}

fn listen(address: SocketAddr) -> Result<TcpListener, Unproven> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|source| Unproven::Listen { address, source })
}

/// Dials from a thread of its own, whose file system ids are the proxy's: the kernel's owner match looks at
/// them, as they were when the socket was made. Without the right to change them, the caller's own count.
fn dial((uid, gid): (u32, u32), from: IpAddr, to: SocketAddr, timeout: Duration) {
    setfsgid(Gid::from_raw(gid));
    setfsuid(Uid::from_raw(uid));
    if let Err(error) = connect(SocketAddr::new(from, 0), to, timeout) {
        tracing::debug!(target: "validation", %to, %error, "not connected");
    }
}

/// Connects from a given address. Left to itself, the kernel would call a local address from that same
/// address, and what comes from these is not captured.
fn connect(from: SocketAddr, to: SocketAddr, timeout: Duration) -> nix::Result<()> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let caller = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // The kernel rounds a timeout of 0 up to none at all.
    let milliseconds = i64::try_from(timeout.max(LOOK).as_millis()).unwrap_or(i64::MAX);
    let timeout = TimeVal::milliseconds(milliseconds);
    setsockopt(&caller, sockopt::SendTimeout, &timeout)?;
    bind(caller.as_raw_fd(), &SockaddrStorage::from(from))?;
    socket::connect(caller.as_raw_fd(), &SockaddrStorage::from(to))
}

/// Whether a connection waits that was redirected from `port`.
fn arrived(listener: &TcpListener, port: u16) -> bool {
    match listener.accept() {
        Ok((stream, _)) => original_port(&stream) == Some(port),
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => {
            tracing::debug!(target: "validation", %error, "not accepted");
            false
        }
    }
}

fn original_port(stream: &TcpStream) -> Option<u16> {
    match stream.local_addr().ok()? {
        SocketAddr::V4(_) => {
            getsockopt(stream, sockopt::OriginalDst).ok().map(|address| u16::from_be(address.sin_port))
        }
        SocketAddr::V6(_) => {
            getsockopt(stream, sockopt::Ip6tOriginalDst).ok().map(|address| u16::from_be(address.sin6_port))
        }
    }
}
