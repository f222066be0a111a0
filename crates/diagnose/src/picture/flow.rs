//! An arrow of a picture: which packets take it, and what becomes of them.
//!
//! An arrow states no more than can be checked: [`PictureFlow::fits`] decides of any packet whether the arrow is about it.

use super::label::{Label, TCP_PORTS};
use crate::Style;
use rules::simulate::{Direction, Packet, Verdict};
use rules::{Cidr, ConnState, Family, Gid, InterfaceName, Mark, PortRange, Protocol, UidRange, port::merge};

/// What becomes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowDisposition {
    /// A listener gets them, at one of these ports.
    Captured(PortRange),
    /// They go where they were sent.
    Passing,
    /// They end.
    Dropped,
    /// A rule that is not understood could decide.
    Unknown,
}

impl From<Verdict> for FlowDisposition {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Passing,
            Verdict::Redirect(ports) => Self::Captured(ports),
            Verdict::Tproxy(port) => Self::Captured(port.into()),
            Verdict::Drop => Self::Dropped,
            Verdict::Unknown => Self::Unknown,
        }
    }
}

impl FlowDisposition {
    pub fn word(self) -> &'static str {
        match self {
            Self::Captured(_) => "captured",
            Self::Passing => "passes",
            Self::Dropped => "dropped",
            Self::Unknown => "unknown",
        }
    }

    pub fn style(self) -> Style {
        match self {
            Self::Captured(_) => Style::Captured,
            Self::Passing => Style::Passing,
            Self::Dropped => Style::Dropped,
            Self::Unknown => Style::Quiet,
        }
    }
}

/// Where an arrow starts or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowEndpoint {
    /// Everything outside of the pod.
    Network,
    /// A virtual machine behind an interface of the pod.
    Machine,
    /// Any process of the pod but the proxy.
    Application,
    /// The mesh's proxy.
    Proxy,
}

impl FlowEndpoint {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Machine => "virtual machine",
            Self::Application => "application",
            Self::Proxy => "proxy",
        }
    }
}

/// What an arrow requires of a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Is {
    Tcp,
    Udp,
    Family(Family),
    /// To one of these ports, in ascending order and apart.
    Ports(Vec<PortRange>),
    To(Vec<Cidr>),
    From(Vec<Cidr>),
    FromPorts(Vec<PortRange>),
    /// Arriving at one of these interfaces, or leaving by it.
    Over(Vec<InterfaceName>),
    /// Of one of these users or groups.
    Of(Vec<UidRange>, Vec<Gid>),
    /// With this mark, before any rule has set one.
    Marked(Mark),
    /// What conntrack can't place.
    Invalid,
    Not(Box<Is>),
}

impl Is {
    pub(crate) fn ports(ports: &[PortRange]) -> Self {
        Self::Ports(merge(ports.iter().copied()))
    }

    pub(crate) fn not(self) -> Self {
        match self {
            Self::Not(other) => *other,
            other => Self::Not(Box::new(other)),
        }
    }

    fn holds(&self, packet: &Packet) -> bool {
        match self {
            Self::Tcp => packet.protocol == Protocol::Tcp,
            Self::Udp => packet.protocol == Protocol::Udp,
            Self::Family(family) => packet.family() == *family,
            Self::Ports(ports) => {
                let port = packet.destination.port();
                let at = ports.partition_point(|range| range.last().number() < port);
                ports.get(at).is_some_and(|range| range.contains(port))
            }
            Self::To(networks) => networks.iter().any(|network| network.contains(packet.destination.ip())),
            Self::From(networks) => networks.iter().any(|network| network.contains(packet.source.ip())),
            Self::FromPorts(ports) => ports.iter().any(|range| range.contains(packet.source.port())),
            Self::Over(interfaces) => {
                let (Direction::Inbound { interface, .. } | Direction::Outbound { interface, .. }) =
                    &packet.direction;
                interfaces.iter().any(|name| name.covers(interface))
            }
            Self::Of(users, groups) => match &packet.direction {
                Direction::Outbound { uid, gid, .. } => {
                    users.iter().any(|range| range.contains(*uid)) || groups.contains(gid)
                }
                Direction::Inbound { .. } => false,
            },
            Self::Marked(mark) => mark.covers(packet.mark),
            Self::Invalid => packet.state == ConnState::Invalid,
            Self::Not(other) => !other.holds(packet),
        }
    }
}

/// Packets that start and end alike, and become the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFlow {
    pub(crate) needs: Vec<Is>,
    pub(crate) from: FlowEndpoint,
    pub(crate) to: FlowEndpoint,
    pub(crate) disposition: FlowDisposition,
    pub(crate) label: Label,
    /// The option that decides, as its author writes it.
    pub(crate) option: Option<String>,
    /// Whether it is shown even if no packet takes it.
    pub(crate) shown: bool,
}

impl PictureFlow {
    /// Whether the arrow speaks of such packets, if none before it does.
    pub fn fits(&self, packet: &Packet) -> bool {
        self.needs.iter().all(|need| need.holds(packet))
    }

    /// Adds the ports of another arrow to this one, if both lead TCP to the proxy's own ports.
    pub(crate) fn takes_in_ports_of(&mut self, other: &Self) -> bool {
        let is_alike = self.to == FlowEndpoint::Proxy && other.to == FlowEndpoint::Proxy;
        let ([Is::Tcp, Is::Ports(ports)], [Is::Tcp, Is::Ports(more)], true) =
            (&mut self.needs[..], &other.needs[..], is_alike)
        else {
            return false;
        };
        *ports = merge(ports.iter().chain(more).copied());
        self.label = Label::ports("", TCP_PORTS, ports);
        self.option = with_option(self.option.take(), other.option.clone());
        true
    }

    /// Whether it is about all that no other rule takes.
    pub(crate) fn is_remainder(&self) -> bool {
        self.needs.is_empty() && self.disposition == FlowDisposition::Passing
    }

    /// What becomes of the packets.
    pub fn disposition(&self) -> FlowDisposition {
        self.disposition
    }
}

/// The options of two arrows that become one.
pub(crate) fn with_option(option: Option<String>, more: Option<String>) -> Option<String> {
    match (option, more) {
        (Some(option), Some(more)) if option != more => Some(format!("{option}, {more}")),
        (option, more) => option.or(more),
    }
}
