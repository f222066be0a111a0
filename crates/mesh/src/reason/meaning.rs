//! What rules do, in terms that hold for every mesh: the one table of meanings, with the effect of each on packets and the
//! part of the traffic that it concerns. Explanations, the status and its counters read it.

/// What rules of a reason do, said so that it holds for every mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meaning {
    /// Captures what leaves for some networks, or for all.
    OutboundNetwork,
    /// Captures what leaves for some ports, or for all.
    OutboundPort,
    /// Captures what arrives at some ports, or at all.
    InboundPort,
    /// Captures DNS queries.
    Dns,
    /// Captures what the proxy calls in its own pod.
    ProxyCallsOwnPod,
    /// Captures what comes from somebody behind the pod, such as a virtual machine, as if the pod sent it.
    Machine,
    /// Captures DNS queries of somebody behind the pod.
    MachineDns,
    /// Hands to the listener for what leaves.
    ToOutboundListener,
    /// Hands to the listener for what arrives.
    ToInboundListener,
    /// Leaves ports alone, of what leaves.
    ExcludedOutboundPort,
    /// Leaves ports alone, of what arrives.
    ExcludedInboundPort,
    /// Leaves networks alone, of what leaves.
    ExcludedDestination,
    /// Leaves alone what arrives from some networks.
    ExcludedSource,
    /// Leaves interfaces alone, both ways.
    ExcludedInterface,
    /// Leaves users or groups of the application alone.
    ExcludedOwner,
    /// Leaves all users or groups alone but those listed.
    OtherOwners,
    /// Leaves alone, of what arrives, what comes from somebody behind the pod.
    MachineInterface,
    /// Leaves the tunnel of the mesh alone.
    TunnelPort,
    /// Leaves the proxy's own calls alone.
    ProxyOutbound,
    /// Leaves alone what the proxy hands to the application.
    ProxyToApplication,
    /// Leaves alone what the application calls in its own pod.
    ApplicationLoopback,
    /// Leaves the loopback network, or the loopback interface, alone.
    Loopback,
    /// Leaves DNS queries alone that are not captured as such.
    ExcludedDns,
    /// Leaves all alone that leaves: capturing it is switched off.
    OutboundOff,
    /// Leaves all alone that arrives: capturing it is switched off.
    InboundOff,
    /// Leads what leaves on to other rules.
    Outbound,
    /// Leads what arrives on to other rules.
    Inbound,
    /// Is about packets of connections that were handed over before.
    KnownConnection,
    /// Keeps DNS queries of the proxy and of others apart for conntrack.
    DnsZone,
    /// Drops what belongs to no connection.
    Dropped,
    /// Reports to a log, and changes nothing.
    Log,
}

/// What becomes of packets that such a rule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Captured,
    /// A rule before has decided that they are captured; this one sends them to the listener.
    HandedOver,
    LeftAlone,
    Dropped,
    /// Other rules decide.
    LedOn,
}

impl Effect {
    /// The word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            Self::LeftAlone => "left_alone",
            Self::Dropped => "dropped",
            Self::HandedOver | Self::LedOn => "led_on",
        }
    }
}

impl Meaning {
    /// What becomes of the packets, and which part of the traffic they are: `outbound`, `inbound`, `dns`, or `both` ways.
    pub fn effect(self) -> (Effect, &'static str) {
        use Effect::{Captured, Dropped, HandedOver, LedOn, LeftAlone};
        match self {
            Self::OutboundNetwork | Self::OutboundPort | Self::Machine => (Captured, "outbound"),
            Self::InboundPort | Self::ProxyCallsOwnPod => (Captured, "inbound"),
            Self::Dns | Self::MachineDns => (Captured, "dns"),
            Self::ToOutboundListener => (HandedOver, "outbound"),
            Self::ToInboundListener => (HandedOver, "inbound"),
            Self::ExcludedOutboundPort
            | Self::ExcludedDestination
            | Self::ExcludedOwner
            | Self::OtherOwners
            | Self::ProxyOutbound
            | Self::ApplicationLoopback
            | Self::Loopback
            | Self::OutboundOff => (LeftAlone, "outbound"),
            Self::ExcludedInboundPort
            | Self::ExcludedSource
            | Self::MachineInterface
            | Self::TunnelPort
            | Self::ProxyToApplication
            | Self::InboundOff => (LeftAlone, "inbound"),
            Self::ExcludedInterface => (LeftAlone, "both"),
            Self::ExcludedDns => (LeftAlone, "dns"),
            Self::Dropped => (Dropped, "inbound"),
            Self::Outbound => (LedOn, "outbound"),
            Self::Inbound => (LedOn, "inbound"),
            Self::DnsZone => (LedOn, "dns"),
            Self::KnownConnection | Self::Log => (LedOn, "both"),
        }
    }
}
