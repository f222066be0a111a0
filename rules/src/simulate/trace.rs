//! Reports of a walk.

use super::{facts::Binding, set::Packet};
use crate::{Hook, Port, PortRange};
use std::{fmt, net::IpAddr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Goes on to its destination, which other tools may have changed.
    Pass,
    Redirect(PortRange),
    Tproxy(Port),
    Drop,
    /// An unknown rule could decide.
    Unknown,
}

impl Verdict {
    pub fn captures(self) -> bool {
        matches!(self, Self::Redirect(_) | Self::Tproxy(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    pub chain: usize,
    /// Index of the rule in the chain, counted from 0; for a base chain's policy, the number of rules.
    pub rule: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Matched {
    Yes,
    /// Index of the first condition that is known to fail.
    No(usize),
    /// Index of the first condition with an unknown result; none is known to fail.
    Unknown(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    pub hook: Hook,
    pub at: At,
    pub matched: Matched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaptureKind {
    Redirect(PortRange),
    /// Redirects without changing the port.
    SamePort,
    Tproxy(Port),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ending {
    pub verdict: Verdict,
    /// True for a redirect that keeps each packet's port, so `verdict` has no port.
    pub keeps_port: bool,
    /// The deciding rule; for a redirect-only chain, the rule that jumps there.
    pub decided_by: Option<At>,
    /// New destination from another tool's rule, if any.
    pub translated: Option<(Binding<IpAddr>, Binding<PortRange>)>,
    pub stays: bool,
    /// True if the verdict is unknown because the order of equal-priority chains matters.
    pub is_tie: bool,
}

impl Ending {
    /// The ending with an unknown verdict, for a view with missing rules.
    pub(super) fn unknown(self) -> Self {
        Self { verdict: Verdict::Unknown, decided_by: None, translated: None, keeps_port: false, ..self }
    }

    pub fn of(&self, packet: &Packet) -> Outcome {
        let Self { decided_by, stays, is_tie, .. } = *self;
        let sent = packet.destination;
        let verdict = match Port::new(sent.port()).filter(|_| self.keeps_port) {
            Some(port) => Verdict::Redirect(port.into()),
            None => self.verdict,
        };
        let translated = self.translated.and_then(|(address, ports)| {
            let sent_ports = Port::new(sent.port()).map(PortRange::from);
            Some(NatTarget { address: address.known(Some(sent.ip()))?, ports: ports.known(sent_ports)? })
        });
        Outcome { verdict, decided_by, translated, stays, is_tie }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NatTarget {
    pub address: IpAddr,
    pub ports: PortRange,
}

impl fmt::Display for NatTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(address) => write!(f, "{address}:{}", self.ports.dashed()),
            IpAddr::V6(address) => write!(f, "[{address}]:{}", self.ports.dashed()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    pub verdict: Verdict,
    pub decided_by: Option<At>,
    pub translated: Option<NatTarget>,
    pub stays: bool,
    pub is_tie: bool,
}
