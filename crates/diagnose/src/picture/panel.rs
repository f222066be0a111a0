//! The arrows of a configuration, in the order in which its rules decide.
//!
//! Of several arrows that fit a packet the first one has its disposition, as the first rule that matches decides.

use super::flow::{FlowEndpoint, PictureFlow};
use super::words::Known;
use crate::traffic::TrafficPart;
use rules::simulate::{Packet, PacketSet};

impl TrafficPart {
    /// In the order in which they are shown.
    pub(crate) const ALL: [Self; 4] = [Self::Inbound, Self::Machines, Self::Outbound, Self::Within];

    pub fn title(self) -> &'static str {
        match self {
            Self::Inbound => "Into the pod",
            Self::Machines => "From virtual machines",
            Self::Outbound => "Out of the pod",
            Self::Within => "Within the pod, usual calls",
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Machines => "machines",
            Self::Outbound => "outbound",
            Self::Within => "within",
        }
    }

    /// Processes of the pod send its packets.
    pub(crate) fn is_sent_here(self) -> bool {
        match self {
            Self::Inbound | Self::Machines => false,
            Self::Outbound | Self::Within => true,
        }
    }

    /// The source and the destination of its packets.
    pub(crate) fn ends(self) -> (FlowEndpoint, FlowEndpoint) {
        match self {
            Self::Inbound => (FlowEndpoint::Network, FlowEndpoint::Application),
            Self::Machines => (FlowEndpoint::Machine, FlowEndpoint::Network),
            Self::Outbound => (FlowEndpoint::Application, FlowEndpoint::Network),
            Self::Within => (FlowEndpoint::Application, FlowEndpoint::Application),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    pub(crate) part: TrafficPart,
    pub(crate) flows: Vec<PictureFlow>,
    /// The packets that no arrow speaks of: nothing usual sends them.
    pub(crate) unusual: Vec<PacketSet>,
    /// Packets of the part, one of each region.
    pub(crate) examples: Vec<Packet>,
}

impl Panel {
    pub(crate) fn of(part: TrafficPart, flows: Vec<PictureFlow>) -> Self {
        Self { part, flows, unusual: Vec::new(), examples: Vec::new() }
    }

    pub fn part(&self) -> TrafficPart {
        self.part
    }

    /// Its arrows; the first of them that fits a packet has its disposition.
    pub fn flows(&self) -> &[PictureFlow] {
        &self.flows
    }

    /// Packets of each kind that the rules tell apart.
    pub fn examples(&self) -> &[Packet] {
        &self.examples
    }

    /// Keeps the arrows of a summary: without the remainder that passes, unless that is all, and with one arrow for all
    /// ports of the proxy.
    pub(crate) fn summarize(&mut self) {
        let mut kept: Vec<PictureFlow> = Vec::new();
        let is_alike = |flow: &PictureFlow| {
            flow.to == FlowEndpoint::Proxy && flow.rows.iter().all(|row| row.packets.are_tcp_ports_alone())
        };
        for flow in self.flows.drain(..) {
            match kept.last_mut() {
                Some(last) if is_alike(last) && is_alike(&flow) => last.take_in(flow),
                Some(_) if flow.is_remainder() => {}
                _ => kept.push(flow),
            }
        }
        for flow in kept.iter_mut().filter(|flow| flow.rows.len() > 1 && is_alike(flow)) {
            flow.label = Known::ports(&flow.rows);
        }
        self.flows = kept;
    }

    pub(crate) fn row_of(&self, packet: &Packet) -> Option<usize> {
        let is_usual = !self.unusual.iter().any(|set| set.contains(packet));
        self.flows.iter().position(|flow| is_usual && flow.fits(packet))
    }
}
