//! Probes: makes connections, and observes the outcome of each at its arrival and in conntrack. Packets get no further than the
//! first router and contain no data: a token is sent once one of our listeners has the connection. All trials run at once.

mod attempt;

use crate::{sys::conntrack::Conntrack, sys::dial::NoCall, sys::wait};
use attempt::{ProbeAttempt, ProbeListeners};
use rules::{Family, PortRange, Protocol};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::{self as unix, UnixDatagram};
use std::time::{Duration, Instant};
use std::{io, os::linux::net::SocketAddrExt, thread};

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
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < end => {
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
    /// Waits until the end if nothing shows the outcome. Otherwise a short silence is conclusive.
    pub patient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryPorts {
    pub protocol: Protocol,
    pub ports: PortRange,
    /// True if connections may arrive with their own destination (TPROXY).
    pub transparent: bool,
    /// User and group whose answers rules lead back. If we may not be them, no answer is awaited.
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
    /// It arrived unchanged at the listener at this port (`None`: another process's). One to that port itself may be uncaptured.
    Handed(Option<u16>),
    Passed,
    Accepted,
    /// It arrived at the listener at this port, and the answer did not come back.
    Unanswered(u16),
    /// It was led to a port of this machine without a listener.
    Refused,
    /// It arrived at none of our listeners and got no answer; no more is known.
    Silent,
    /// It got nowhere: conntrack has seen other connections, and not this one.
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
    #[error("{0} is in use, so that the accepting listener is unknown")]
    Taken(SocketAddr),
}

#[derive(Debug)]
pub struct Outcomes {
    pub each: Vec<Result<ProbeObservation, NoResult>>,
    /// Needs `CAP_NET_ADMIN`.
    pub conntrack_readable: bool,
}

pub(super) struct Flows<'a> {
    conntrack: Option<Conntrack>,
    zones: &'a [u16],
}

impl<'a> Flows<'a> {
    pub(super) fn open(zones: &'a [u16]) -> Self {
        Self { conntrack: Conntrack::open().ok(), zones }
    }

    /// Final destination of a connection; `None` if conntrack lacks it, or can't be read.
    pub(super) fn goes_to(
        &mut self,
        protocol: Protocol,
        addresses: (SocketAddr, SocketAddr),
    ) -> Option<SocketAddr> {
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
    pub(super) fn forget(&mut self, protocol: Protocol, addresses: (SocketAddr, SocketAddr)) {
        if let Some(conntrack) = &mut self.conntrack
            && let Err(error) = conntrack.forget_call(protocol, addresses, self.zones)
        {
            tracing::debug!(target: "validation", %error, "conntrack entries can't be deleted");
        }
    }

    pub(super) fn can_be_asked(&self) -> bool {
        self.conntrack.is_some()
    }
}
