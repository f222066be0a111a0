//! Reports of a walk.

use super::facts::Binding;
use super::set::Packet;
use crate::{Hook, Port, PortRange};
use std::{fmt, net::IpAddr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It goes on to where it was sent, or to where other tools sent it.
    Pass,
    /// It goes to this machine, to this port or one of these.
    Redirect(PortRange),
    /// It is handed to the transparent listener at this port.
    Tproxy(Port),
    Drop,
    /// A rule that is not understood could decide.
    Unknown,
}

impl Verdict {
    /// A listener of this machine gets it.
    pub fn captures(self) -> bool {
        matches!(self, Self::Redirect(_) | Self::Tproxy(_))
    }
}

/// The place of a rule in a [`super::View`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    pub chain: usize,
    /// Index of the rule in the chain, counted from 0. The number of rules, for the policy of a base chain.
    pub rule: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Matched {
    /// All conditions hold.
    Yes,
    /// This condition does not, the first that is known not to; its index.
    No(usize),
    /// None is known to fail, but of this one it is not known whether it holds; its index.
    Unknown(usize),
}

/// A rule that a packet meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The hook from which the chain was reached.
    pub hook: Hook,
    pub at: At,
    pub matched: Matched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaptureKind {
    Redirect(PortRange),
    /// Redirected to the port to which they are sent.
    SamePort,
    Tproxy(Port),
}

/// The end of a walk of all packets of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ending {
    pub verdict: Verdict,
    /// A redirect keeps the port of each packet, so that `verdict` has no port to name.
    pub keeps_port: bool,
    /// The rule that decided it: for a chain that does nothing but redirect, the rule that led there.
    pub decided_by: Option<At>,
    /// The new destination, if another tool's rule gave the packets one.
    pub translated: Option<(Binding<IpAddr>, Binding<PortRange>)>,
    /// The packets end up on this machine.
    pub stays: bool,
    /// Unknown because chains of equal priority decide differently in another order.
    pub is_tie: bool,
}

impl Ending {
    /// The same where rules may be missing.
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

/// The destination that DNAT gives a packet: this address, and one of these ports.
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
    /// As [`Ending::decided_by`].
    pub decided_by: Option<At>,
    /// Where the packet goes, if another tool's rule gave it a new destination that is known.
    pub translated: Option<NatTarget>,
    pub stays: bool,
    pub is_tie: bool,
}
