//! Probes: connections are made, and the outcome of each is observed where it arrives and in conntrack.
//!
//! A caller's packets get no further than the first router, and contain no data: a token is sent once a listener
//! of ours has the connection. A listener is put at each port that rules may lead to, and at destinations that are this
//! machine's; where a proxy has a port already, conntrack shows where the connection went. All trials run at once, so that
//! the time for one is the time for all.

mod attempt;
mod listeners;
mod trial;

pub use trial::{
    ConnectionOutcome, DeliveryPorts, NoResult, Outcomes, Probe, ProbeEvidence, ProbeObservation, ProbeTrial,
};

use crate::sys::wait;
use attempt::ProbeAttempt;
use listeners::ProbeListeners;
use rules::Family;
use std::os::unix::net::{self as unix, UnixDatagram};
use std::time::{Duration, Instant};
use std::{io, os::linux::net::SocketAddrExt, thread};
use trial::Flows;

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

/// The abstract socket name by which probes of a network namespace exclude each other (`unix(7)`).
const TURN: &[u8] = b"sidecar-init/probe";

/// Waits for other probes of the namespace, whose listeners would use the same ports. A process that has the name for
/// longer is not a probe, and not waited for.
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
