//! The arrows of a configuration, in the order in which its rules decide.
//!
//! Of several arrows that fit a packet the first one tells its fate, as the first rule that matches does.

use super::flow::{Flow, Place};
use rules::simulate::Packet;

/// A part of the traffic, by where it comes from and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// From others to the pod.
    Inbound,
    /// From virtual machines of the pod.
    Machines,
    /// From processes of the pod to others.
    Outbound,
    /// From processes of the pod to the pod itself.
    Within,
}

impl Part {
    /// What it is called.
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
    pub(crate) fn ends(self) -> (Place, Place) {
        match self {
            Self::Inbound => (Place::Network, Place::Application),
            Self::Machines => (Place::Machine, Place::Network),
            Self::Outbound => (Place::Application, Place::Network),
            Self::Within => (Place::Application, Place::Application),
        }
    }
}

/// A part of the traffic and its arrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    pub(crate) part: Part,
    pub(crate) flows: Vec<Flow>,
}

impl Panel {
    /// Which part of the traffic it is.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Its arrows, the first of which that fits a packet tells its fate.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Those that a picture shows; the others are rare.
    pub fn shown(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().filter(|flow| flow.shown)
    }

    /// The arrow that speaks of a packet.
    pub(crate) fn of(&self, packet: &Packet) -> Option<usize> {
        self.flows.iter().position(|flow| flow.fits(packet))
    }

    /// Hides the arrows that none of these packets takes, and those behind which a packet finds others to the same end.
    /// Arrows that are shown anyway are shown where a packet comes to them.
    pub(crate) fn keep_what_matters(&mut self, packets: &[Packet]) {
        let mut matters = vec![false; self.flows.len()];
        for packet in packets {
            let mut fitting = self.flows.iter().enumerate().filter(|(_, flow)| flow.fits(packet)).peekable();
            let Some(&(first, Flow { fate, .. })) = fitting.peek() else { continue };
            let mut at = first;
            for (next, flow) in fitting {
                if flow.fate != *fate {
                    at = first;
                    break;
                }
                at = next;
                if flow.shown {
                    break;
                }
            }
            matters[at] = true;
        }
        self.flows.iter_mut().zip(matters).for_each(|(flow, matters)| flow.shown = matters);
    }
}
