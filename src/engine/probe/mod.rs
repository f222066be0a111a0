//! What really happens to connections: they are made, and what becomes of each is looked at where it arrives and in
//! conntrack.
//!
//! A caller's packets get no further than the first router, and say nothing to strangers: a token is sent once a listener
//! of ours has the connection. A listener is put at each port that rules may lead to, and at destinations that are this
//! machine's; where a proxy holds a port already, conntrack tells where the connection went. All trials run at once, so that
//! the time for one is the time for all.

mod attempt;
mod listeners;

use crate::sys::{conntrack::Conntrack, dial::NoCall, wait};
use attempt::Attempt;
use listeners::Listeners;
use rules::{Family, PortRange, Protocol};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{self as unix, UnixDatagram},
    },
    thread,
    time::{Duration, Instant},
};

/// A connection or a datagram to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub protocol: Protocol,
    /// User and group of the calling socket, as rules see them.
    pub owner: (u32, u32),
    /// The address that it comes from, where not the kernel's choice.
    pub from: Option<IpAddr>,
    pub to: SocketAddr,
    /// Whether to wait until the end where nothing tells what becomes of it. Otherwise silence counts as a sign soon.
    pub patient: bool,
}

/// Ports at which rules may deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    pub protocol: Protocol,
    pub ports: PortRange,
    /// Whether connections may be handed over with their own destination (TPROXY).
    pub transparent: bool,
    /// Whose answers rules lead back to their callers. Where we may not be them, none is waited for.
    pub owner: (u32, u32),
}

/// All that is tried at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub trials: Vec<Trial>,
    pub listeners: Vec<Listener>,
    /// The zones of conntrack that the rules use.
    pub zones: Vec<u16>,
    /// How long to wait for all together.
    pub timeout: Duration,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A rule rewrote its destination to this one.
    Redirected(SocketAddr),
    /// It was handed, unchanged, to the listener at this port; `None` for a listener of somebody else's.
    Handed(Option<u16>),
    /// It goes where it was sent.
    Passed,
    /// Somebody has accepted it, and more is not known.
    Accepted,
    /// It came to the listener at this port, and the answer did not come back.
    Unanswered(u16),
    /// It was led to a port of this machine where nobody listens.
    Refused,
    /// It came to no listener of ours, nobody answered, and more is not known.
    Silent,
    /// It got nowhere: conntrack has seen others, and not this one.
    Nowhere,
}

/// How that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A listener of ours has read its token.
    Token,
    /// Conntrack says so.
    Conntrack,
    /// Somebody has accepted it, or refused it.
    Answer,
    /// Nothing was heard of it.
    Silence,
}

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub end: End,
    pub proof: Proof,
    /// Where the listener that has it could tell: where it was sent to.
    pub original: Option<SocketAddr>,
}

/// Why a trial came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Untried {
    /// There is no way to the destination, or none from the address.
    #[error("no way leads there from this namespace: {0}")]
    NoWay(#[source] io::Error),
    /// It could not be made another user's.
    #[error("{0}")]
    Owner(#[source] NoCall),
    /// Something listens at the destination, so that nobody can tell who has accepted the call.
    #[error("{0} is in use, so it is not known which listener accepts a call")]
    Taken(SocketAddr),
}

/// What is known of the trials.
#[derive(Debug)]
pub struct Outcomes {
    /// Of each, in their order.
    pub each: Vec<Result<Seen, Untried>>,
    /// Whether conntrack could be asked, for which `CAP_NET_ADMIN` is needed.
    pub asked: bool,
}

/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Tries everything.
///
/// # Errors
/// When the kernel can't be asked at all.
pub fn probe(what: &Probe) -> io::Result<Outcomes> {
    let end = Instant::now() + what.timeout;
    let _turn = turn(end - what.timeout / 2);
    let mut listeners = Listeners::open(what);
    let mut conntrack = Flows::open(&what.zones);
    let mut attempts: Vec<Attempt<'_>> = Vec::new();
    for trial in &what.trials {
        let (place, source) = listeners.at_destination(trial);
        attempts.push(Attempt::start(trial, place, source, &mut conntrack));
    }
    loop {
        listeners.serve(&mut attempts);
        let now = Instant::now();
        for attempt in &mut attempts {
            attempt.look(&listeners, &mut conntrack, now);
        }
        if now >= end || attempts.iter().all(Attempt::is_over) {
            break;
        }
        wait::for_any(&listeners.sources(), POLL_INTERVAL.min(end - now))?;
    }
    let tracked = Family::BOTH.map(|family| attempts.iter().any(|one| one.is_tracked(family)));
    drop(listeners);
    let each = attempts.into_iter().map(|attempt| attempt.outcome(tracked, &mut conntrack)).collect();
    Ok(Outcomes { each, asked: conntrack.can_be_asked() })
}

/// The name by which probes of a network namespace know of each other; nobody else sees it (`unix(7)`, abstract names).
const TURN: &[u8] = b"sidecar-init/probe";

/// Waits for other probes of the namespace, whose listeners would come and go at the same ports. Who holds the name for
/// longer is no probe, and not waited for.
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

/// Conntrack, as far as it can be asked.
struct Flows<'a> {
    conntrack: Option<Conntrack>,
    zones: &'a [u16],
}

impl<'a> Flows<'a> {
    fn open(zones: &'a [u16]) -> Self {
        Self { conntrack: Conntrack::open().ok(), zones }
    }

    /// Where a connection really goes; `None` where conntrack does not know it, or answers nobody like us.
    fn goes_to(&mut self, protocol: Protocol, way: (SocketAddr, SocketAddr)) -> Option<SocketAddr> {
        match self.conntrack.as_mut()?.goes_to(protocol, way, self.zones) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(target: "validation", %error, "conntrack can't be asked");
                self.conntrack = None;
                None
            }
        }
    }

    /// Leaves nothing behind: whoever called from the same port soon would go the way of this connection, whatever the
    /// rules say by then.
    fn forget(&mut self, protocol: Protocol, way: (SocketAddr, SocketAddr)) {
        if let Some(conntrack) = &mut self.conntrack
            && let Err(error) = conntrack.forget_call(protocol, way, self.zones)
        {
            tracing::debug!(target: "validation", %error, "conntrack forgets nothing");
        }
    }

    fn can_be_asked(&self) -> bool {
        self.conntrack.is_some()
    }
}
