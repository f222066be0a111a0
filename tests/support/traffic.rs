//! Real connections and datagrams: listeners that record arrivals, and clients of any user and group. The kernel's owner match
//! reads the filesystem uid and gid that a socket was created with. Those are per thread, so a client sets them on its own
//! thread: no process is started, and the rest of the test keeps its identity. Time limits bound a failing test; no test depends
//! on speed. A listener records an arrival before it answers, so an answered client can read it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Shutdown, SockFlag, SockType, SockaddrIn, SockaddrIn6, SockaddrStorage, bind, connect,
    getsockname, getsockopt, setsockopt, shutdown, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};

use super::namespace::Namespace;
use super::wait::TIMEOUT;

const QUESTION: &[u8] = b"?";
/// A question with more to follow: after any other, the listener closes the connection.
pub(crate) const QUESTION_OF_MORE: &[u8] = b"+";
const ANSWER: &[u8] = b"!";

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A connection or datagram as seen by a listener; `listener` is the name it was started with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Arrival<Name> {
    pub(crate) listener: Name,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// `SO_ORIGINAL_DST`: `None` for UDP and for untracked connections.
    pub(crate) original: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    pub(crate) protocol: Protocol,
    pub(crate) address: SocketAddr,
    pub(crate) owner: Identity,
}

pub(crate) struct Listener {
    socket: OwnedFd,
    worker: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts the listener; the socket is bound on return.
    pub(crate) fn start<Name: Copy + Send + 'static>(
        namespace: &Namespace,
        Socket { protocol, address, owner }: Socket,
        name: Name,
        arrivals: Sender<Arrival<Name>>,
    ) -> Listener {
        let bind = || {
            assume(owner);
            Ok(match protocol {
                Protocol::Tcp => OwnedFd::from(TcpListener::bind(address)?),
                Protocol::Udp => OwnedFd::from(UdpSocket::bind(address)?),
            })
        };
        let socket = namespace.run(bind).unwrap_or_else(|error: io::Error| {
            panic!("listening at {address} ({protocol:?}) failed: {error}")
        });
        let served = socket.try_clone().expect("a descriptor is free");
        let worker = thread::spawn(move || {
            // An accepted connection belongs to the accepting thread's identity.
            assume(owner);
            match protocol {
                Protocol::Tcp => serve_tcp(&served.into(), name, &arrivals),
                Protocol::Udp => serve_udp(&served.into(), address, name, &arrivals),
            }
        });
        Listener { socket, worker: Some(worker) }
    }

    /// Lets the socket accept foreign destination addresses, as the target of TPROXY must.
    pub(crate) fn make_transparent(&self) {
        setsockopt(&self.socket, sockopt::IpTransparent, &true)
            .unwrap_or_else(|error| panic!("IP_TRANSPARENT failed ({error}): CAP_NET_ADMIN is needed"));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // On a UDP socket this wakes the reader although it reports ENOTCONN.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn serve_tcp<Name: Copy + Send>(socket: &TcpListener, name: Name, arrivals: &Sender<Arrival<Name>>) {
    thread::scope(|scope| {
        while let Ok((stream, peer)) = socket.accept() {
            scope.spawn(move || answer(&stream, peer, name, arrivals));
        }
    });
}

fn answer<Name>(
    mut stream: &TcpStream,
    peer: SocketAddr,
    name: Name,
    arrivals: &Sender<Arrival<Name>>,
) -> io::Result<()> {
    let local = stream.local_addr()?;
    let original = original_destination(stream, local);
    let _ = arrivals.send(Arrival { listener: name, peer, local, original });
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut question = [0; QUESTION.len()];
    loop {
        stream.read_exact(&mut question)?;
        stream.write_all(ANSWER)?;
        if question != QUESTION_OF_MORE {
            return Ok(());
        }
    }
}

fn serve_udp<Name: Copy>(
    socket: &UdpSocket,
    address: SocketAddr,
    name: Name,
    arrivals: &Sender<Arrival<Name>>,
) {
    let mut question = [0; QUESTION.len()];
    // A socket that is shut down reads as an empty datagram.
    while let Ok((1.., peer)) = socket.recv_from(&mut question) {
        let _ = arrivals.send(Arrival { listener: name, peer, local: address, original: None });
        let _ = socket.send_to(ANSWER, peer);
    }
}

/// Receives from a socket with a time limit. The end of another test's child may signal this thread, and with a time limit the
/// kernel does not resume the call by itself.
pub(crate) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.recv(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

fn original_destination(stream: &TcpStream, local: SocketAddr) -> Option<SocketAddr> {
    if local.is_ipv4() {
        getsockopt(stream, sockopt::OriginalDst).ok().map(|raw| SockaddrIn::from(raw).into())
    } else {
        getsockopt(stream, sockopt::Ip6tOriginalDst).ok().map(|raw| SockaddrIn6::from(raw).into())
    }
}

/// One question to `to`, waiting for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) protocol: Protocol,
    pub(crate) identity: Identity,
    /// Source address, unless the kernel chooses it; with port 0 the kernel chooses the port.
    pub(crate) from: Option<SocketAddr>,
    /// `SO_MARK`. Marked calls may use source addresses that are not local.
    pub(crate) mark: Option<u32>,
    pub(crate) to: SocketAddr,
}

impl Call {
    /// Makes the call in `namespace`; returns its source address once it is answered.
    pub(crate) fn place(&self, namespace: &Namespace) -> io::Result<SocketAddr> {
        let mut exchange = File::from(self.open(namespace)?);
        let from = getsockname::<SockaddrStorage>(exchange.as_raw_fd())?;
        exchange.write_all(QUESTION)?;
        exchange.read_exact(&mut [0; ANSWER.len()])?;
        Ok(socket_address(&from))
    }

    /// A connected socket in `namespace`, without data sent yet.
    pub(crate) fn open(&self, namespace: &Namespace) -> io::Result<OwnedFd> {
        namespace.run(|| {
            assume(self.identity);
            self.connect()
        })
    }

    /// Connects with the user and the namespace of this thread. Waits for a source address that an earlier call has just left:
    /// that call may still wait for its last acknowledgment, and a program started by another test has a copy of its descriptor
    /// between fork and exec.
    pub(crate) fn connect(&self) -> io::Result<OwnedFd> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.try_to_connect() {
                Err(Errno::EADDRINUSE | Errno::EADDRNOTAVAIL) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(1));
                }
                connected => return Ok(connected?),
            }
        }
    }

    fn try_to_connect(&self) -> nix::Result<OwnedFd> {
        let family = if self.to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let kind = match self.protocol {
            Protocol::Tcp => SockType::Stream,
            Protocol::Udp => SockType::Datagram,
        };
        let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
        let limit = TimeVal::seconds(TIMEOUT.as_secs().cast_signed());
        setsockopt(&socket, sockopt::SendTimeout, &limit)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &limit)?;
        if let Some(mark) = self.mark {
            setsockopt(&socket, sockopt::Mark, &mark)?;
            setsockopt(&socket, sockopt::IpTransparent, &true)?;
        }
        if let Some(from) = self.from {
            // The last connection from there may be in TIME_WAIT.
            setsockopt(&socket, sockopt::ReuseAddr, &(self.protocol == Protocol::Tcp))?;
            bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
        }
        // With a time limit, the kernel does not resume the call after a signal; a second call does.
        loop {
            match connect(socket.as_raw_fd(), &SockaddrStorage::from(self.to)) {
                Err(Errno::EINTR) => {}
                connected => return connected.map(|()| socket),
            }
        }
    }
}

/// Sets the owner of the sockets that this thread creates from now on.
pub(crate) fn assume(identity: Identity) {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    setfsgid(gid);
    setfsuid(uid);
    // The calls never report a failure, but they return the previous value.
    assert_eq!(
        (setfsuid(uid), setfsgid(gid)),
        (uid, gid),
        "acting as {identity:?} failed: CAP_SETUID and CAP_SETGID are needed"
    );
}

fn socket_address(storage: &SockaddrStorage) -> SocketAddr {
    match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
        (Some(v4), _) => (*v4).into(),
        (None, Some(v6)) => (*v6).into(),
        (None, None) => panic!("{storage} is not an internet address"),
    }
}
