//! Packets and their destinations: sockets at every possible destination, in the pod and outside. A packet's number is data in
//! its TCP SYN (TCP Fast Open without cookies, RFC 7413), so a listener reads it as soon as the SYN arrives, regardless of the
//! answer. Many packets are in flight at once.

use crate::support::namespace::Namespace;
use crate::support::setting::Family;
use crate::support::traffic::{Identity, Protocol, assume};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrIn6, SockaddrStorage,
    bind, connect, getsockname, listen, recv, recvmsg, send, sendto, setsockopt, socket, sockopt,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) protocol: Protocol,
    pub(crate) is_inbound: bool,
    pub(crate) identity: Identity,
    pub(crate) mark: u32,
    pub(crate) from: Option<IpAddr>,
    pub(crate) to: SocketAddr,
}

impl Packet {
    pub(crate) fn family(&self) -> Family {
        if self.to.is_ipv4() { Family::V4 } else { Family::V6 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Landing {
    pub(crate) is_in_pod: bool,
    pub(crate) listener: u16,
    pub(crate) at: SocketAddr,
}

/// A sent packet; its socket keeps the port from being reused.
pub(crate) struct Sent {
    number: u64,
    pub(crate) source: SocketAddr,
    _socket: OwnedFd,
}

struct Ear {
    socket: Socket,
    is_in_pod: bool,
    port: u16,
}

enum Socket {
    Tcp(TcpListener),
    Udp(OwnedFd),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

pub(crate) struct Ears {
    ears: Vec<Ear>,
    /// Connections whose number has not arrived yet.
    silent: Vec<(TcpStream, Landing)>,
    heard: BTreeMap<u64, BTreeSet<Landing>>,
    sent: u64,
}

impl Ears {
    pub(crate) fn new() -> Self {
        Self { ears: Vec::new(), silent: Vec::new(), heard: BTreeMap::new(), sent: 0 }
    }

    /// Listens on a port at all addresses, over both protocols and families.
    pub(crate) fn open(
        &mut self,
        home: &Namespace,
        is_in_pod: bool,
        port: u16,
        owner: Identity,
        is_transparent: bool,
    ) {
        let opened = home.run(|| {
            assume(owner);
            [Protocol::Tcp, Protocol::Udp].map(|protocol| (protocol, ear(protocol, port, is_transparent)))
        });
        for (protocol, socket) in opened {
            let socket =
                socket.unwrap_or_else(|error| panic!("listening on port {port} ({protocol:?}): {error}"));
            let socket = match protocol {
                Protocol::Tcp => Socket::Tcp(socket.into()),
                Protocol::Udp => Socket::Udp(socket),
            };
            self.ears.push(Ear { socket, is_in_pod, port });
        }
    }

    /// Sends packets from a namespace; `None` for a packet that the kernel refuses before any rule.
    pub(crate) fn send(&mut self, home: &Namespace, packets: &[&Packet]) -> Vec<Option<Sent>> {
        let first = self.sent;
        self.sent += packets.len() as u64;
        home.run(|| {
            let numbered = packets.iter().zip(first..);
            numbered.map(|(packet, number)| out(packet, number).ok()).collect()
        })
    }

    pub(crate) fn settle(&mut self, quiet: Duration) {
        let deadline = Instant::now() + quiet * 20;
        while Instant::now() < deadline && self.receive(quiet) {}
    }

    pub(crate) fn landings(&self, sent: &Sent) -> Vec<Landing> {
        self.heard.get(&sent.number).into_iter().flatten().copied().collect()
    }

    /// Reads arrivals; returns false if none comes in time.
    fn receive(&mut self, quiet: Duration) -> bool {
        let ears = self.ears.iter().map(|ear| ear.socket.as_fd());
        let sockets = ears.chain(self.silent.iter().map(|(stream, _)| stream.as_fd()));
        let mut requested: Vec<PollFd<'_>> =
            sockets.map(|socket| PollFd::new(socket, PollFlags::POLLIN)).collect();
        let timeout = PollTimeout::try_from(quiet).expect("a short time");
        if poll(&mut requested, timeout).expect("sockets can be polled") == 0 {
            return false;
        }
        let (mut connected, mut received) = (std::mem::take(&mut self.silent), Vec::new());
        for ear in &self.ears {
            match &ear.socket {
                Socket::Tcp(listener) => connected.extend(connections(listener, ear)),
                Socket::Udp(socket) => received.extend(datagrams(socket, ear)),
            }
        }
        for (stream, landing) in connected {
            self.connected(stream, landing);
        }
        received.into_iter().for_each(|(number, landing)| self.note(number, landing));
        true
    }

    fn connected(&mut self, stream: TcpStream, landing: Landing) {
        let mut number = [0; size_of::<u64>()];
        match recv(stream.as_raw_fd(), &mut number, MsgFlags::MSG_DONTWAIT) {
            Ok(length) if length == number.len() => self.note(number, landing),
            Err(nix::errno::Errno::EAGAIN) => self.silent.push((stream, landing)),
            Ok(_) | Err(_) => {}
        }
    }

    fn note(&mut self, number: [u8; 8], landing: Landing) {
        self.heard.entry(u64::from_be_bytes(number)).or_default().insert(landing);
    }
}

fn connections(listener: &TcpListener, ear: &Ear) -> Vec<(TcpStream, Landing)> {
    let mut found = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        let Ok(at) = stream.local_addr() else { continue };
        let at = SocketAddr::new(at.ip().to_canonical(), at.port());
        found.push((stream, Landing { is_in_pod: ear.is_in_pod, listener: ear.port, at }));
    }
    found
}

fn datagrams(socket: &OwnedFd, ear: &Ear) -> Vec<([u8; 8], Landing)> {
    let mut found = Vec::new();
    loop {
        let mut number = [0; size_of::<u64>()];
        let mut parts = [IoSliceMut::new(&mut number)];
        let mut space = nix::cmsg_space!(libc::in6_pktinfo);
        let flags = MsgFlags::MSG_DONTWAIT;
        let Ok(received) = recvmsg::<SockaddrIn6>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)
        else {
            return found;
        };
        let to = received.cmsgs().ok().and_then(|mut messages| {
            messages.find_map(|message| match message {
                ControlMessageOwned::Ipv6PacketInfo(info) => Some(info.ipi6_addr.s6_addr),
                _ => None,
            })
        });
        let Some(to) = to else { continue };
        let at = SocketAddr::new(IpAddr::from(Ipv6Addr::from(to)).to_canonical(), ear.port);
        found.push((number, Landing { is_in_pod: ear.is_in_pod, listener: ear.port, at }));
    }
}

fn ear(protocol: Protocol, port: u16, is_transparent: bool) -> nix::Result<OwnedFd> {
    let socket = open(AddressFamily::Inet6, protocol)?;
    setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
    setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
    if is_transparent {
        setsockopt(&socket, sockopt::IpTransparent, &true)?;
    }
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    bind(socket.as_raw_fd(), &SockaddrStorage::from(any))?;
    if protocol == Protocol::Tcp {
        listen(&socket, Backlog::new(1_000)?)?;
    }
    Ok(socket)
}

fn out(packet: &Packet, number: u64) -> nix::Result<Sent> {
    assume(packet.identity);
    let family = if packet.to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = open(family, packet.protocol)?;
    if packet.mark != 0 {
        setsockopt(&socket, sockopt::Mark, &packet.mark)?;
    }
    if let Some(from) = packet.from {
        bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)))?;
    }
    let (to, data) = (SockaddrStorage::from(packet.to), number.to_be_bytes());
    let fd = socket.as_raw_fd();
    match packet.protocol {
        // Neither a missing answer nor a drop by a rule is an error here.
        Protocol::Tcp => {
            let _ = sendto(fd, &data, &to, MsgFlags::from_bits_retain(libc::MSG_FASTOPEN));
        }
        Protocol::Udp => {
            connect(fd, &to)?;
            let _ = send(fd, &data, MsgFlags::empty());
        }
    }
    let source = address(&getsockname::<SockaddrStorage>(fd)?).filter(|source| source.port() != 0);
    let source = source.filter(|source| !source.ip().is_unspecified()).ok_or(nix::errno::Errno::ENOTCONN)?;
    Ok(Sent { number, source, _socket: socket })
}

fn open(family: AddressFamily, protocol: Protocol) -> nix::Result<OwnedFd> {
    let kind = match protocol {
        Protocol::Tcp => SockType::Stream,
        Protocol::Udp => SockType::Datagram,
    };
    socket(family, kind, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::from(*v4));
    let address = v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::from(*v6)))?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}
