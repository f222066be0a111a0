//! Model of a picture: its parts with their arrows, in the order in which rules decide, and the path of a packet.

use super::words::{Known, Label};
use crate::explain::{Explanation, VerdictKind};
use crate::style::capitalised;
use crate::traffic::{TrafficPart, TrafficRow};
use mesh::{ProxyProgram, RuleReason};
use rules::simulate::{Direction, Packet, PacketSet, Verdict};
use rules::{InterfaceName, PortRange};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub(super) title: String,
    pub notes: Vec<String>,
    pub panels: Vec<Panel>,
    pub(super) program: ProxyProgram,
    /// True if only the main paths are shown.
    pub(super) is_summary: bool,
    pub(super) path: Option<PacketPath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PacketPath {
    /// Panel and arrow in it.
    pub(super) at: (usize, usize),
    pub(super) packet: String,
    pub(super) rule: Option<String>,
}

impl Picture {
    pub(crate) fn new(note: String, panels: Vec<Panel>) -> Self {
        let title = "Where the pod's traffic goes".to_owned();
        Self { title, notes: vec![note], panels, program: UNKNOWN_PROXY, is_summary: false, path: None }
    }

    pub fn of_object(mut self, name: &str) -> Self {
        self.title = format!("Where the traffic of {name} goes");
        self
    }

    /// Keeps the main paths into and out of the pod, without traffic that is never captured.
    pub fn summary(mut self) -> Self {
        self.is_summary = true;
        self.panels.retain(|panel| matches!(panel.part, TrafficPart::Inbound | TrafficPart::Outbound));
        self.panels.iter_mut().for_each(Panel::summarize);
        self
    }

    /// Recipient of an arrow; for captured DNS queries, the component that answers them.
    pub(super) fn recipient(&self, flow: &PictureFlow) -> &'static str {
        let ProxyProgram { name, resolver, .. } = self.program;
        match flow.verdict {
            Verdict::Redirect(_) if flow.reason().is_some_and(RuleReason::is_of_dns) => {
                resolver.unwrap_or(name)
            }
            verdict if verdict.captures() || flow.to == FlowEndpoint::Proxy => name,
            _ => flow.to.name(),
        }
    }

    /// Shown parts with their indices: all parts, or a packet's part.
    pub(super) fn shown_panels(&self) -> impl Iterator<Item = (usize, &Panel)> {
        let is_shown = |number: usize| self.path.as_ref().is_none_or(|path| path.at.0 == number);
        self.panels.iter().enumerate().filter(move |(number, _)| is_shown(*number))
    }

    /// Indices of a packet's part and of its arrow; `None` for a later packet of a connection.
    pub fn at(&self, packet: &Packet) -> Option<(usize, usize)> {
        self.panels.iter().enumerate().find_map(|(panel, one)| Some((panel, one.row_of(packet)?)))
    }

    /// Highlights the path of the packet and the deciding rule. A packet without an arrow gets a separate arrow.
    pub fn with_path(mut self, explanation: &Explanation<'_>) -> Self {
        let packet = explanation.packet();
        let verdict = explanation.outcome().verdict;
        let at = self.at(packet).filter(|(panel, flow)| self.panels[*panel].flows[*flow].verdict == verdict);
        let at = at.unwrap_or_else(|| self.own_arrow(explanation, verdict));
        self.title = capitalised(&explanation.sentence());
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

/// Proxy for rules without a mesh.
pub(super) const UNKNOWN_PROXY: ProxyProgram =
    ProxyProgram { name: "proxy", resolver: None, tunnel: None, ports: &[] };

/// Arrow for display only: no packets match it.
fn plain_flow(part: TrafficPart, verdict: Verdict, label: &str) -> PictureFlow {
    let (from, to) = part.ends();
    PictureFlow { rows: Vec::new(), from, to, verdict, label: Label::plain(label), option: None }
}

pub fn of_skipped(reason: &str) -> Picture {
    let panel = |part: TrafficPart| Panel::of(part, vec![plain_flow(part, Verdict::Pass, "everything")]);
    let note = format!("Nothing of the pod is captured: {reason}.");
    Picture::new(note, vec![panel(TrafficPart::Inbound), panel(TrafficPart::Outbound)])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowEndpoint {
    /// All hosts outside of the pod.
    Network,
    Machine,
    /// Any process of the pod except the proxy.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFlow {
    pub(crate) rows: Vec<TrafficRow>,
    pub(crate) from: FlowEndpoint,
    pub(crate) to: FlowEndpoint,
    pub(crate) verdict: Verdict,
    pub(crate) label: Label,
    /// Deciding option, under its name in the configuration.
    pub(crate) option: Option<String>,
}

impl PictureFlow {
    /// True if the arrow covers the packet; earlier arrows have precedence.
    pub fn fits(&self, packet: &Packet) -> bool {
        self.rows.iter().any(|row| row.fits(packet))
    }

    /// Packet that takes the arrow; `None` if its interface does not exist.
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
            (option, more) => option.filter(|_| more.is_some()),
        };
    }

    /// True for the arrow of all remaining, uncaptured packets.
    pub(crate) fn is_remainder(&self) -> bool {
        self.verdict == Verdict::Pass && self.rows.iter().any(|row| row.packets.is_everything())
    }

    pub fn end(&self) -> (VerdictKind, Option<PortRange>) {
        VerdictKind::of(self.verdict)
    }
}

impl TrafficPart {
    pub(crate) const ALL: [Self; 4] = [Self::Inbound, Self::Machines, Self::Outbound, Self::Within];

    /// Title, name in documents, and source and destination of the packets.
    fn row(self) -> (&'static str, &'static str, FlowEndpoint, FlowEndpoint) {
        use FlowEndpoint::{Application, Machine, Network};
        match self {
            Self::Inbound => ("Into the pod", "inbound", Network, Application),
            Self::Machines => ("From virtual machines", "machines", Machine, Network),
            Self::Outbound => ("Out of the pod", "outbound", Application, Network),
            Self::Within => ("Within the pod, usual calls", "within", Application, Application),
        }
    }

    pub fn title(self) -> &'static str {
        self.row().0
    }

    pub(crate) fn word(self) -> &'static str {
        self.row().1
    }

    pub(crate) fn is_sent_here(self) -> bool {
        self.ends().0 == FlowEndpoint::Application
    }

    pub(crate) fn ends(self) -> (FlowEndpoint, FlowEndpoint) {
        let (.., source, destination) = self.row();
        (source, destination)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    pub part: TrafficPart,
    /// Arrows; a packet has the verdict of the first that fits.
    pub flows: Vec<PictureFlow>,
    /// Packets without an arrow: no typical process sends them.
    pub(crate) unusual: Vec<PacketSet>,
    /// One packet per region that the rules distinguish.
    pub examples: Vec<Packet>,
}

impl Panel {
    pub(crate) fn of(part: TrafficPart, flows: Vec<PictureFlow>) -> Self {
        Self { part, flows, unusual: Vec::new(), examples: Vec::new() }
    }

    /// Keeps a summary's arrows: remainders are omitted unless there is no other arrow; the proxy's ports share one arrow.
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
