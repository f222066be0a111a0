//! The arrows of a configuration, in the order in which its rules decide.
//!
//! Of several arrows that fit a packet the first one has its disposition, as the first rule that matches decides.

use super::flow::{FlowEndpoint, PictureFlow};
use rules::simulate::Packet;
use std::collections::BTreeSet;

/// A part of the traffic, by where it comes from and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPart {
    /// From others to the pod.
    Inbound,
    /// From virtual machines of the pod.
    Machines,
    /// From processes of the pod to others.
    Outbound,
    /// From processes of the pod to the pod itself.
    Within,
}

impl TrafficPart {
    pub fn title(self) -> &'static str {
        match self {
            Self::Inbound => "Into the pod",
            Self::Machines => "From virtual machines",
            Self::Outbound => "Out of the pod",
            Self::Within => "Within the pod, usual calls",
        }
    }

    /// Whether processes of the pod send its packets.
    pub(crate) fn is_sent_here(self) -> bool {
        match self {
            Self::Inbound | Self::Machines => false,
            Self::Outbound | Self::Within => true,
        }
    }

    /// Where its packets come from, and where they were sent to.
    pub(crate) fn ends(self) -> (FlowEndpoint, FlowEndpoint) {
        match self {
            Self::Inbound => (FlowEndpoint::Network, FlowEndpoint::Application),
            Self::Machines => (FlowEndpoint::Machine, FlowEndpoint::Network),
            Self::Outbound => (FlowEndpoint::Application, FlowEndpoint::Network),
            Self::Within => (FlowEndpoint::Application, FlowEndpoint::Application),
        }
    }
}

/// A part of the traffic and its arrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    pub(crate) part: TrafficPart,
    pub(crate) flows: Vec<PictureFlow>,
}

impl Panel {
    pub fn part(&self) -> TrafficPart {
        self.part
    }

    /// Its arrows; the first of them that fits a packet has its disposition.
    pub fn flows(&self) -> &[PictureFlow] {
        &self.flows
    }

    /// Those that a picture shows; the others are rare.
    pub fn shown(&self) -> impl Iterator<Item = &PictureFlow> {
        self.shown_rows().map(|(_, flow)| flow)
    }

    /// The same with their numbers.
    pub(crate) fn shown_rows(&self) -> impl Iterator<Item = (usize, &PictureFlow)> {
        self.flows.iter().enumerate().filter(|(_, flow)| flow.shown)
    }

    /// Keeps what a summary shows: not what is left to pass, unless that is all, and one arrow for all ports of the proxy.
    pub(crate) fn summarize(&mut self) {
        let mut kept: Vec<PictureFlow> = Vec::new();
        for flow in self.flows.drain(..).filter(|flow| flow.shown) {
            let is_merged = kept.last_mut().is_some_and(|last| last.takes_in_ports_of(&flow));
            let is_left_out = flow.is_remainder() && !kept.is_empty();
            if !is_merged && !is_left_out {
                kept.push(flow);
            }
        }
        self.flows = kept;
    }

    /// The arrow that speaks of a packet.
    pub(crate) fn of(&self, packet: &Packet) -> Option<usize> {
        self.flows.iter().position(|flow| flow.fits(packet))
    }

    /// Hides the arrows that none of these packets takes, and those after which a packet finds others to the same end.
    pub(crate) fn keep_what_matters(&mut self, packets: &[Packet]) {
        let mut matters = vec![false; self.flows.len()];
        let mut is_first = matters.clone();
        let mut free: BTreeSet<Vec<usize>> = BTreeSet::new();
        for packet in packets {
            let fitting = || self.flows.iter().enumerate().filter(|(_, flow)| flow.fits(packet));
            let Some((first, PictureFlow { disposition, .. })) = fitting().next() else { continue };
            let alike = fitting().take_while(|(_, flow)| flow.disposition == *disposition).count();
            is_first[first] = true;
            match fitting().count() > alike {
                true => matters[first] = true,
                false => drop(free.insert(fitting().map(|(at, _)| at).collect())),
            }
        }
        // These end alike whichever of their arrows is shown.
        for fitting in free {
            if !fitting.iter().any(|at| matters[*at])
                && let Some(last) = fitting.iter().rfind(|at| is_first[**at])
            {
                matters[*last] = true;
            }
        }
        self.flows.iter_mut().zip(matters).for_each(|(flow, matters)| flow.shown = matters);
    }
}
