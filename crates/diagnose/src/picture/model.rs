//! The model of a picture: its parts, and the path of a packet through them.

use super::flow::{FlowEndpoint, PictureFlow};
use super::label::Label;
use super::panel::Panel;
use crate::explain::Explanation;
use crate::traffic::TrafficPart;
use mesh::sources::Dialect;
use mesh::{ProxyProgram, RuleReason, Setting};
use rules::InterfaceName;
use rules::simulate::{Direction, Packet, Verdict};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub(super) title: String,
    /// Sentences about all of it.
    pub(super) notes: Vec<String>,
    pub(super) panels: Vec<Panel>,
    pub(super) program: ProxyProgram,
    /// Only the main paths are shown.
    pub(super) is_summary: bool,
    pub(super) path: Option<PacketPath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PacketPath {
    /// The panel and the arrow in it.
    pub(super) at: (usize, usize),
    pub(super) packet: String,
    /// As a sentence.
    pub(super) rule: Option<String>,
}

impl PacketPath {
    pub(super) fn is_at(&self, panel: usize, row: usize) -> bool {
        self.at == (panel, row)
    }
}

/// A setting as its author writes it: by its letter, where there is one.
pub(crate) fn option(setting: Setting, dialect: &Dialect) -> String {
    dialect.name(setting).map_or_else(|| setting.row().short_option(), str::to_owned)
}

impl Picture {
    /// `note` states what holds for all parts.
    pub(crate) fn new(note: String, panels: Vec<Panel>) -> Self {
        let title = "Where the pod's traffic goes".to_owned();
        Self { title, notes: vec![note], panels, program: UNKNOWN_PROXY, is_summary: false, path: None }
    }

    /// Names whose traffic it is, such as a pod.
    pub fn of_object(mut self, name: &str) -> Self {
        self.title = format!("Where the traffic of {name} goes");
        self
    }

    /// In the order in which they are shown.
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

    /// Of captured queries, the component that answers them.
    pub(super) fn recipient(&self, flow: &PictureFlow) -> &'static str {
        let ProxyProgram { name, resolver, .. } = self.program;
        match flow.verdict {
            Verdict::Redirect(_) if flow.reason().is_some_and(RuleReason::is_of_dns) => {
                resolver.unwrap_or(name)
            }
            Verdict::Redirect(_) | Verdict::Tproxy(_) => name,
            _ if flow.to == FlowEndpoint::Proxy => name,
            _ => flow.to.name(),
        }
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

    /// The numbers of the part and of the arrow in it that a packet takes.
    pub fn at(&self, packet: &Packet) -> Option<(usize, usize)> {
        self.panels.iter().enumerate().find_map(|(panel, one)| Some((panel, one.row_of(packet)?)))
    }

    /// Highlights the path of the packet, and names the rule that decides. A packet that no arrow speaks of, or that ends
    /// otherwise, gets a separate arrow.
    pub fn with_path(mut self, explanation: &Explanation<'_>) -> Self {
        let packet = explanation.packet();
        let verdict = explanation.outcome().verdict;
        let at = self.at(packet).filter(|(panel, flow)| self.panels[*panel].flows[*flow].verdict == verdict);
        let at = at.unwrap_or_else(|| self.own_arrow(explanation, verdict));
        let sentence = explanation.sentence();
        self.title = format!("{}{}", sentence[..1].to_uppercase(), &sentence[1..]);
        let rule = explanation.deciding_rule().map(|rule| rule.decision());
        self.path = Some(PacketPath { at, packet: explanation.packet_line(), rule });
        self
    }

    fn own_arrow(&mut self, explanation: &Explanation<'_>, verdict: Verdict) -> (usize, usize) {
        let part = match &explanation.packet().direction {
            Direction::Inbound { .. } => TrafficPart::Inbound,
            Direction::Outbound { interface, .. } if *interface == InterfaceName::loopback().as_str() => {
                TrafficPart::Within
            }
            Direction::Outbound { .. } => TrafficPart::Outbound,
        };
        let panel = self.panels.iter().position(|panel| panel.part == part).unwrap_or_else(|| {
            self.panels.push(Panel::of(part, Vec::new()));
            self.panels.len() - 1
        });
        self.panels[panel].flows.insert(0, plain_flow(part, verdict, "this packet"));
        (panel, 0)
    }
}

/// The proxy of rules that are no mesh's.
pub(super) const UNKNOWN_PROXY: ProxyProgram =
    ProxyProgram { name: "proxy", resolver: None, tunnel: None, ports: &[] };

/// An arrow that no packet is looked up for.
fn plain_flow(part: TrafficPart, verdict: Verdict, label: &str) -> PictureFlow {
    let (from, to) = part.ends();
    PictureFlow { rows: Vec::new(), from, to, verdict, label: Label::plain(label), option: None }
}

/// The picture of a pod of which nothing is captured, whatever its settings.
pub fn of_skipped(reason: &str) -> Picture {
    let panel = |part: TrafficPart| Panel::of(part, vec![plain_flow(part, Verdict::Pass, "everything")]);
    let note = format!("Nothing of the pod is captured: {reason}.");
    Picture::new(note, vec![panel(TrafficPart::Inbound), panel(TrafficPart::Outbound)])
}
