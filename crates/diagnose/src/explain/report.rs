//! The explanation as a document: all that a program or a text says of it, also of one that another machine has made.

use super::PacketQuery;
use crate::Style;
use crate::basis::{Basis, BasisReport};
use crate::compare::Packets;
use rules::PortRange;
use rules::simulate::{Direction, Verdict};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The answer as programs read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketReport {
    /// The rules on which the answer is based.
    basis: BasisReport,
    /// The source; null for an unknown address.
    source: Option<IpAddr>,
    /// The destination; null for an unknown address of the pod.
    destination: Option<IpAddr>,
    destination_port: u16,
    /// The inbound interface; null for outbound packets, or if unknown.
    in_interface: Option<String>,
    /// The outbound interface; null for inbound packets, or if unknown.
    out_interface: Option<String>,
    /// The user that sends it; null for inbound packets, or if the manifest sets none.
    uid: Option<u32>,
    /// Why no such packet can exist, whatever the rules; null if it can, or if unknown.
    pub unsent: Option<String>,
    #[serde(flatten)]
    pub explained: ExplanationReport,
}

impl PacketReport {
    pub fn new(
        basis: &Basis,
        question: &PacketQuery,
        unsent: Option<String>,
        explained: ExplanationReport,
    ) -> Self {
        let PacketQuery { packet, endpoint_names, .. } = question;
        let (source, destination) = endpoint_names.addresses(packet);
        let interface = endpoint_names.interface(packet).map(str::to_owned);
        let (in_interface, out_interface) = match &packet.direction {
            Direction::Inbound { .. } => (interface, None),
            Direction::Outbound { .. } => (None, interface),
        };
        Self {
            basis: basis.report(),
            source,
            destination,
            destination_port: packet.destination.port(),
            in_interface,
            out_interface,
            uid: endpoint_names.user(packet),
            unsent,
            explained,
        }
    }
}

/// The verdict of a packet and the way to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplanationReport {
    /// The end of the packet that is shown; its verdict is `depends` if packets of the question end in several ways.
    #[serde(flatten)]
    pub end: PacketEnd,
    /// The properties on which the verdict depends, in words; null where all packets end alike.
    pub depends_on: Option<String>,
    /// The ways in which they end; absent where all end alike. The rest is about the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<PacketCase>,
    /// The packet in words.
    pub example: String,
    /// The rule that decided.
    pub decided_by: Option<ExplainedRule>,
    /// Effects of the rules that users may not expect; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limited>,
    /// All rules that the packet meets, in order.
    pub trace: Vec<TraceEntry>,
}

/// A rule, or the policy of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedRule {
    /// The table of the rule.
    pub table: String,
    /// The chain of the rule.
    pub chain: String,
    /// Its number in the chain, from 1; null for the chain's policy.
    pub position: Option<usize>,
    /// The short name; null if unknown.
    pub rule: Option<String>,
    /// The text of the rule.
    pub text: String,
    /// The option that made the rule; empty for unconditional rules, null if unknown.
    pub option: Option<String>,
}

/// A rule that the packet meets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceEntry {
    #[serde(flatten)]
    pub rule: ExplainedRule,
    /// The hook from which the packet reached the chain; null in a base chain.
    pub hook: Option<String>,
    /// Whether the packet matches; null if unknown.
    pub matched: Option<bool>,
    /// The condition that fails or is unknown, and the packet's value; null if the packet matches.
    pub unmet: Option<String>,
}

/// Some of the packets that a question may be about, and how they end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketCase {
    /// The packets in words, such as `from 10.0.0.0/8`; empty for all others.
    pub text: String,
    /// The same as data.
    #[serde(rename = "traffic")]
    pub packets: Packets,
    #[serde(flatten)]
    pub end: PacketEnd,
}

/// A limit that affects the packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limited {
    /// The code of the finding, as in `lint`.
    pub code: String,
    /// The text for people.
    pub text: String,
    /// The remedy.
    pub remedy: String,
}

/// The end of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketEnd {
    pub verdict: VerdictKind,
    /// Whether the listener gets it with its destination (TPROXY); null without a listener.
    pub transparent: Option<bool>,
    /// The listener's port, the first of a range; null without a listener.
    pub port: Option<u16>,
    /// The last port, if a range of listeners shares the traffic.
    pub last_port: Option<u16>,
    /// The destination that a rule of another program gives it; null where none does.
    pub translated: Option<String>,
    /// The verdict in words.
    pub summary: String,
    /// The reason in words.
    pub reason: String,
}

/// The verdict of a packet, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    Captured,
    NotCaptured,
    Dropped,
    #[default]
    Unknown,
    Depends,
}

impl VerdictKind {
    /// The kind of a verdict, and the listeners' ports.
    pub fn of(verdict: Verdict) -> (Self, Option<PortRange>) {
        match verdict {
            Verdict::Pass => (Self::NotCaptured, None),
            Verdict::Redirect(ports) => (Self::Captured, Some(ports)),
            Verdict::Tproxy(port) => (Self::Captured, Some(port.into())),
            Verdict::Drop => (Self::Dropped, None),
            Verdict::Unknown => (Self::Unknown, None),
        }
    }

    /// The listeners' first port, and the last one where they share a range.
    pub(crate) fn bounds(ports: Option<PortRange>) -> (Option<u16>, Option<u16>) {
        let last = ports.filter(|ports| !ports.is_single()).map(|ports| ports.last().number());
        (ports.map(|ports| ports.first().number()), last)
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            Self::NotCaptured => "not captured",
            Self::Dropped => "dropped",
            Self::Unknown => "unknown",
            Self::Depends => "depends",
        }
    }

    pub fn style(self) -> Style {
        match self {
            Self::Captured => Style::Captured,
            Self::NotCaptured => Style::Passing,
            Self::Dropped | Self::Unknown => Style::Dropped,
            Self::Depends => Style::Strong,
        }
    }

    /// True if a listener gets the packet; `None` if it is dropped, or if that is unknown.
    pub fn is_captured(self) -> Option<bool> {
        match self {
            Self::Captured => Some(true),
            Self::NotCaptured => Some(false),
            Self::Dropped | Self::Unknown | Self::Depends => None,
        }
    }
}
