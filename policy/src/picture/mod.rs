//! Pictures of traffic: where a pod's packets go, and which option decides.
//!
//! A picture is a model first: parts of the traffic, each with arrows in the order in which rules decide. It is drawn
//! as SVG ([`Picture::svg`]) or as text for a terminal ([`Picture::text`]). It comes from a configuration, and tests
//! hold each arrow against the simulator's walks through the rules that the same configuration makes. The way of a
//! packet that somebody asks about is lit in it.

mod arriving;
mod colours;
mod drawing;
mod flow;
mod label;
#[cfg(test)]
mod laws;
mod layout;
mod leaving;
mod letters;
mod panel;
mod svg;
mod text;

pub use flow::{Fate, Flow, Place};
pub use panel::{Panel, Part};

use crate::Setting;
use crate::explain::Explanation;
use crate::istio::{self, CaptureConfig, Interception};
use crate::mesh::Capture;
use crate::sources::Dialect;
use label::Label;
use rules::simulate::{Direction, Packet};
use rules::{ConnState, Family, InterfaceName};

/// What becomes of a pod's traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    title: String,
    /// What holds for all of it.
    notes: Vec<String>,
    panels: Vec<Panel>,
    /// Whether IPv6 is captured too, and which interfaces are virtual machines'.
    ipv6: bool,
    machines: Vec<InterfaceName>,
    way: Option<Way>,
}

/// The way of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    /// The panel and the arrow in it.
    at: (usize, usize),
    /// The packet in words.
    packet: String,
    /// The rule that decides, as a sentence.
    rule: Option<String>,
}

/// What becomes of the traffic that a configuration describes, in the words of whoever has written it.
pub fn of(capture: &Capture, dialect: &Dialect) -> Picture {
    istio::of(capture).map_or_else(|| of_skipped(""), |config| of_istio(config, dialect))
}

fn of_istio(config: &CaptureConfig, dialect: &Dialect) -> Picture {
    let panels = [
        Some(arriving::inbound(config, dialect)),
        arriving::machines(config, dialect),
        Some(leaving::outbound(config, dialect)),
        leaving::within(config, dialect),
    ];
    let dual_stack =
        dialect.name(Setting::DualStack).map_or_else(|| Setting::DualStack.row().option(), str::to_owned);
    let families = match config.ipv6 {
        true => "IPv4 and IPv6".to_owned(),
        false => format!("IPv4; all IPv6 passes ({dual_stack})"),
    };
    let mode = match config.interception {
        Interception::Redirect => format!("REDIRECT, {families}"),
        Interception::Tproxy { .. } => format!("TPROXY inbound, REDIRECT outbound, {families}"),
        Interception::None => "NONE: nothing is captured".to_owned(),
    };
    Picture {
        title: "What becomes of the pod's traffic".to_owned(),
        notes: vec![format!("Mode {mode}.")],
        panels: panels.into_iter().flatten().collect(),
        ipv6: config.ipv6,
        machines: config.vm_interfaces.clone(),
        way: None,
    }
}

/// The same of a pod of which nothing is captured, whatever is asked for.
pub fn of_skipped(reason: &str) -> Picture {
    let panel = |part: Part| {
        let (from, to) = part.ends();
        let label = Label::plain("everything");
        let flow =
            Flow { needs: Vec::new(), from, to, fate: Fate::Passing, label, option: None, shown: true };
        Panel { part, flows: vec![flow] }
    };
    Picture {
        title: "What becomes of the pod's traffic".to_owned(),
        notes: vec![format!("Nothing of the pod is captured: {reason}.")],
        panels: vec![panel(Part::Inbound), panel(Part::Outbound)],
        ipv6: true,
        machines: Vec::new(),
        way: None,
    }
}

/// The way of a packet through rules that no configuration describes.
pub fn of_way(explanation: &Explanation<'_>) -> Picture {
    Picture {
        title: String::new(),
        notes: Vec::new(),
        panels: Vec::new(),
        ipv6: true,
        machines: Vec::new(),
        way: None,
    }
    .with_way(explanation)
}

impl Picture {
    /// Names whose traffic it is, such as a pod.
    pub fn of_object(mut self, name: &str) -> Self {
        self.title = format!("What becomes of the traffic of {name}");
        self
    }

    /// Its parts, in the order in which they are shown.
    pub fn panels(&self) -> &[Panel] {
        &self.panels
    }

    /// The arrow that speaks of a packet: of one that starts a connection or belongs to none, as it comes from a process
    /// or arrives. `None` for packets that the picture does not speak of.
    pub fn flow_of(&self, packet: &Packet) -> Option<&Flow> {
        let (panel, flow) = self.at(packet)?;
        Some(&self.panels[panel].flows[flow])
    }

    fn at(&self, packet: &Packet) -> Option<(usize, usize)> {
        let spoken_of = (packet.mark, packet.connmark) == (0, 0)
            && (packet.family() == Family::V4 || self.ipv6)
            && matches!(packet.state, ConnState::New | ConnState::Invalid);
        let part = self.part_of(packet).filter(|_| spoken_of)?;
        let panel = self.panels.iter().position(|panel| panel.part == part)?;
        let flow = self.panels[panel].of(packet)?;
        // What belongs to no connection is dropped at most; what captures never sees it.
        let last = self.panels[panel].flows.iter().rposition(|flow| flow.fate == Fate::Dropped);
        let seen = packet.state == ConnState::New || last.is_some_and(|last| flow <= last);
        seen.then_some((panel, flow))
    }

    fn part_of(&self, packet: &Packet) -> Option<Part> {
        match &packet.direction {
            // The kernel takes no such packet from outside.
            Direction::Inbound { .. } if packet.destination.ip().is_loopback() => None,
            Direction::Inbound { interface, .. }
                if self.machines.iter().any(|name| name.covers(interface)) =>
            {
                Some(Part::Machines)
            }
            Direction::Inbound { .. } => Some(Part::Inbound),
            Direction::Outbound { interface, .. } if *interface == InterfaceName::loopback().as_str() => {
                Some(Part::Within)
            }
            Direction::Outbound { .. } => Some(Part::Outbound),
        }
    }

    /// Lights the way of the packet, and names the rule that decides. A packet that no arrow speaks of, or that ends
    /// otherwise, gets an arrow of its own.
    pub fn with_way(mut self, explanation: &Explanation<'_>) -> Self {
        let packet = explanation.packet();
        let fate = Fate::from(explanation.outcome().verdict);
        let at = self.at(packet).filter(|(panel, flow)| self.panels[*panel].flows[*flow].fate == fate);
        let at = at.unwrap_or_else(|| self.own_arrow(explanation, fate));
        self.panels[at.0].flows[at.1].shown = true;
        let sentence = explanation.sentence();
        self.title = format!("{}{}", sentence[..1].to_uppercase(), &sentence[1..]);
        self.way = Some(Way { at, packet: explanation.packet_line(), rule: explanation.deciding_rule() });
        self
    }

    fn own_arrow(&mut self, explanation: &Explanation<'_>, fate: Fate) -> (usize, usize) {
        let part = self.part_of(explanation.packet()).unwrap_or(Part::Inbound);
        let panel = self.panels.iter().position(|panel| panel.part == part).unwrap_or_else(|| {
            self.panels.push(Panel { part, flows: Vec::new() });
            self.panels.len() - 1
        });
        let (from, to) = part.ends();
        let label = Label::plain("this packet");
        let flow = Flow { needs: Vec::new(), from, to, fate, label, option: None, shown: true };
        self.panels[panel].flows.insert(0, flow);
        (panel, 0)
    }
}
