//! A minimal ztunnel: it listens on the redirect ports, reports each connection, and passes it on from a marked socket, inbound
//! from the client's address over `lo`.

use crate::support::namespace::Namespace;
use crate::support::traffic::{Call, Identity, Protocol};
use crate::support::wait::TIMEOUT;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, Backlog, Shutdown, SockFlag, SockType, SockaddrIn, SockaddrIn6, SockaddrStorage, bind,
    getsockopt, listen, setsockopt, shutdown, socket, sockopt,
};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

pub(crate) const MARK: u32 = 0x539;

const ROOT: Identity = Identity { uid: 0, gid: 0 };

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum At {
    Outbound = 15001,
    Inbound = 15006,
    Tunnel = 15008,
    Dns = 15053,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Given {
    pub(crate) at: At,
    pub(crate) from: IpAddr,
    /// `None` for UDP queries.
    pub(crate) to: Option<SocketAddr>,
}

pub(crate) struct Ztunnel {
    sockets: Vec<OwnedFd>,
    workers: Vec<JoinHandle<()>>,
}

impl Ztunnel {
    pub(crate) fn start(pod: &Namespace, is_ipv6: bool, given: &Sender<Given>) -> Ztunnel {
        let any: IpAddr = if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let mut ztunnel = Ztunnel { sockets: Vec::new(), workers: Vec::new() };
        for at in [At::Outbound, At::Inbound, At::Tunnel, At::Dns] {
            let address = SocketAddr::new(any, at as u16);
            let socket = pod.run(|| listener(address)).unwrap_or_else(|error| panic!("{at:?}: {error}"));
            let served = TcpListener::from(socket.try_clone().expect("a descriptor is free"));
            let (path, given) = (pod.path(), given.clone());
            ztunnel.workers.push(thread::spawn(move || serve(&served, at, &path, &given)));
            ztunnel.sockets.push(socket);
        }
        // An answer must come from the address that the query was redirected to.
        let local: IpAddr = if is_ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let dns = SocketAddr::new(local, At::Dns as u16);
        let socket = pod.run(|| queries(dns)).unwrap_or_else(|error| panic!("DNS by UDP: {error}"));
        let served = UdpSocket::from(socket.try_clone().expect("a descriptor is free"));
        let given = given.clone();
        ztunnel.workers.push(thread::spawn(move || answer_queries(&served, &given)));
        ztunnel.sockets.push(socket);
        ztunnel
    }
}

impl Drop for Ztunnel {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // On a UDP socket this wakes the reader although it reports ENOTCONN.
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

fn marked(address: SocketAddr, kind: SockType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::Mark, &MARK)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    Ok(socket)
}

fn listener(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = marked(address, SockType::Stream)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&socket, Backlog::new(64)?)?;
    Ok(socket)
}

fn queries(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = marked(address, SockType::Datagram)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(socket)
}

fn serve(socket: &TcpListener, at: At, pod: &str, given: &Sender<Given>) {
    let inside = File::open(pod).expect("the pod's namespace");
    setns(&inside, CloneFlags::CLONE_NEWNET).expect("root may enter it");
    while let Ok((client, peer)) = socket.accept() {
        let to = original(&client, peer);
        let _ = given.send(Given { at, from: peer.ip().to_canonical(), to });
        // The caller that waits for the answer reports a failure better than this thread.
        let _ = match (at, to) {
            (At::Outbound, Some(to)) => dial(None, to).and_then(|server| pass_on(&client, &server)),
            (At::Inbound, Some(to)) => dial(Some(peer.ip()), to).and_then(|server| pass_on(&client, &server)),
            _ => answer(&client),
        };
    }
}

/// Connects from a marked socket; inbound, from the client's address, which is not local.
fn dial(from: Option<IpAddr>, to: SocketAddr) -> io::Result<TcpStream> {
    let from = from.map(|from| SocketAddr::new(from, 0));
    let call = Call { protocol: Protocol::Tcp, identity: ROOT, from, mark: Some(MARK), to };
    call.connect().map(TcpStream::from)
}

fn pass_on(mut client: &TcpStream, mut server: &TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(TIMEOUT))?;
    let mut byte = [0];
    client.read_exact(&mut byte)?;
    server.write_all(&byte)?;
    server.read_exact(&mut byte)?;
    client.write_all(&byte)
}

fn answer(mut client: &TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(TIMEOUT))?;
    client.read_exact(&mut [0])?;
    client.write_all(b"!")
}

fn answer_queries(socket: &UdpSocket, given: &Sender<Given>) {
    // A socket that is shut down reads as an empty datagram.
    while let Ok((1.., peer)) = socket.recv_from(&mut [0; 1]) {
        let _ = given.send(Given { at: At::Dns, from: peer.ip().to_canonical(), to: None });
        let _ = socket.send_to(b"!", peer);
    }
}

fn original(stream: &TcpStream, peer: SocketAddr) -> Option<SocketAddr> {
    match peer {
        SocketAddr::V4(_) => {
            getsockopt(stream, sockopt::OriginalDst).ok().map(|raw| SockaddrIn::from(raw).into())
        }
        SocketAddr::V6(_) => {
            getsockopt(stream, sockopt::Ip6tOriginalDst).ok().map(|raw| SockaddrIn6::from(raw).into())
        }
    }
}
