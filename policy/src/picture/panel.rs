//! The arrows of a configuration, in the order in which its rules decide.
//!
//! Of several arrows that fit a packet the first one tells its fate, as the first rule that matches does.

use super::flow::{Fate, Flow, Is, Place};
use super::label::Label;
use crate::Setting;
use crate::istio::{CaptureConfig, Interception, Reason};
use crate::sources::Dialect;
use rules::Cidr;
use rules::simulate::Packet;
use std::net::Ipv6Addr;

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

    /// Where its packets come from, and where they were sent to.
    pub(super) fn ends(self) -> (Place, Place) {
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
    pub(super) part: Part,
    pub(super) flows: Vec<Flow>,
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
    pub(super) fn of(&self, packet: &Packet) -> Option<usize> {
        self.flows.iter().position(|flow| flow.fits(packet))
    }

    /// Hides the arrows that none of these packets takes, and those behind which a packet finds others to the same end.
    /// Arrows that are shown anyway are shown where a packet comes to them.
    pub(super) fn keep_what_matters(&mut self, packets: &[Packet]) {
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

/// Collects arrows.
pub(super) struct Writer<'a> {
    pub(super) config: &'a CaptureConfig,
    dialect: &'a Dialect,
    part: Part,
    flows: Vec<Flow>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(config: &'a CaptureConfig, dialect: &'a Dialect, part: Part) -> Self {
        Self { config, dialect, part, flows: Vec::new() }
    }

    pub(super) fn finish(self) -> Panel {
        Panel { part: self.part, flows: self.flows }
    }

    pub(super) fn is_tproxy(&self) -> bool {
        matches!(self.config.interception, Interception::Tproxy { .. })
    }

    /// Those of the networks that are of a family that is captured; of the others there are no rules.
    pub(super) fn of_families(&self, networks: &[Cidr]) -> Vec<Cidr> {
        let is_captured = |network: &&Cidr| self.config.families().any(|family| family == network.family());
        networks.iter().filter(is_captured).copied().collect()
    }

    /// Adds an arrow of packets that nobody captures.
    pub(super) fn pass(
        &mut self,
        reason: Reason,
        label: Label,
        needs: impl IntoIterator<Item = Is>,
    ) -> &mut Flow {
        self.put(Fate::Passing, Some(reason), label, needs)
    }

    /// Adds an arrow to the proxy's listener for what leaves the pod.
    pub(super) fn capture_outbound(
        &mut self,
        reason: Reason,
        label: Label,
        needs: impl IntoIterator<Item = Is>,
    ) -> &mut Flow {
        self.put(Fate::Captured(self.config.outbound_listener), Some(reason), label, needs)
    }

    /// Adds an arrow to the proxy's listener for what arrives.
    pub(super) fn capture_inbound(
        &mut self,
        reason: Reason,
        label: Label,
        needs: impl IntoIterator<Item = Is>,
    ) -> &mut Flow {
        let ports = match self.config.interception {
            // One socket gets them all.
            Interception::Tproxy { .. } => self.config.inbound_listener.first().into(),
            Interception::Redirect | Interception::None => self.config.inbound_listener,
        };
        self.put(Fate::Captured(ports), Some(reason), label, needs)
    }

    /// Whether the packet goes to what counts as loopback.
    pub(super) fn loopback(&self) -> Is {
        Is::To(vec![self.config.loopback_v4, Cidr::host(Ipv6Addr::LOCALHOST.into())])
    }

    /// Adds an arrow to what counts as loopback. It tells nothing new where that is 127.0.0.1 or all of 127.0.0.0/8.
    pub(super) fn pass_loopback(&mut self) {
        let network = self.config.loopback_v4;
        let label = Label::networks("what counts as loopback: ", &[network]);
        let needs = [self.loopback()];
        self.pass(Reason::Loopback, label, needs).shown &= !network.address().is_loopback();
    }

    pub(super) fn put(
        &mut self,
        fate: Fate,
        reason: Option<Reason>,
        label: Label,
        needs: impl IntoIterator<Item = Is>,
    ) -> &mut Flow {
        let (from, to) = self.part.ends();
        let option = reason.and_then(|reason| self.option(reason.settings()));
        let needs = needs.into_iter().collect();
        let shown = self.part != Part::Within;
        self.flows.push(Flow { needs, from, to, fate, label, option, shown });
        self.flows.last_mut().expect("just added")
    }

    /// What becomes of everything else.
    pub(super) fn rest(&mut self, label: &str, setting: Option<Setting>) {
        let option = setting.and_then(|setting| self.option(&[setting]));
        self.put(Fate::Passing, None, Label::plain(label), []).option = option;
    }

    /// The settings as their author writes them: by the letter, where there is one.
    pub(super) fn option(&self, settings: &[Setting]) -> Option<String> {
        let names = settings.iter().map(|setting| match (self.dialect.name(*setting), setting.row().short) {
            (Some(name), _) => name.to_owned(),
            (None, Some(letter)) => format!("-{letter}"),
            (None, None) => setting.row().option(),
        });
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}
