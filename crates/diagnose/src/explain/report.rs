//! Explanation as a document and as text; the document may come from another machine.

use super::PacketQuery;
use crate::basis::{Basis, BasisReport};
use crate::{Style, TextLine, compare::Packets, painted};
use mesh::visible;
use rules::PortRange;
use rules::simulate::{Direction, Verdict};
use serde::{Deserialize, Serialize};
use std::{fmt, fmt::Display, net::IpAddr};

/// The answer as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketReport {
    /// The rules on which the answer is based.
    basis: BasisReport,
    /// The source; null for an unknown address.
    source: Option<IpAddr>,
    /// The destination; null for an unknown address of the pod.
    destination: Option<IpAddr>,
    destination_port: u16,
    /// The inbound interface; null for outbound packets, or if unknown.
    in_interface: Option<String>,
    /// The outbound interface; null for inbound packets, or if unknown.
    out_interface: Option<String>,
    /// The sending user; null for inbound packets, or if the manifest sets none.
    uid: Option<u32>,
    /// The reason why no such packet can exist under any rules; null if possible or unknown.
    pub unsent: Option<String>,
    #[serde(flatten)]
    pub explained: ExplanationReport,
}

impl PacketReport {
    pub fn new(
        basis: &Basis,
        question: &PacketQuery,
        unsent: Option<String>,
        explained: ExplanationReport,
    ) -> Self {
        let PacketQuery { packet, endpoint_names, .. } = question;
        let (source, destination) = endpoint_names.addresses(packet);
        let interface = endpoint_names.interface(packet).map(str::to_owned);
        let (in_interface, out_interface) = match &packet.direction {
            Direction::Inbound { .. } => (interface, None),
            Direction::Outbound { .. } => (None, interface),
        };
        Self {
            basis: basis.report(),
            source,
            destination,
            destination_port: packet.destination.port(),
            in_interface,
            out_interface,
            uid: endpoint_names.user(packet),
            unsent,
            explained,
        }
    }

    pub fn text(&self, width: usize, is_verbose: bool) -> String {
        painted(&[self.head(), vec![TextLine::default()], self.explained.way(is_verbose)].concat(), width)
    }

    /// Reason why no such packet can exist; `None` if it can.
    pub fn note(&self) -> Option<String> {
        self.unsent.as_ref().map(|why| format!("{why}; from the rules alone:"))
    }

    pub fn head(&self) -> Vec<TextLine> {
        let note = self.note().map(|note| TextLine::hanging(2).styled(Style::Dropped, note));
        note.into_iter().chain(self.explained.head()).collect()
    }

    /// True if a listener gets the packet; `None` if unknown, or if no such packet can exist.
    pub fn is_captured(&self) -> Option<bool> {
        self.explained.end.verdict.is_captured().filter(|_| self.unsent.is_none())
    }
}

/// A packet's verdict, and the rules that it met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplanationReport {
    /// The outcome of the shown packet; its verdict is `depends` if the question's packets have several verdicts.
    #[serde(flatten)]
    pub end: PacketEnd,
    /// The properties on which the verdict depends, in words; null if it depends on none.
    pub depends_on: Option<String>,
    /// The different verdicts; absent if equal. The other fields describe the first case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<PacketCase>,
    /// The packet in words.
    pub example: String,
    /// The rule that decided.
    pub decided_by: Option<ExplainedRule>,
    /// Known limitations of the rules; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limited>,
    /// All rules that the packet meets, in order.
    pub trace: Vec<TraceEntry>,
}

/// A rule, or the policy of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedRule {
    /// The rule's table.
    pub table: String,
    /// The rule's chain.
    pub chain: String,
    /// The rule's number in the chain, from 1; null for a policy.
    pub position: Option<usize>,
    /// The short name; null if unknown.
    pub rule: Option<String>,
    /// The rule's text.
    pub text: String,
    /// The option that made the rule; empty for unconditional rules, null if unknown.
    pub option: Option<String>,
}

/// A rule that the packet meets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceEntry {
    #[serde(flatten)]
    pub rule: ExplainedRule,
    /// The hook from which the packet reached the chain; null in a base chain.
    pub hook: Option<String>,
    /// True if the packet matches; null if unknown.
    pub matched: Option<bool>,
    /// The condition that fails or is unknown, and the packet's value; null if the packet matches.
    pub unmet: Option<String>,
}

/// Packets that a question covers, and their verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketCase {
    /// The packets, such as `from 10.0.0.0/8`; empty for the remaining packets.
    pub text: String,
    /// The packets as data.
    #[serde(rename = "traffic")]
    pub packets: Packets,
    #[serde(flatten)]
    pub end: PacketEnd,
}

/// A limit that affects the packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limited {
    /// The finding's code, as in `lint`.
    pub code: String,
    /// The human-readable text.
    pub text: String,
    /// The remedy.
    pub remedy: String,
}

/// The outcome of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketEnd {
    pub verdict: VerdictKind,
    /// True if the listener gets the packet unchanged (TPROXY); null without a listener.
    pub transparent: Option<bool>,
    /// The listener's port, the first of a range; null without a listener.
    pub port: Option<u16>,
    /// The last port, if a range of listeners shares the traffic.
    pub last_port: Option<u16>,
    /// The destination set by a rule of another program; null without one.
    pub translated: Option<String>,
    /// The verdict in words.
    pub summary: String,
    /// The reason in words.
    pub reason: String,
}

/// The verdict for one or several packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    Captured,
    NotCaptured,
    Dropped,
    #[default]
    Unknown,
    Depends,
}

impl VerdictKind {
    pub fn of(verdict: Verdict) -> (Self, Option<PortRange>) {
        match verdict {
            Verdict::Pass => (Self::NotCaptured, None),
            Verdict::Redirect(ports) => (Self::Captured, Some(ports)),
            Verdict::Tproxy(port) => (Self::Captured, Some(port.into())),
            Verdict::Drop => (Self::Dropped, None),
            Verdict::Unknown => (Self::Unknown, None),
        }
    }

    /// First port, and the last one if listeners share a range.
    pub(crate) fn bounds(ports: Option<PortRange>) -> (Option<u16>, Option<u16>) {
        let last = ports.filter(|ports| !ports.is_single()).map(|ports| ports.last().number());
        (ports.map(|ports| ports.first().number()), last)
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            Self::NotCaptured => "not captured",
            Self::Dropped => "dropped",
            Self::Unknown => "unknown",
            Self::Depends => "depends",
        }
    }

    pub fn style(self) -> Style {
        match self {
            Self::Captured => Style::Captured,
            Self::NotCaptured => Style::Passing,
            Self::Dropped | Self::Unknown => Style::Dropped,
            Self::Depends => Style::Strong,
        }
    }

    /// True if a listener gets the packet; `None` if it is dropped or unknown.
    pub fn is_captured(self) -> Option<bool> {
        match self {
            Self::Captured => Some(true),
            Self::NotCaptured => Some(false),
            Self::Dropped | Self::Unknown | Self::Depends => None,
        }
    }
}

/// Column of a rule's text.
const RULE: usize = 6;

impl PacketEnd {
    pub fn words(&self) -> String {
        format!("{}: {}", self.verdict.word(), self.summary)
    }

    /// Verdict and reason in one sentence, without a full stop.
    pub fn sentence(&self) -> String {
        format!("{}, because {}", self.words(), self.reason)
    }

    pub(crate) fn line(&self, title: TextLine) -> TextLine {
        title.styled(self.verdict.style(), self.words()).plain(format!(", because {}", self.reason))
    }
}

impl ExplanationReport {
    pub fn sentence(&self) -> String {
        let case = |PacketCase { text, end, .. }: &PacketCase| format!("{text} {}", end.sentence());
        visible(&match &self.depends_on {
            Some(on) => {
                format!("depends on {on}: {}", self.cases.iter().map(case).collect::<Vec<_>>().join("; "))
            }
            None => self.end.sentence(),
        })
    }

    /// Verdict and reason; several cases are on separate lines below a title.
    pub fn head(&self) -> Vec<TextLine> {
        let Some(on) = &self.depends_on else { return vec![self.end.line(TextLine::hanging(2))] };
        let case = |PacketCase { text, end, .. }: &PacketCase| {
            end.line(TextLine::hanging(4).plain(format!("  {text}: ")))
        };
        let title = TextLine::hanging(2).styled(self.end.verdict.style(), format!("depends on {on}:"));
        [title].into_iter().chain(self.cases.iter().map(case)).collect()
    }

    /// Packet and matching rules, with the deciding rule marked; if `is_verbose`, also other rules that it meets, dimmed.
    pub fn way(&self, is_verbose: bool) -> Vec<TextLine> {
        let mut lines = vec![TextLine::hanging(2).plain(&self.example)];
        for Limited { text, remedy, .. } in &self.limits {
            lines.push(TextLine::hanging(RULE).styled(Style::Strong, "note").plain(format!(": {text}")));
            lines.push(TextLine::hanging(RULE + 3).plain(format!("{:RULE$}-> {remedy}", "")));
        }
        let mut shown =
            self.trace.iter().filter(|entry| is_verbose || entry.matched != Some(false)).peekable();
        if shown.peek().is_none() {
            lines.push(TextLine::default().plain("No rule matches the packet."));
        }
        let mut before = None;
        for entry in shown {
            let TraceEntry { rule: ExplainedRule { table, chain, .. }, hook, .. } = entry;
            if before.replace((table, chain, hook)) != Some((table, chain, hook)) {
                let from = hook.as_ref().map(|hook| format!(" (from {hook})")).unwrap_or_default();
                let title = format!("{table} {chain}{from}");
                lines.extend([TextLine::default(), TextLine::default().styled(Style::Strong, title)]);
            }
            lines.push(self.entry_line(entry));
        }
        lines
    }

    fn entry_line(&self, TraceEntry { rule, matched, unmet, .. }: &TraceEntry) -> TextLine {
        let (mark, style, word) = match matched {
            Some(true) => ("+", None, ""),
            Some(false) => (" ", Some(Style::Quiet), "no: "),
            None => ("?", None, "unknown: "),
        };
        let unmet = unmet.as_ref().map(|unmet| format!("{word}{unmet}"));
        let option = rule.option.as_ref().map(|option| match &**option {
            "" => "no option".to_owned(),
            option => option.to_owned(),
        });
        let notes: Vec<String> = unmet.into_iter().chain(option).collect();
        let text = format!("{mark} {:>3} {}", rule.position.unwrap_or_default(), rule.text);
        let mut line = TextLine::hanging(RULE).piece(style, text);
        if !notes.is_empty() {
            line = line.styled(Style::Quiet, format!("   # {}", notes.join("; ")));
        }
        let verdict = self.cases.first().map_or(self.end.verdict, |case| case.end.verdict);
        match self.decided_by.as_ref() == Some(rule) {
            true => line.plain(" ").styled(verdict.style(), "<- decides"),
            false => line,
        }
    }
}

impl ExplainedRule {
    pub fn decision(&self) -> String {
        match self.position {
            Some(_) => format!("decided by {self}: {}", visible(&self.text)),
            None => format!("decided by {self}"),
        }
    }
}

/// Location of the rule, such as `rule 2 of OUTPUT in table nat`.
impl Display for ExplainedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, chain) = (visible(&self.table), visible(&self.chain));
        match self.position {
            Some(position) => write!(f, "rule {position} of {chain} in table {table}"),
            None => write!(f, "the policy of {chain} in table {table}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PodContext, Sender, explain, usual_packet};
    use crate::painted;
    use rules::nft::{Base, Kind, LiveChain, LiveRule, LiveTable};
    use rules::simulate::{Routing, View};
    use rules::{Action, Family, Hook, Policy, Protocol, Target};

    /// Foreign programs choose the names of chains and the comments.
    #[test]
    fn foreign_names_and_texts_are_escaped() {
        let rule = LiveRule {
            text: "drop comment \"r\u{1b}[2J\"".to_owned(),
            conditions: Vec::new(),
            first: Vec::new(),
            action: Action::Target(Target::Drop),
            comment: String::new(),
            hits: None,
        };
        let base = Base { kind: Kind::Filter, hook: Hook::Output, priority: 0 };
        let base = Some((base, Policy::Accept));
        let chain = LiveChain { name: "c\u{1b}[2J".to_owned(), base, rules: vec![rule] };
        let table = LiveTable { family: None, name: "inet t\u{7}".to_owned(), chains: vec![chain] };
        let mut view = View::empty(Family::V4);
        view.add_nftables(table);
        let pod = PodContext::new(["10.1.0.9".parse().expect("an address")], None);
        let to = "192.0.2.1:80".parse().expect("an address");
        let packet = usual_packet(Sender::App, &pod, Protocol::Tcp, to);
        let explained = explain(&view, &Routing::default(), &packet);
        let report = explained.report();
        let way = painted(&report.way(true), usize::MAX);
        for text in [painted(&report.head(), usize::MAX), way, report.sentence()] {
            let names = ["t\\u{7}", "c\\u{1b}[2J", "r\\u{1b}[2J"];
            assert!(names.iter().all(|name| text.contains(name)), "{text:?}");
        }
    }
}
