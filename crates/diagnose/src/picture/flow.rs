//! An arrow of a picture: the packets that take it, and their end.
//!
//! An arrow states no more than can be checked: [`PictureFlow::fits`] decides of any packet whether the arrow is about it.

use super::label::Label;
use crate::explain::VerdictKind;
use crate::traffic::TrafficRow;
use mesh::RuleReason;
use rules::PortRange;
use rules::simulate::{Packet, Verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowEndpoint {
    /// Everything outside of the pod.
    Network,
    /// A virtual machine behind an interface of the pod.
    Machine,
    /// Any process of the pod but the proxy.
    Application,
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

/// Packets with the same ends and the same verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFlow {
    /// The rows of the traffic that are drawn as one.
    pub(crate) rows: Vec<TrafficRow>,
    pub(crate) from: FlowEndpoint,
    pub(crate) to: FlowEndpoint,
    pub(crate) verdict: Verdict,
    pub(crate) label: Label,
    /// The option that decides, as its author writes it.
    pub(crate) option: Option<String>,
}

impl PictureFlow {
    /// The arrow is about such packets, if none before it is.
    pub fn fits(&self, packet: &Packet) -> bool {
        self.rows.iter().any(|row| row.fits(packet))
    }

    /// A packet that takes the arrow; `None` where there is no such interface.
    pub fn example(&self) -> Option<&Packet> {
        self.rows.iter().find_map(|row| row.example.as_ref())
    }

    /// `None` unless a mesh's rule decides.
    pub(crate) fn reason(&self) -> Option<RuleReason> {
        self.rows.iter().find_map(|row| RuleReason::named(row.end.origin?.name))
    }

    pub(crate) fn take_in(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.option = match (self.option.take(), other.option) {
            (Some(option), Some(more)) if option != more => Some(format!("{option}, {more}")),
            (option, more) => option.or(more),
        };
    }

    /// It is about all that no other rule takes.
    pub(crate) fn is_remainder(&self) -> bool {
        self.verdict == Verdict::Pass && self.rows.iter().any(|row| row.packets.is_everything())
    }

    pub fn end(&self) -> (VerdictKind, Option<PortRange>) {
        VerdictKind::of(self.verdict)
    }
}
