//! What rules do, in terms that hold for every mesh: the one table of meanings. Explanations, the status and its counters
//! read it.

use rules::field::Field;
use rules::{Family, TrafficEffect};

const NOTHING: &[Field] = &[];
const DESTINATION: &[Field] = &[Field::Destination(Family::V4), Field::Destination(Family::V6)];
const SOURCE: &[Field] = &[Field::Source(Family::V4), Field::Source(Family::V6)];
const PORT: &[Field] = &[Field::DestinationPort];
const INTERFACE: &[Field] = &[Field::InInterface, Field::OutInterface];
const OWNER: &[Field] = &[Field::Uid, Field::Gid];

/// Makes the enum of meanings and its table.
///
/// `/// DOC; MEANING: EFFECT "DIRECTION" ABOUT, COUNTED;`, where the last is a phrase: the words before a list, those in place of
/// an empty one, and those after.
macro_rules! meanings {
    ($($(#[doc = $doc:literal])* $meaning:ident: $effect:ident $direction:literal $about:ident, $counted:tt;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Meaning {
            $($(#[doc = $doc])* $meaning,)*
        }

        const TABLE: &[MeaningRow] = &[$(MeaningRow {
            effect: TrafficEffect::$effect,
            direction: $direction,
            about: $about,
            counted: meanings!(@phrase $counted),
        },)*];
    };
    (@phrase [$before:literal, $all:literal, $after:literal]) => {
        Phrase { before: $before, all: $all, after: $after }
    };
}

meanings! {
    /// Captures what leaves for some networks, or for all.
    OutboundNetwork: Captured "outbound" DESTINATION, ["outbound, ", "outbound, all other destinations", ""];
    /// Captures what leaves for some ports, or for all.
    OutboundPort: Captured "outbound" PORT, ["outbound, ", "outbound, all other destinations", ""];
    /// Captures what arrives at some ports, or at all.
    InboundPort: Captured "inbound" PORT, ["inbound, ", "inbound, all other ports", ""];
    /// Captures DNS queries.
    Dns: Captured "dns" DESTINATION, ["DNS queries ", "DNS queries to every server", ""];
    /// Captures what the proxy calls in its own pod.
    ProxyCallsOwnPod: Captured "inbound" OWNER,
        ["the proxy's calls to its own pod, ", "the proxy's calls to its own pod", ""];
    /// Captures what comes from a guest behind the pod, such as a virtual machine, as if the pod sent it.
    VirtualMachine: Captured "outbound" INTERFACE, ["outbound, ", "outbound", ""];
    /// Captures DNS queries of a guest behind the pod.
    VirtualMachineDns: Captured "dns" INTERFACE, ["DNS queries, ", "DNS queries", ""];
    /// Hands to the listener for what leaves, as a rule before has decided.
    ToOutboundListener: HandedOver "outbound" NOTHING, ["", "connections handed to the proxy, outbound", ""];
    /// Hands to the listener for what arrives, as a rule before has decided.
    ToInboundListener: HandedOver "inbound" NOTHING, ["", "connections handed to the proxy, inbound", ""];
    /// Excludes ports, of what leaves.
    ExcludedOutboundPort: Excluded "outbound" PORT, ["outbound, ", "outbound", ""];
    /// Excludes ports, of what arrives.
    ExcludedInboundPort: Excluded "inbound" PORT, ["inbound, ", "inbound", ""];
    /// Excludes networks, of what leaves.
    ExcludedDestination: Excluded "outbound" DESTINATION, ["outbound, ", "outbound", ""];
    /// Excludes what arrives from some networks.
    ExcludedSource: Excluded "inbound" SOURCE, ["inbound, ", "inbound", ""];
    /// Excludes interfaces, both ways.
    ExcludedInterface: Excluded "both" INTERFACE, ["", "", ""];
    /// Excludes users or groups of the application, perhaps for some ports alone.
    ExcludedOwner: Excluded "outbound" OWNER, ["outbound, ", "outbound, every group", ""];
    /// Excludes all users or groups but those listed.
    OtherOwners: Excluded "outbound" OWNER, ["outbound, ", "outbound, every group", ""];
    /// Excludes, of what arrives, what comes from a guest behind the pod.
    VirtualMachineInterface: Excluded "inbound" INTERFACE, ["", "", ""];
    /// Excludes the tunnel of the mesh.
    TunnelPort: Excluded "inbound" PORT, ["inbound, ", "inbound", ": the tunnel"];
    /// Excludes the proxy's own calls.
    ProxyOutbound: Excluded "outbound" OWNER, ["the proxy's own calls, ", "the proxy's own calls", ""];
    /// Excludes the proxy's own DNS queries.
    ProxyDns: Excluded "dns" OWNER, ["the proxy's own DNS queries, ", "the proxy's own DNS queries", ""];
    /// Excludes what the proxy hands to the application.
    ProxyToApplication: Excluded "inbound" NOTHING, ["", "what the proxy hands to the application", ""];
    /// Keeps what the proxy hands to the application, and the answers, on their way.
    ProxyAnswers: LedOn "inbound" NOTHING,
        ["", "what the proxy hands to the application, and the answers", ""];
    /// Excludes what the application calls in its own pod.
    ApplicationLoopback: Excluded "outbound" NOTHING, ["", "the application's calls to its own pod", ""];
    /// Excludes the loopback network, or the loopback interface.
    Loopback: Excluded "outbound" DESTINATION, ["", "outbound, to loopback", ""];
    /// Excludes DNS queries that are not captured as such.
    ExcludedDns: Excluded "dns" NOTHING, ["", "DNS queries over TCP, but for the proxy's", ""];
    /// Excludes all that leaves: capturing it is switched off.
    OutboundOff: Excluded "outbound" NOTHING, ["", "outbound, all of it", ""];
    /// Excludes all that arrives: capturing it is switched off.
    InboundOff: Excluded "inbound" NOTHING, ["", "inbound, all of it", ""];
    /// Leads what leaves from a base chain into the mesh's.
    Outbound: LedOn "outbound" NOTHING, ["", "outbound: came by", ""];
    /// Leads what arrives from a base chain into the mesh's.
    Inbound: LedOn "inbound" NOTHING, ["", "inbound: came by", ""];
    /// Leads DNS queries from a base chain into the mesh's.
    DnsJump: LedOn "dns" NOTHING, ["", "DNS: came by", ""];
    /// Leads what leaves to the rules for DNS.
    DnsChain: LedOn "dns" NOTHING, ["", "outbound, to the rules for DNS", ""];
    /// Keeps DNS queries of the proxy and of others apart for conntrack.
    DnsZone: LedOn "dns" NOTHING, ["", "DNS, kept apart for conntrack", ""];
    /// Is about packets of connections that were handed over before.
    KnownConnection: LedOn "both" NOTHING, ["", "packets of connections that were handed over before", ""];
    /// Drops what belongs to no connection.
    Dropped: Dropped "inbound" NOTHING, ["", "packets that belong to no connection", ""];
    /// Reports to a log, and changes nothing.
    Log: LedOn "both" NOTHING, ["", "written to the kernel's log", ""];
}

#[derive(Clone, Copy, Debug)]
pub struct MeaningRow {
    pub effect: TrafficEffect,
    /// The traffic: `outbound`, `inbound`, `dns`, or `both` ways.
    pub direction: &'static str,
    /// The fields of which one's condition holds the items of the setting's list.
    pub about: &'static [Field],
    /// The packets that such rules count.
    pub counted: Phrase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phrase {
    pub before: &'static str,
    /// All words in place of an empty list.
    pub all: &'static str,
    pub after: &'static str,
}

impl Meaning {
    pub fn row(self) -> &'static MeaningRow {
        &TABLE[self as usize]
    }

    /// The exclusion that a negated condition on the field means, of a rule that captures.
    pub fn exception(self, field: Field) -> Option<Self> {
        match (self, field) {
            (Self::InboundPort, Field::DestinationPort) => Some(Self::TunnelPort),
            (_, Field::Mark(_)) => Some(Self::ProxyOutbound),
            _ => None,
        }
    }
}
