//! The model of a picture: its parts, and the path of a packet through them.

use super::flow::{FlowDisposition, Is, PictureFlow};
use super::label::Label;
use super::panel::{Panel, TrafficPart};
use crate::explain::Explanation;
use mesh::Setting;
use mesh::sources::Dialect;
use rules::simulate::{Direction, Packet};
use rules::{ConnState, Family, InterfaceName, Mark};

/// What becomes of a pod's traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub(super) title: String,
    /// What holds for all of it.
    pub(super) notes: Vec<String>,
    pub(super) panels: Vec<Panel>,
    /// What the proxy is called.
    pub(super) proxy: &'static str,
    /// Whether only the main paths are shown.
    pub(super) is_summary: bool,
    /// Whether it covers IPv6 too.
    pub(super) ipv6: bool,
    /// The interfaces by which virtual machines send.
    pub(super) machines: Vec<InterfaceName>,
    /// Marks that a sender may have set; packets with others are not covered.
    pub(super) marks: Vec<Mark>,
    pub(super) path: Option<PacketPath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PacketPath {
    /// The panel and the arrow in it.
    pub(super) at: (usize, usize),
    /// The packet in words.
    pub(super) packet: String,
    /// The rule that decides, as a sentence.
    pub(super) rule: Option<String>,
}

impl PacketPath {
    /// Whether the packet takes this row of this panel.
    pub(super) fn is_at(&self, panel: usize, row: usize) -> bool {
        self.at == (panel, row)
    }
}

/// A setting as its author writes it: by its letter, where there is one.
pub(crate) fn option(setting: Setting, dialect: &Dialect) -> String {
    dialect.name(setting).map_or_else(|| setting.row().short_option(), str::to_owned)
}

impl Picture {
    /// A picture of these parts, of which `note` states what holds for all. `ipv6` is whether it covers IPv6 too,
    /// `machines` by which interfaces virtual machines send.
    pub(crate) fn new(note: String, panels: Vec<Panel>, ipv6: bool, machines: Vec<InterfaceName>) -> Self {
        let title = "Where the pod's traffic goes".to_owned();
        Self {
            title,
            notes: vec![note],
            panels,
            proxy: "proxy",
            is_summary: false,
            ipv6,
            machines,
            marks: Vec::new(),
            path: None,
        }
    }

    /// Names whose traffic it is, such as a pod.
    pub fn of_object(mut self, name: &str) -> Self {
        self.title = format!("Where the traffic of {name} goes");
        self
    }

    /// Its parts, in the order in which they are shown.
    pub fn panels(&self) -> &[Panel] {
        &self.panels
    }

    /// The main paths into the pod and out of it, without what always passes.
    pub fn summary(mut self) -> Self {
        self.is_summary = true;
        self.panels.retain(|panel| matches!(panel.part, TrafficPart::Inbound | TrafficPart::Outbound));
        self.panels.iter_mut().for_each(Panel::summarize);
        self
    }

    /// The parts that are shown, with their numbers: all, or the one that a packet belongs to.
    pub(super) fn shown_panels(&self) -> impl Iterator<Item = (usize, &Panel)> {
        let is_shown = |number: usize| self.path.as_ref().is_none_or(|path| path.at.0 == number);
        self.panels.iter().enumerate().filter(move |(number, _)| is_shown(*number))
    }

    /// The arrow that speaks of a packet: of one that starts a connection or belongs to none, as it comes from a process
    /// or arrives. `None` for packets that the picture does not speak of.
    pub fn flow_of(&self, packet: &Packet) -> Option<&PictureFlow> {
        let (panel, flow) = self.at(packet)?;
        Some(&self.panels[panel].flows[flow])
    }

    pub(super) fn at(&self, packet: &Packet) -> Option<(usize, usize)> {
        let part = self.part_of(packet)?;
        // The kernel sends nothing to loopback by another interface.
        if part == TrafficPart::Outbound && packet.destination.ip().is_loopback() {
            return None;
        }
        let is_known = |mark: &Mark| part.is_sent_here() && mark.value == packet.mark;
        let spoken_of = (packet.mark == 0 || self.marks.iter().any(is_known))
            && packet.connmark == 0
            && (packet.family() == Family::V4 || self.ipv6)
            && matches!(packet.state, ConnState::New | ConnState::Invalid);
        let panel = self.panels.iter().position(|panel| spoken_of && panel.part == part)?;
        let flow = self.panels[panel].of(packet)?;
        // NAT never sees packets that conntrack calls invalid; arrows after the last drop are about others.
        let last =
            self.panels[panel].flows.iter().rposition(|flow| flow.disposition == FlowDisposition::Dropped);
        let seen = packet.state == ConnState::New || last.is_some_and(|last| flow <= last);
        seen.then_some((panel, flow))
    }

    fn part_of(&self, packet: &Packet) -> Option<TrafficPart> {
        match &packet.direction {
            // None comes from outside.
            Direction::Inbound { interface, .. }
                if packet.destination.ip().is_loopback()
                    || *interface == InterfaceName::loopback().as_str() =>
            {
                None
            }
            Direction::Inbound { interface, .. }
                if self.machines.iter().any(|name| name.covers(interface)) =>
            {
                Some(TrafficPart::Machines)
            }
            Direction::Inbound { .. } => Some(TrafficPart::Inbound),
            Direction::Outbound { interface, .. } if *interface == InterfaceName::loopback().as_str() => {
                Some(TrafficPart::Within)
            }
            Direction::Outbound { .. } => Some(TrafficPart::Outbound),
        }
    }

    /// Highlights the path of the packet, and names the rule that decides. A packet that no arrow speaks of, or that ends
    /// otherwise, gets a separate arrow.
    pub fn with_path(mut self, explanation: &Explanation<'_>) -> Self {
        let packet = explanation.packet();
        let disposition = FlowDisposition::from(explanation.outcome().verdict);
        let at = self
            .at(packet)
            .filter(|(panel, flow)| self.panels[*panel].flows[*flow].disposition == disposition);
        let at = at.unwrap_or_else(|| self.own_arrow(explanation, disposition));
        self.panels[at.0].flows[at.1].shown = true;
        let sentence = explanation.sentence();
        self.title = format!("{}{}", sentence[..1].to_uppercase(), &sentence[1..]);
        let rule = explanation.deciding_rule().map(|rule| rule.decision());
        self.path = Some(PacketPath { at, packet: explanation.packet_line(), rule });
        self
    }

    fn own_arrow(&mut self, explanation: &Explanation<'_>, disposition: FlowDisposition) -> (usize, usize) {
        let part = self.part_of(explanation.packet()).unwrap_or(TrafficPart::Inbound);
        let panel = self.panels.iter().position(|panel| panel.part == part).unwrap_or_else(|| {
            self.panels.push(Panel { part, flows: Vec::new() });
            self.panels.len() - 1
        });
        // A list of no ports: the picture with this path is asked about other packets too, and none of them takes this arrow.
        let needs = vec![Is::Ports(Vec::new())];
        self.panels[panel].flows.insert(0, shown_flow(part, needs, disposition, "this packet"));
        (panel, 0)
    }
}

fn shown_flow(part: TrafficPart, needs: Vec<Is>, disposition: FlowDisposition, label: &str) -> PictureFlow {
    let (from, to) = part.ends();
    PictureFlow { needs, from, to, disposition, label: Label::plain(label), option: None, shown: true }
}

/// The picture of a pod of which nothing is captured, whatever its settings.
pub fn of_skipped(reason: &str) -> Picture {
    let panel = |part: TrafficPart| {
        let flow = shown_flow(part, Vec::new(), FlowDisposition::Passing, "everything");
        Panel { part, flows: vec![flow] }
    };
    let note = format!("Nothing of the pod is captured: {reason}.");
    Picture::new(note, vec![panel(TrafficPart::Inbound), panel(TrafficPart::Outbound)], true, Vec::new())
}

/// The path of a packet through rules that no configuration describes.
pub fn of_path(explanation: &Explanation<'_>) -> Picture {
    let empty = Picture::new(String::new(), Vec::new(), true, Vec::new());
    Picture { notes: Vec::new(), ..empty }.with_path(explanation)
}
