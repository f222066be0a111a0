//! What is tried, and what is known of it then, by conntrack among others.

use crate::sys::{conntrack::Conntrack, dial::NoCall};
use rules::{PortRange, Protocol};
use std::net::{IpAddr, SocketAddr};
use std::{io, time::Duration};

/// A connection or a datagram to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeTrial {
    pub protocol: Protocol,
    /// User and group of the calling socket, as rules see them.
    pub owner: (u32, u32),
    /// The address that it comes from, where not the kernel's choice.
    pub from: Option<IpAddr>,
    pub to: SocketAddr,
    /// Whether to wait until the end where nothing shows the outcome. Otherwise a short silence is conclusive.
    pub patient: bool,
}

/// Ports at which rules may deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryPorts {
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
    pub trials: Vec<ProbeTrial>,
    pub listeners: Vec<DeliveryPorts>,
    /// The zones of conntrack that the rules use.
    pub zones: Vec<u16>,
    /// How long to wait for all together.
    pub timeout: Duration,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOutcome {
    /// A rule rewrote its destination to this one.
    Redirected(SocketAddr),
    /// It was handed, unchanged, to the listener at this port; `None` for a listener of another process. Where it was
    /// sent to that port, it may have passed without being handed over.
    Handed(Option<u16>),
    /// It goes where it was sent.
    Passed,
    /// It was accepted, and more is not known.
    Accepted,
    /// It came to the listener at this port, and the answer did not come back.
    Unanswered(u16),
    /// It was led to a port of this machine without a listener.
    Refused,
    /// It came to no listener of ours, got no answer, and more is not known.
    Silent,
    /// It got nowhere: conntrack has seen others, and not this one.
    Nowhere,
    /// It could not be made: this address of the pod, which the rules come with, is missing.
    NoAddress(IpAddr),
}

/// How that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEvidence {
    /// A listener of ours has read its token.
    Token,
    /// By the entry in conntrack.
    Conntrack,
    /// It was accepted or refused.
    Answer,
    /// Nothing was heard of it.
    Silence,
}

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeObservation {
    pub end: ConnectionOutcome,
    pub proof: ProbeEvidence,
    /// Its original destination, where the listener could read it.
    pub original: Option<SocketAddr>,
}

/// Why a trial came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum NoResult {
    /// There is no route to the destination, or none from the address.
    #[error("no route leads there from this namespace: {0}")]
    NoRoute(#[source] io::Error),
    /// It could not be made another user's.
    #[error("{0}")]
    Owner(#[source] NoCall),
    /// Another process listens at the destination, so it is unknown which listener accepted the call.
    #[error("{0} is in use, so it is not known which listener accepts a call")]
    Taken(SocketAddr),
}

/// What is known of the trials.
#[derive(Debug)]
pub struct Outcomes {
    /// Of each, in their order.
    pub each: Vec<Result<ProbeObservation, NoResult>>,
    /// Whether conntrack could be queried, for which `CAP_NET_ADMIN` is needed.
    pub conntrack_readable: bool,
}

/// Conntrack, where it can be queried.
pub(super) struct Flows<'a> {
    conntrack: Option<Conntrack>,
    zones: &'a [u16],
}

impl<'a> Flows<'a> {
    pub(super) fn open(zones: &'a [u16]) -> Self {
        Self { conntrack: Conntrack::open().ok(), zones }
    }

    /// The real destination of a connection; `None` where conntrack does not know it, or refuses to answer.
    pub(super) fn goes_to(
        &mut self,
        protocol: Protocol,
        addresses: (SocketAddr, SocketAddr),
    ) -> Option<SocketAddr> {
        match self.conntrack.as_mut()?.goes_to(protocol, addresses, self.zones) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(target: "validation", %error, "conntrack can't be asked");
                self.conntrack = None;
                None
            }
        }
    }

    /// Deletes the entry: a later connection from the same port would follow it, even if
    /// rules have changed.
    pub(super) fn forget(&mut self, protocol: Protocol, addresses: (SocketAddr, SocketAddr)) {
        if let Some(conntrack) = &mut self.conntrack
            && let Err(error) = conntrack.forget_call(protocol, addresses, self.zones)
        {
            tracing::debug!(target: "validation", %error, "conntrack forgets nothing");
        }
    }

    pub(super) fn can_be_asked(&self) -> bool {
        self.conntrack.is_some()
    }
}
