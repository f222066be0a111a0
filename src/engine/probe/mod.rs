//! Probes make connections, and observe each connection's outcome on arrival and in conntrack. Packets get no further than the
//! first router and contain no data: a token is sent once one of our listeners has the connection. All trials run at once.

use crate::sys::dial::{self, DialedSocket, NoCall};
use crate::sys::{conntrack::Conntrack, route_lookup, wait};
use rules::{Family, PortRange, Protocol, simulate::LOOPBACK};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{self as unix, UnixDatagram};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, os::linux::net::SocketAddrExt, thread};

const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub fn probe(what: &Probe) -> io::Result<Outcomes> {
    let end = Instant::now() + what.timeout;
    let _turn = turn(end - what.timeout / 2);
    let mut listeners = ProbeListeners::open(what);
    let mut conntrack = Flows::open(&what.zones);
    let mut attempts: Vec<ProbeAttempt<'_>> = Vec::new();
    for trial in &what.trials {
        let (place, source) = listeners.at_destination(trial);
        attempts.push(ProbeAttempt::start(trial, place, source, &mut conntrack));
    }
    loop {
        listeners.serve(&mut attempts);
        let now = Instant::now();
        for attempt in &mut attempts {
            attempt.look(&listeners, &mut conntrack, now);
        }
        if now >= end || attempts.iter().all(ProbeAttempt::is_over) {
            break;
        }
        wait::for_any(&listeners.sources(), POLL_INTERVAL.min(end - now))?;
    }
    let tracked = Family::BOTH.map(|family| attempts.iter().any(|one| one.is_tracked(family)));
    drop(listeners);
    let each = attempts.into_iter().map(|attempt| attempt.outcome(tracked, &mut conntrack)).collect();
    Ok(Outcomes { each, conntrack_readable: conntrack.can_be_asked() })
}

/// Abstract socket name by which probes of a network namespace exclude each other (`unix(7)`).
const TURN: &[u8] = b"sidecar-init/probe";

/// Waits, for a limited time, for other probes of the namespace, whose listeners would use the same ports.
fn turn(end: Instant) -> Option<UnixDatagram> {
    let name = unix::SocketAddr::from_abstract_name(TURN).ok()?;
    loop {
        match UnixDatagram::bind_addr(&name) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                thread::sleep(POLL_INTERVAL);
            }
            taken => return taken.ok(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeTrial {
    pub protocol: Protocol,
    /// User and group of the calling socket, in the numbers used in rules.
    pub owner: (u32, u32),
    pub from: Option<IpAddr>,
    pub to: SocketAddr,
    /// True to wait for an outcome until the timeout; otherwise a short silence is conclusive.
    pub patient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryPorts {
    pub protocol: Protocol,
    pub ports: PortRange,
    /// True if connections may arrive with their own destination (TPROXY).
    pub transparent: bool,
    /// User and group whose replies are routed back. Without permission to use both, no reply is awaited.
    pub owner: (u32, u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub trials: Vec<ProbeTrial>,
    pub listeners: Vec<DeliveryPorts>,
    pub zones: Vec<u16>,
    pub timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOutcome {
    Redirected(SocketAddr),
    /// It reached our listener on this port unchanged (`None`: another process). Direct calls to that port may be uncaptured.
    Handed(Option<u16>),
    Passed,
    Accepted,
    /// It reached the listener on this port, but the answer did not come back.
    Unanswered(u16),
    /// It reached a port of this machine without a listener.
    Refused,
    /// It reached none of our listeners and got no answer; no more is known.
    Silent,
    /// It got nowhere: conntrack has seen other connections, but not this one.
    Nowhere,
    /// It could not be made: this address of the pod, set with the rules, is missing.
    NoAddress(IpAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEvidence {
    Token,
    Conntrack,
    Answer,
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeObservation {
    pub end: ConnectionOutcome,
    pub proof: ProbeEvidence,
    pub original: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub enum NoResult {
    #[error("no route leads there from this namespace: {0}")]
    NoRoute(#[source] io::Error),
    #[error("{0}")]
    Owner(#[source] NoCall),
    #[error("{0} is in use, so the accepting listener is unknown")]
    Taken(SocketAddr),
}

#[derive(Debug)]
pub struct Outcomes {
    pub each: Vec<Result<ProbeObservation, NoResult>>,
    /// Needs `CAP_NET_ADMIN`.
    pub conntrack_readable: bool,
}

struct Flows<'a> {
    conntrack: Option<Conntrack>,
    zones: &'a [u16],
}

impl<'a> Flows<'a> {
    fn open(zones: &'a [u16]) -> Self {
        Self { conntrack: Conntrack::open().ok(), zones }
    }

    /// Final destination of a connection; `None` if conntrack lacks it, or can't be read.
    fn goes_to(&mut self, protocol: Protocol, addresses: (SocketAddr, SocketAddr)) -> Option<SocketAddr> {
        match self.conntrack.as_mut()?.goes_to(protocol, addresses, self.zones) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(target: "validation", %error, "conntrack can't be read");
                self.conntrack = None;
                None
            }
        }
    }

    /// Deletes the entry: a later connection from the same port would follow it, even if rules have changed.
    fn forget(&mut self, protocol: Protocol, addresses: (SocketAddr, SocketAddr)) {
        if let Some(conntrack) = &mut self.conntrack
            && let Err(error) = conntrack.forget_call(protocol, addresses, self.zones)
        {
            tracing::debug!(target: "validation", %error, "conntrack entries can't be deleted");
        }
    }

    fn can_be_asked(&self) -> bool {
        self.conntrack.is_some()
    }
}

/// Time that a connection may wait in a listener's queue once its handshake is complete.
const GRACE: Duration = Duration::from_millis(100);
/// Time without a reaction that counts as silence.
const QUIET: Duration = Duration::from_millis(300);

/// Prefix of a token in a datagram: a DNS response without records (RFC 1035, 4.1.1), which DNS servers ignore.
const NO_QUESTION: [u8; 12] = [0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0];

struct ProbeAttempt<'a> {
    trial: &'a ProbeTrial,
    place: DestinationState,
    call: Option<DialedSocket>,
    local: Option<SocketAddr>,
    token: Vec<u8>,
    started: Instant,
    goes_to: Option<SocketAddr>,
    /// The network's answer, such as a refusal (`SO_ERROR`).
    socket_error: Option<ErrorKind>,
    /// Time when its handshake was first seen to be complete. The listener is not yet known.
    connected: Option<Instant>,
    arrival: Option<(ArrivalPoint, TcpStream, Vec<u8>)>,
    /// Address at which its datagram was read, and true if the answer must come back.
    read: Option<(SocketAddr, bool)>,
    outcome: Option<Result<ProbeObservation, NoResult>>,
}

impl<'a> ProbeAttempt<'a> {
    /// Connects from a port without a connection in conntrack: a new connection would follow an old entry past the rules.
    fn start(
        trial: &'a ProbeTrial,
        place: DestinationState,
        source: Option<IpAddr>,
        flows: &mut Flows<'_>,
    ) -> Self {
        let ProbeTrial { protocol, owner, from, to, .. } = *trial;
        let mut attempt = Self {
            trial,
            place,
            call: None,
            local: None,
            token: token(protocol),
            started: Instant::now(),
            goes_to: None,
            socket_error: None,
            connected: None,
            arrival: None,
            read: None,
            outcome: None,
        };
        let is_fresh =
            |port| source.is_none_or(|ip| flows.goes_to(protocol, (SocketAddr::new(ip, port), to)).is_none());
        let called = dial::call(protocol, owner, from, to, is_fresh).and_then(|call| {
            if protocol == Protocol::Udp {
                call.send(&attempt.token)?;
            }
            Ok((call.local()?, call))
        });
        match called {
            Ok((local, call)) => {
                attempt.local = Some(local);
                attempt.goes_to = flows.goes_to(protocol, (local, to));
                attempt.call = Some(call);
            }
            Err(refused) if refused.is_dropped() => {
                attempt.end(ConnectionOutcome::Nowhere, ProbeEvidence::Answer);
            }
            Err(NoCall::Refused(error)) => attempt.outcome = Some(Err(NoResult::NoRoute(error))),
            Err(owner @ (NoCall::Owner { .. } | NoCall::Unmapped { .. })) => {
                attempt.outcome = Some(Err(NoResult::Owner(owner)));
            }
        }
        attempt
    }

    fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    fn is_tracked(&self, family: Family) -> bool {
        Family::of(self.trial.to.ip()) == family && self.goes_to.is_some()
    }

    fn accepted(&mut self, at: ArrivalPoint, stream: TcpStream) {
        if let Some(call) = &self.call {
            let _ = call.send(&self.token);
        }
        self.arrival = Some((at, stream, Vec::new()));
    }

    fn end(&mut self, end: ConnectionOutcome, proof: ProbeEvidence) {
        self.outcome = Some(Ok(ProbeObservation { end, proof, original: None }));
    }

    fn look(&mut self, listeners: &ProbeListeners, flows: &mut Flows<'_>, now: Instant) {
        let (false, Some(call), Some(local)) = (self.is_over(), &self.call, self.local) else { return };
        let ProbeTrial { protocol, to, .. } = *self.trial;
        if self.goes_to.is_none() {
            self.goes_to = flows.goes_to(protocol, (local, to));
        }
        if self.connected.is_none() && call.is_connected() {
            self.connected = Some(now);
        }
        match protocol {
            Protocol::Tcp if self.arrival.is_some() => self.read_token(),
            Protocol::Udp if self.read.is_some() => self.read_answer(),
            Protocol::Tcp | Protocol::Udp => self.conclude(listeners, flows.can_be_asked(), now),
        }
    }

    /// True if it may have arrived; the kernel completes a connection's handshake at once.
    fn may_have_arrived(&self) -> bool {
        self.trial.protocol == Protocol::Udp || self.connected.is_some()
    }

    fn read_token(&mut self) {
        let Some((at, stream, received_bytes)) = &mut self.arrival else { return };
        let mut room = [0; 64];
        let length = stream.read(&mut room).unwrap_or(0);
        received_bytes.extend(&room[..length]);
        if *received_bytes != self.token {
            return;
        }
        let original = dial::original_destination(stream);
        let (at, local) = (*at, stream.local_addr());
        let end = match (at, local) {
            (ArrivalPoint::Destination, _) => ConnectionOutcome::Passed,
            (ArrivalPoint::Port(port), Ok(local)) if local == self.trial.to => {
                ConnectionOutcome::Handed(Some(port))
            }
            (ArrivalPoint::Port(_), Ok(local)) => ConnectionOutcome::Redirected(local),
            (ArrivalPoint::Port(_), Err(_)) => return,
        };
        self.outcome = Some(Ok(ProbeObservation { end, proof: ProbeEvidence::Token, original }));
    }

    fn read_answer(&mut self) {
        let (Some(call), Some((at, answers))) = (&self.call, self.read) else { return };
        let mut room = [0; 64];
        if !answers || call.receive(&mut room).is_ok_and(|length| room[..length] == self.token) {
            self.end(ConnectionOutcome::Redirected(at), ProbeEvidence::Token);
        }
    }

    fn conclude(&mut self, listeners: &ProbeListeners, has_conntrack: bool, now: Instant) {
        let ProbeTrial { protocol, to, patient, .. } = *self.trial;
        if let Some(error) = self.call.as_ref().and_then(DialedSocket::take_error) {
            self.socket_error = Some(error.kind());
        }
        let refused = self.socket_error == Some(ErrorKind::ConnectionRefused);
        // A router's ICMP error: the packet left this machine.
        let has_left = self.socket_error.is_some() && !refused && self.place == DestinationState::Elsewhere;
        let waited = self.connected.is_some_and(|since| now - since > GRACE);
        match (self.goes_to, self.place) {
            (Some(there), _) if there != to => {
                let is_ours = listeners.has_listener_at(protocol, there);
                if refused || !is_ours && self.may_have_arrived() {
                    self.end(ConnectionOutcome::Redirected(there), ProbeEvidence::Conntrack);
                } else if !is_ours && now - self.started > QUIET {
                    self.end(ConnectionOutcome::Nowhere, ProbeEvidence::Silence);
                }
            }
            (Some(_), DestinationState::Elsewhere | DestinationState::Own) => {
                self.end(ConnectionOutcome::Passed, ProbeEvidence::Conntrack);
            }
            (Some(_), DestinationState::Listening) if waited && listeners.transparent_taken => {
                self.end(ConnectionOutcome::Handed(None), ProbeEvidence::Answer);
            }
            (Some(_), DestinationState::Taken) if waited && listeners.transparent_taken => {
                self.outcome = Some(Err(NoResult::Taken(to)));
            }
            (Some(_), DestinationState::Taken) if waited => {
                self.end(ConnectionOutcome::Passed, ProbeEvidence::Conntrack);
            }
            (Some(_), DestinationState::Listening | DestinationState::Taken) => {}
            (None, _) if refused => self.end(ConnectionOutcome::Refused, ProbeEvidence::Answer),
            (None, _) if has_left => self.end(ConnectionOutcome::Silent, ProbeEvidence::Silence),
            (None, DestinationState::Taken) if waited => self.outcome = Some(Err(NoResult::Taken(to))),
            (None, _) if waited && listeners.taken => {
                self.end(ConnectionOutcome::Accepted, ProbeEvidence::Answer);
            }
            (None, _) if now - self.started > QUIET && (has_conntrack || !patient) => {
                self.end(ConnectionOutcome::Silent, ProbeEvidence::Silence);
            }
            (None, _) => {}
        }
    }

    /// Outcome at the time limit. `tracked` is true, for each family, if conntrack has any connection.
    fn outcome(self, tracked: [bool; 2], flows: &mut Flows<'_>) -> Result<ProbeObservation, NoResult> {
        let arrived = self.may_have_arrived();
        // Both ends are closed first, because the closing segments need the conntrack entry.
        drop((self.call, self.arrival));
        if let Some(local) = self.local.filter(|_| self.goes_to.is_some()) {
            flows.forget(self.trial.protocol, (local, self.trial.to));
        }
        let seen = |end, proof| Ok(ProbeObservation { end, proof, original: None });
        // Silence means a lost packet if conntrack or one of our listeners would have seen it.
        let silence_is_loss =
            tracked[Family::of(self.trial.to.ip()) as usize] || self.place == DestinationState::Listening;
        match (self.outcome, self.goes_to, self.read) {
            (Some(Ok(ProbeObservation { end: ConnectionOutcome::Silent, .. })), ..) if silence_is_loss => {
                seen(ConnectionOutcome::Nowhere, ProbeEvidence::Conntrack)
            }
            (Some(outcome), ..) => outcome,
            (None, _, Some((at, _))) => seen(ConnectionOutcome::Unanswered(at.port()), ProbeEvidence::Token),
            (None, Some(there), None) if there != self.trial.to && arrived => {
                seen(ConnectionOutcome::Redirected(there), ProbeEvidence::Conntrack)
            }
            (None, None, None) if !silence_is_loss => seen(ConnectionOutcome::Silent, ProbeEvidence::Silence),
            (None, ..) => seen(ConnectionOutcome::Nowhere, ProbeEvidence::Silence),
        }
    }
}

/// A token of random numbers from the operating system, mixed (`RandomState`).
fn token(protocol: Protocol) -> Vec<u8> {
    let token = [(); 2].map(|()| RandomState::new().build_hasher().finish().to_be_bytes()).concat();
    match protocol {
        Protocol::Tcp => token,
        Protocol::Udp => [&NO_QUESTION[..], &token].concat(),
    }
}

/// Maximum number of ports of a range that get a listener; conntrack is queried for the others.
const MAX_LISTENERS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DestinationState {
    Elsewhere,
    /// On this machine, with one of our listeners.
    Listening,
    /// On this machine, with another process's listener.
    Taken,
    /// On this machine, for datagrams: no listener is opened.
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArrivalPoint {
    Port(u16),
    Destination,
}

struct DatagramListener {
    address: SocketAddr,
    socket: UdpSocket,
    answers: bool,
}

impl DatagramListener {
    /// Opens a listener as the user whose replies are routed back, or as our own user if that is not permitted.
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
struct ProbeListeners {
    connections: Vec<(ArrivalPoint, SocketAddr, TcpListener)>,
    datagrams: Vec<DatagramListener>,
    destinations: BTreeMap<SocketAddr, DestinationState>,
    transparent_taken: bool,
    taken: bool,
    streams: Vec<TcpStream>,
}

impl ProbeListeners {
    fn open(what: &Probe) -> Self {
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
            tracing::debug!(target: "validation", %address, %error, "can't listen here");
            self.taken = true;
            self.transparent_taken |= transparent;
        }
    }

    /// State of a trial's destination, with a listener if it is on this machine; and the source address.
    fn at_destination(&mut self, trial: &ProbeTrial) -> (DestinationState, Option<IpAddr>) {
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
                    // Rules lead to the same port, which has our listener.
                    Err(_) if self.has_listener_at(trial.protocol, trial.to) => DestinationState::Listening,
                    Err(_) => DestinationState::Taken,
                };
                self.destinations.insert(trial.to, place);
                place
            }
        }
    }

    fn serve(&mut self, attempts: &mut [ProbeAttempt<'_>]) {
        let Self { connections, datagrams, streams, .. } = self;
        for (at, _, listener) in connections.iter() {
            while let Ok((stream, peer)) = listener.accept() {
                let is_its = |one: &&mut ProbeAttempt<'_>| {
                    one.trial.protocol == Protocol::Tcp && one.local == Some(peer)
                };
                let Some(attempt) = attempts.iter_mut().find(is_its) else {
                    tracing::debug!(target: "validation", %peer, "dropping an unknown peer's connection");
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
                let is_its = |one: &&mut ProbeAttempt<'_>| {
                    one.trial.protocol == Protocol::Udp && one.token == received_bytes
                };
                if let Some(attempt) = attempts.iter_mut().find(is_its) {
                    attempt.read = Some((*address, *answers));
                    let _ = socket.send_to(received_bytes, peer);
                }
            }
        }
    }

    fn has_listener_at(&self, protocol: Protocol, to: SocketAddr) -> bool {
        match protocol {
            Protocol::Tcp => self.connections.iter().any(|(_, at, _)| {
                let everywhere = at.ip().is_unspecified() && at.is_ipv4() == to.is_ipv4();
                at.port() == to.port() && (at.ip() == to.ip() || everywhere)
            }),
            Protocol::Udp => self.datagrams.iter().any(|listener| listener.address == to),
        }
    }

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let connections = self.connections.iter().map(|(_, _, listener)| listener.as_fd());
        let datagrams = self.datagrams.iter().map(|listener| listener.socket.as_fd());
        connections.chain(datagrams).chain(self.streams.iter().map(AsFd::as_fd)).collect()
    }
}

/// Listens; without the right to be transparent, the listener still gets redirected connections.
fn listen(address: SocketAddr, transparent: bool) -> io::Result<TcpListener> {
    match dial::listen(address, transparent) {
        Err(error) if transparent && error.kind() == ErrorKind::PermissionDenied => {
            dial::listen(address, false)
        }
        opened => opened,
    }
}

/// Redirected connections of this machine go to loopback. TPROXY keeps the destination, so its listener is at every address.
fn listen_address(family: Family, transparent: bool) -> IpAddr {
    match (family, transparent) {
        (Family::V4, false) => Ipv4Addr::LOCALHOST.into(),
        (Family::V4, true) => Ipv4Addr::UNSPECIFIED.into(),
        (Family::V6, false) => Ipv6Addr::LOCALHOST.into(),
        (Family::V6, true) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
