//! An arrow of a picture: which packets take it, and what becomes of them.
//!
//! An arrow states no more than can be checked: [`PictureFlow::fits`] decides of any packet whether the arrow is about it.

use super::label::Label;
use crate::explain::VerdictKind;
use crate::traffic::TrafficRow;
use mesh::RuleReason;
use rules::PortRange;
use rules::simulate::{Packet, Verdict};

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

/// Packets that start and end alike, and become the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFlow {
    /// The rows of the traffic that are drawn as one.
    pub(crate) rows: Vec<TrafficRow>,
    pub(crate) from: FlowEndpoint,
    pub(crate) to: FlowEndpoint,
    /// The verdict for the packets.
    pub(crate) verdict: Verdict,
    pub(crate) label: Label,
    /// The option that decides, as its author writes it.
    pub(crate) option: Option<String>,
}

impl PictureFlow {
    /// Whether the arrow speaks of such packets, if none before it does.
    pub fn fits(&self, packet: &Packet) -> bool {
        self.rows.iter().any(|row| row.fits(packet))
    }

    /// A packet that takes the arrow; `None` where there is no such interface.
    pub fn example(&self) -> Option<&Packet> {
        self.rows.iter().find_map(|row| row.example.as_ref())
    }

    /// The reason of the rule that decides, if a mesh's does.
    pub(crate) fn reason(&self) -> Option<RuleReason> {
        self.rows.iter().find_map(|row| RuleReason::named(row.end.origin?.name))
    }

    /// Adds the rows of another arrow.
    pub(crate) fn take_in(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.option = match (self.option.take(), other.option) {
            (Some(option), Some(more)) if option != more => Some(format!("{option}, {more}")),
            (option, more) => option.or(more),
        };
    }

    /// Whether it is about all that no other rule takes.
    pub(crate) fn is_remainder(&self) -> bool {
        self.verdict == Verdict::Pass && self.rows.iter().any(|row| row.packets.is_everything())
    }

    /// The kind of the verdict, and the listeners' ports.
    pub fn end(&self) -> (VerdictKind, Option<PortRange>) {
        VerdictKind::of(self.verdict)
    }
}
