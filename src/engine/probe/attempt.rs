//! One trial under way, and what it comes to.

use super::listeners::{ArrivalPoint, DestinationState, ProbeListeners, read_into};
use super::{ConnectionOutcome, Flows, NoResult, ProbeEvidence, ProbeObservation, ProbeTrial};
use crate::sys::dial::{self, DialedSocket, NoCall};
use rules::{Family, Protocol};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Time that a connection may wait in a listener's queue once its handshake is complete.
const GRACE: Duration = Duration::from_millis(100);
/// Time to wait for a reaction before the lack of one counts.
const QUIET: Duration = Duration::from_millis(300);

/// Before a token in a datagram: a DNS response without records (RFC 1035, 4.1.1), which DNS
/// servers ignore.
const NO_QUESTION: [u8; 12] = [0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(super) struct ProbeAttempt<'a> {
    trial: &'a ProbeTrial,
    place: DestinationState,
    call: Option<DialedSocket>,
    local: Option<SocketAddr>,
    token: Vec<u8>,
    started: Instant,
    /// Its destination by its entry in conntrack.
    goes_to: Option<SocketAddr>,
    /// The network's answer, such as a refusal (`SO_ERROR`).
    socket_error: Option<ErrorKind>,
    /// Time when its handshake was first seen to be complete. The listener is not known by that.
    connected: Option<Instant>,
    arrival: Option<(ArrivalPoint, TcpStream, Vec<u8>)>,
    /// The address at which its datagram was read, and whether the answer has to come back.
    read: Option<(SocketAddr, bool)>,
    outcome: Option<Result<ProbeObservation, NoResult>>,
}

impl<'a> ProbeAttempt<'a> {
    /// Calls, from a port that conntrack knows no connection of: a new one would go the way of the old one, past the
    /// rules. Conntrack is queried again before an answer can have arrived.
    pub(super) fn start(
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
            if let DialedSocket::Udp(socket) = &call {
                socket.send(&attempt.token)?;
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

    pub(super) fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    pub(super) fn is_tracked(&self, family: Family) -> bool {
        Family::of(self.trial.to.ip()) == family && self.goes_to.is_some()
    }

    pub(super) fn comes_from(&self, peer: SocketAddr) -> bool {
        self.trial.protocol == Protocol::Tcp && self.local == Some(peer)
    }

    pub(super) fn has_token(&self, received_bytes: &[u8]) -> bool {
        self.trial.protocol == Protocol::Udp && self.token == received_bytes
    }

    /// A listener of ours has accepted it: its token is sent now.
    pub(super) fn accepted(&mut self, at: ArrivalPoint, stream: TcpStream) {
        if let Some(DialedSocket::Tcp(call)) = &mut self.call {
            // If sending fails, the token does not arrive.
            let _ = call.write_all(&self.token);
        }
        self.arrival = Some((at, stream, Vec::new()));
    }

    pub(super) fn received(&mut self, at: SocketAddr, answers: bool) {
        self.read = Some((at, answers));
    }

    fn end(&mut self, end: ConnectionOutcome, proof: ProbeEvidence) {
        self.outcome = Some(Ok(ProbeObservation { end, proof, original: None }));
    }

    pub(super) fn look(&mut self, listeners: &ProbeListeners, flows: &mut Flows<'_>, now: Instant) {
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

    /// The handshake of a connection is complete at once, as the kernel makes it.
    fn may_have_arrived(&self) -> bool {
        self.trial.protocol == Protocol::Udp || self.connected.is_some()
    }

    fn read_token(&mut self) {
        let Some((at, stream, received_bytes)) = &mut self.arrival else { return };
        // What is not there yet is read at the next look.
        let _ = read_into(stream, received_bytes);
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
        let (Some(DialedSocket::Udp(socket)), Some((at, answers))) = (&self.call, self.read) else { return };
        let mut room = [0; 64];
        if !answers || socket.recv(&mut room).is_ok_and(|length| room[..length] == self.token) {
            self.end(ConnectionOutcome::Redirected(at), ProbeEvidence::Token);
        }
    }

    fn conclude(&mut self, listeners: &ProbeListeners, has_conntrack: bool, now: Instant) {
        let ProbeTrial { protocol, to, patient, .. } = *self.trial;
        if let Some(error) = self.call.as_ref().and_then(DialedSocket::take_error) {
            self.socket_error = Some(error.kind());
        }
        let refused = self.socket_error == Some(ErrorKind::ConnectionRefused);
        // A router's ICMP error: it has left this machine.
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
            (Some(_), DestinationState::Listening) if waited && listeners.may_be_handed_to_others() => {
                self.end(ConnectionOutcome::Handed(None), ProbeEvidence::Answer);
            }
            (Some(_), DestinationState::Taken) if waited && listeners.may_be_handed_to_others() => {
                self.outcome = Some(Err(NoResult::Taken(to)));
            }
            (Some(_), DestinationState::Taken) if waited => {
                self.end(ConnectionOutcome::Passed, ProbeEvidence::Conntrack);
            }
            (Some(_), DestinationState::Listening | DestinationState::Taken) => {}
            (None, _) if refused => self.end(ConnectionOutcome::Refused, ProbeEvidence::Answer),
            (None, _) if has_left => self.end(ConnectionOutcome::Silent, ProbeEvidence::Silence),
            (None, DestinationState::Taken) if waited => self.outcome = Some(Err(NoResult::Taken(to))),
            (None, _) if waited && listeners.may_go_to_others() => {
                self.end(ConnectionOutcome::Accepted, ProbeEvidence::Answer);
            }
            (None, _) if now - self.started > QUIET && (has_conntrack || !patient) => {
                self.end(ConnectionOutcome::Silent, ProbeEvidence::Silence);
            }
            (None, _) => {}
        }
    }

    /// The outcome when time is up. `tracked`: for each family, whether conntrack knows any connection.
    pub(super) fn outcome(
        self,
        tracked: [bool; 2],
        flows: &mut Flows<'_>,
    ) -> Result<ProbeObservation, NoResult> {
        let arrived = self.may_have_arrived();
        // Both ends are closed first, as the segments that close them need the entry in conntrack.
        drop((self.call, self.arrival));
        if let Some(local) = self.local.filter(|_| self.goes_to.is_some()) {
            flows.forget(self.trial.protocol, (local, self.trial.to));
        }
        let seen = |end, proof| Ok(ProbeObservation { end, proof, original: None });
        // Silence means that it got nowhere: conntrack works, or the destination is a listener of ours, and either would
        // have seen it.
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

/// A token: numbers of the operating system's, mixed (`RandomState`).
fn token(protocol: Protocol) -> Vec<u8> {
    let token = [(); 2].map(|()| RandomState::new().build_hasher().finish().to_be_bytes()).concat();
    match protocol {
        Protocol::Tcp => token,
        Protocol::Udp => [&NO_QUESTION[..], &token].concat(),
    }
}
