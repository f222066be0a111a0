//! The sockets at which calls may arrive: one at each port that rules may lead to, one at each destination that is this
//! machine's.

use super::{DeliveryPorts, Probe, ProbeTrial, attempt::ProbeAttempt};
use crate::sys::dial::{self, NoCall};
use crate::sys::route_lookup;
use rules::{Family, Protocol, simulate::LOOPBACK};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::{collections::BTreeMap, io};

/// At most so many ports of a range get a listener; for the others conntrack is queried.
const MAX_LISTENERS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DestinationState {
    Elsewhere,
    /// This machine's, and a listener of ours is there.
    Listening,
    /// This machine's, and another process listens there.
    Taken,
    /// This machine's, for datagrams: no listener is opened.
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrivalPoint {
    /// A port that rules lead to.
    Port(u16),
    Destination,
}

struct DatagramListener {
    address: SocketAddr,
    socket: UdpSocket,
    /// True if rules lead its answers back.
    answers: bool,
}

impl DatagramListener {
    /// Opened as the user whose answers rules lead back; if that is not permitted, as our own.
    fn open(owner: (u32, u32), address: SocketAddr) -> Result<Self, NoCall> {
        let (socket, answers) = match dial::receive(owner, address) {
            Err(NoCall::Owner { .. } | NoCall::Unmapped { .. }) => {
                (dial::receive(dial::owner(), address)?, false)
            }
            opened => (opened?, true),
        };
        Ok(Self { address, socket, answers })
    }
}

#[derive(Default)]
pub(super) struct ProbeListeners {
    connections: Vec<(ArrivalPoint, SocketAddr, TcpListener)>,
    datagrams: Vec<DatagramListener>,
    destinations: BTreeMap<SocketAddr, DestinationState>,
    /// Another process has the port of a transparent listener.
    transparent_taken: bool,
    /// Another process has any of the ports.
    taken: bool,
    streams: Vec<TcpStream>,
}

impl ProbeListeners {
    pub(super) fn open(what: &Probe) -> Self {
        let mut all = Self::default();
        for family in Family::BOTH {
            if !what.trials.iter().any(|trial| Family::of(trial.to.ip()) == family) {
                continue;
            }
            for listener in &what.listeners {
                let ports = listener.ports.first().number()..=listener.ports.last().number();
                for port in ports.take(MAX_LISTENERS) {
                    let address = SocketAddr::new(listen_address(family, listener.transparent), port);
                    all.add(listener, address);
                }
            }
        }
        all
    }

    fn add(&mut self, listener: &DeliveryPorts, address: SocketAddr) {
        let DeliveryPorts { protocol, transparent, owner, .. } = *listener;
        let opened = match protocol {
            Protocol::Tcp => listen(address, transparent)
                .map(|socket| self.connections.push((ArrivalPoint::Port(address.port()), address, socket)))
                .map_err(NoCall::from),
            Protocol::Udp => {
                DatagramListener::open(owner, address).map(|listener| self.datagrams.push(listener))
            }
        };
        if let Err(error) = opened {
            tracing::debug!(target: "validation", %address, %error, "not ours to listen at");
            self.taken = true;
            self.transparent_taken |= transparent;
        }
    }

    /// The state of a trial's destination, with a listener there if it is this machine's; and the source address.
    pub(super) fn at_destination(&mut self, trial: &ProbeTrial) -> (DestinationState, Option<IpAddr>) {
        let route = route_lookup::to(trial.to.ip()).ok();
        let source = trial.from.or_else(|| route.as_ref()?.source);
        (self.place(trial, route.is_some_and(|route| route.interface == LOOPBACK)), source)
    }

    fn place(&mut self, trial: &ProbeTrial, ours: bool) -> DestinationState {
        match (ours, trial.protocol) {
            (false, _) => DestinationState::Elsewhere,
            (true, Protocol::Udp) => DestinationState::Own,
            (true, Protocol::Tcp) => {
                if let Some(place) = self.destinations.get(&trial.to) {
                    return *place;
                }
                let place = match dial::listen(trial.to, false) {
                    Ok(socket) => {
                        self.connections.push((ArrivalPoint::Destination, trial.to, socket));
                        DestinationState::Listening
                    }
                    // Rules lead to the same port, and the listener for these is there.
                    Err(_) if self.has_listener_at(trial.protocol, trial.to) => DestinationState::Listening,
                    Err(_) => DestinationState::Taken,
                };
                self.destinations.insert(trial.to, place);
                place
            }
        }
    }

    pub(super) fn serve(&mut self, attempts: &mut [ProbeAttempt<'_>]) {
        let Self { connections, datagrams, streams, .. } = self;
        for (at, _, listener) in connections.iter() {
            while let Ok((stream, peer)) = listener.accept() {
                let Some(attempt) = attempts.iter_mut().find(|attempt| attempt.comes_from(peer)) else {
                    tracing::debug!(target: "validation", %peer, "a stranger's connection is not kept");
                    continue;
                };
                if stream.set_nonblocking(true).is_ok()
                    && let Ok(kept) = stream.try_clone()
                {
                    streams.push(kept);
                    attempt.accepted(*at, stream);
                }
            }
        }
        let mut room = [0; 64];
        for DatagramListener { address, socket, answers } in datagrams.iter() {
            while let Ok((length, peer)) = socket.recv_from(&mut room) {
                let received_bytes = &room[..length];
                if let Some(attempt) = attempts.iter_mut().find(|attempt| attempt.has_token(received_bytes)) {
                    attempt.received(*address, *answers);
                    // Where the answer gets lost, the caller knows.
                    let _ = socket.send_to(received_bytes, peer);
                }
            }
        }
    }

    pub(super) fn has_listener_at(&self, protocol: Protocol, to: SocketAddr) -> bool {
        match protocol {
            Protocol::Tcp => self.connections.iter().any(|(_, at, _)| {
                let everywhere = at.ip().is_unspecified() && at.is_ipv4() == to.is_ipv4();
                at.port() == to.port() && (at.ip() == to.ip() || everywhere)
            }),
            Protocol::Udp => self.datagrams.iter().any(|listener| listener.address == to),
        }
    }

    pub(super) fn may_be_handed_to_others(&self) -> bool {
        self.transparent_taken
    }

    pub(super) fn may_go_to_others(&self) -> bool {
        self.taken
    }

    pub(super) fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let connections = self.connections.iter().map(|(_, _, listener)| listener.as_fd());
        let datagrams = self.datagrams.iter().map(|listener| listener.socket.as_fd());
        connections.chain(datagrams).chain(self.streams.iter().map(AsFd::as_fd)).collect()
    }
}

/// Without the right to be transparent a listener still gets what is redirected.
fn listen(address: SocketAddr, transparent: bool) -> io::Result<TcpListener> {
    match dial::listen(address, transparent) {
        Err(error) if transparent && error.kind() == io::ErrorKind::PermissionDenied => {
            dial::listen(address, false)
        }
        opened => opened,
    }
}

/// Rules redirect what this machine sends to loopback. TPROXY keeps the destination, so a transparent listener has to
/// listen at every address.
fn listen_address(family: Family, transparent: bool) -> IpAddr {
    match (family, transparent) {
        (Family::V4, false) => Ipv4Addr::LOCALHOST.into(),
        (Family::V4, true) => Ipv4Addr::UNSPECIFIED.into(),
        (Family::V6, false) => Ipv6Addr::LOCALHOST.into(),
        (Family::V6, true) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

pub(super) fn read_into(stream: &mut TcpStream, received_bytes: &mut Vec<u8>) -> io::Result<usize> {
    use io::Read;
    let mut room = [0; 64];
    let length = stream.read(&mut room)?;
    received_bytes.extend(&room[..length]);
    Ok(length)
}
