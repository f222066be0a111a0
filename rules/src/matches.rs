//! iptables matches, and their field conditions ([`crate::field`]) for walks and nf_tables.

use crate::field::{Condition, Field, Interval, Intervals, interface_interval, state_bit};
use crate::{Cidr, Comment, Gid, InterfaceName, Mark, PortRange, PortSet, UidRange};
use std::{collections::BTreeSet, fmt};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Negatable<T> {
    Is(T),
    Not(T),
}

impl<T> Negatable<T> {
    pub fn value(&self) -> &T {
        match self {
            Self::Is(value) | Self::Not(value) => value,
        }
    }

    pub fn is_negated(&self) -> bool {
        matches!(self, Self::Not(_))
    }

    pub fn sign(&self) -> &'static str {
        if self.is_negated() { "! " } else { "" }
    }

    fn on(&self, field: Field, values: impl Into<Intervals>) -> Condition {
        Condition { field, negated: self.is_negated(), values: values.into() }
    }
}

impl<T: fmt::Display> Negatable<T> {
    fn option(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        write!(f, "{}{name} {}", self.sign(), self.value())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnState {
    /// Belongs to no connection that conntrack understands.
    Invalid,
    /// Starts a connection.
    New,
    /// Starts a connection that another connection announced.
    Related,
    /// Belongs to a connection seen in both directions.
    Established,
}

impl ConnState {
    /// In the order that iptables prints.
    pub const ALL: [Self; 4] = [Self::Invalid, Self::New, Self::Related, Self::Established];

    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "INVALID",
            Self::New => "NEW",
            Self::Related => "RELATED",
            Self::Established => "ESTABLISHED",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnStates(BTreeSet<ConnState>);

impl ConnStates {
    pub fn new(states: impl IntoIterator<Item = ConnState>) -> Option<Self> {
        let states = BTreeSet::from_iter(states);
        (!states.is_empty()).then_some(Self(states))
    }

    pub fn states(&self) -> &BTreeSet<ConnState> {
        &self.0
    }
}

impl From<ConnState> for ConnStates {
    fn from(state: ConnState) -> Self {
        Self([state].into())
    }
}

impl fmt::Display for ConnStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|state| state.name()).collect::<Vec<_>>().join(","))
    }
}

/// A rule condition; a packet must fulfil all conditions. The variants are in the canonical order of matches: the kernel's own
/// listing starts with `-s -d -i -o -p`, and the extensions follow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    Source(Negatable<Cidr>),
    Destination(Negatable<Cidr>),
    InInterface(Negatable<InterfaceName>),
    OutInterface(Negatable<InterfaceName>),
    Protocol(Protocol),
    SourcePort(Negatable<PortRange>),
    DestinationPort(Negatable<PortRange>),
    /// `-m tcp` or `-m udp` without options, after `-p`: deleting another program's rule that has this module requires it.
    ProtocolModule(Protocol),
    DestinationPorts(Negatable<PortSet>),
    /// `-m owner --uid-owner`, one user or range: the user whose process created the socket. Local output only.
    UidOwner(Negatable<UidRange>),
    /// `-m owner --gid-owner`: the group of the process that created the socket. Local output only.
    GidOwner(Negatable<Gid>),
    ConnState(Negatable<ConnStates>),
    Mark(Negatable<Mark>),
    /// `-m connmark`: the mark of the packet's connection.
    Connmark(Negatable<Mark>),
    /// `-m comment`: always true; names the rule's owner.
    Comment(Comment),
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(module) = self.module().filter(|_| !matches!(self, Self::ProtocolModule(_))) {
            write!(f, "-m {module} ")?;
        }
        match self {
            Self::Source(m) => m.option(f, "-s"),
            Self::Destination(m) => m.option(f, "-d"),
            Self::InInterface(m) => m.option(f, "-i"),
            Self::OutInterface(m) => m.option(f, "-o"),
            Self::Protocol(protocol) => write!(f, "-p {protocol}"),
            Self::SourcePort(m) => m.option(f, "--sport"),
            Self::DestinationPort(m) => m.option(f, "--dport"),
            Self::DestinationPorts(m) => m.option(f, "--dports"),
            Self::UidOwner(m) => m.option(f, "--uid-owner"),
            Self::GidOwner(m) => m.option(f, "--gid-owner"),
            Self::ConnState(m) => m.option(f, "--ctstate"),
            Self::Mark(m) | Self::Connmark(m) => m.option(f, "--mark"),
            Self::ProtocolModule(protocol) => write!(f, "-m {protocol}"),
            Self::Comment(comment) => write!(f, "--comment \"{comment}\""),
        }
    }
}

impl Match {
    /// iptables module to load (`-m NAME`); `None` for built-in and protocol conditions.
    pub fn module(&self) -> Option<&'static str> {
        match self {
            Self::Source(_)
            | Self::Destination(_)
            | Self::InInterface(_)
            | Self::OutInterface(_)
            | Self::Protocol(_)
            | Self::SourcePort(_)
            | Self::DestinationPort(_) => None,
            Self::ProtocolModule(Protocol::Tcp) => Some("tcp"),
            Self::ProtocolModule(Protocol::Udp) => Some("udp"),
            Self::DestinationPorts(_) => Some("multiport"),
            Self::UidOwner(_) | Self::GidOwner(_) => Some("owner"),
            Self::ConnState(_) => Some("conntrack"),
            Self::Mark(_) => Some("mark"),
            Self::Connmark(_) => Some("connmark"),
            Self::Comment(_) => Some("comment"),
        }
    }

    pub fn field(&self) -> Option<Field> {
        self.condition().map(|condition| condition.field)
    }

    /// The equivalent nf_tables condition; `None` if every packet matches.
    pub fn condition(&self) -> Option<Condition> {
        let number = |number: u32| Interval::one(number.into());
        Some(match self {
            Self::Source(m) => m.on(Field::Source(m.value().family()), m.value().interval()),
            Self::Destination(m) => m.on(Field::Destination(m.value().family()), m.value().interval()),
            Self::InInterface(m) => m.on(Field::InInterface, interface_interval(m.value())),
            Self::OutInterface(m) => m.on(Field::OutInterface, interface_interval(m.value())),
            Self::Protocol(protocol) => Condition::protocol(*protocol),
            Self::SourcePort(m) => m.on(Field::SourcePort, m.value().interval()),
            Self::DestinationPort(m) => m.on(Field::DestinationPort, m.value().interval()),
            Self::DestinationPorts(m) => {
                let ranges = m.value().ranges().iter().map(|ports| ports.interval());
                m.on(Field::DestinationPort, Intervals::from_iter(ranges))
            }
            Self::UidOwner(m) => m.on(Field::Uid, m.value().interval()),
            Self::GidOwner(m) => m.on(Field::Gid, number(m.value().number())),
            Self::ConnState(m) => {
                let bits = m.value().states().iter().map(|state| number(state_bit(*state).into()));
                m.on(Field::ConnState, Intervals::from_iter(bits))
            }
            Self::Mark(m) => m.on(Field::Mark(m.value().mask), number(m.value().value)),
            Self::Connmark(m) => m.on(Field::Connmark(m.value().mask), number(m.value().value)),
            Self::ProtocolModule(_) | Self::Comment(_) => return None,
        })
    }
}
