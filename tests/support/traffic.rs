//! Real connections and datagrams: listeners that write down what reached them, and clients of any user and
//! group.
//!
//! The kernel's owner match reads the filesystem uid and gid that a socket was created with. Those are per
//! thread, so a client sets them on its own thread: no process is started, nothing else in the test changes
//! its identity.
//!
//! Time limits bound a failing test; no test depends on how fast something happens. A listener notes an
//! arrival before it answers, so a client that has its answer can be sure that the arrival is there to be
//! read.

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
/// A question after which another may follow: the listener closes the connection behind any other.
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

/// What a listener saw of one connection or datagram; `listener` is the name it was started with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Arrival<Name> {
    pub(crate) listener: Name,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// `SO_ORIGINAL_DST`: none for UDP, and none where the connection is not tracked.
    pub(crate) original: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    pub(crate) protocol: Protocol,
    pub(crate) address: SocketAddr,
    pub(crate) owner: Identity,
}

/// Listens until it is dropped.
pub(crate) struct Listener {
    socket: OwnedFd,
    worker: Option<JoinHandle<()>>,
}

impl Listener {
    /// The socket is bound when this returns.
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
            // A connection that is accepted belongs to whoever accepts it.
            assume(owner);
            match protocol {
                Protocol::Tcp => serve_tcp(&served.into(), name, &arrivals),
                Protocol::Udp => serve_udp(&served.into(), address, name, &arrivals),
            }
        });
        Listener { socket, worker: Some(worker) }
    }

    /// Lets the socket stand for addresses that the host does not have, as the target of TPROXY has to.
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
            // Whoever waits for the answer reports a failure better than this thread could.
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

/// What a socket with a time limit receives. A child of another test that ends while its thread starts the next one signals
/// any thread, and on such a socket the kernel does not go on by itself.
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
    /// The address to call from, if the kernel is not to choose; port 0 leaves the port to the kernel.
    pub(crate) from: Option<SocketAddr>,
    /// `SO_MARK`. Marked calls may come from addresses that the host does not have.
    pub(crate) mark: Option<u32>,
    pub(crate) to: SocketAddr,
}

impl Call {
    /// Places the call from inside `namespace`; returns the address that it was made from once it is
    /// answered.
    pub(crate) fn place(&self, namespace: &Namespace) -> io::Result<SocketAddr> {
        let mut exchange = File::from(self.open(namespace)?);
        let from = getsockname::<SockaddrStorage>(exchange.as_raw_fd())?;
        exchange.write_all(QUESTION)?;
        exchange.read_exact(&mut [0; ANSWER.len()])?;
        Ok(socket_address(&from))
    }

    /// A connected socket inside `namespace`, over which nothing was said yet.
    pub(crate) fn open(&self, namespace: &Namespace) -> io::Result<OwnedFd> {
        namespace.run(|| {
            assume(self.identity);
            self.connect()
        })
    }

    /// The same for the user and in the namespace of this thread.
    ///
    /// An address that an earlier call has just left is waited for: that call may still wait for its last acknowledgment, and
    /// another test that starts a program at this moment has a copy of its descriptor between fork and exec.
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
        // With a time limit the kernel does not go on by itself where a signal interrupts; a second call does.
        loop {
            match connect(socket.as_raw_fd(), &SockaddrStorage::from(self.to)) {
                Err(Errno::EINTR) => {}
                connected => return connected.map(|()| socket),
            }
        }
    }
}

/// Makes the sockets that this thread creates from now on belong to `identity`.
pub(crate) fn assume(identity: Identity) {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    setfsgid(gid);
    setfsuid(uid);
    // The calls never report a failure, but they return the value that was in force.
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
