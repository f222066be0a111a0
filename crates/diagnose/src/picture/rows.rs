//! All traffic as a document and as text, and the positions of its rows in a picture, for interactive front ends.

use super::drawing::{Area, Drawing, lines};
use super::layout::drawing;
use super::model::{Picture, PictureFlow};
use crate::basis::{Basis, BasisReport};
use crate::{Style, TextLine, explain::VerdictKind, packets::Packets, painted, traffic::TrafficPart};
use rules::simulate::Verdict;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// All traffic, in rows: the first row that matches decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrafficReport {
    /// The rules on which the answer is based.
    pub basis: BasisReport,
    /// Sentences about all of the traffic.
    pub notes: Vec<String>,
    /// The rows, part by part, in the order in which rules decide.
    pub rows: Vec<TrafficRowReport>,
}

/// Packets with one verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrafficRowReport {
    /// `inbound`, `machines` (from virtual machines), `outbound` or `within` (usual calls within the pod).
    pub part: Cow<'static, str>,
    /// The packets in words, with only the first items of long lists.
    pub text: String,
    pub verdict: VerdictKind,
    /// The recipient of the packets: the proxy's program, `application`, `network` or `virtual machine`.
    pub recipient: Cow<'static, str>,
    /// The listener's port, the first of a range; null without a listener.
    pub port: Option<u16>,
    /// The last port, if a range of listeners shares the traffic.
    pub last_port: Option<u16>,
    /// The option that decides; null if none does.
    pub option: Option<String>,
    /// The name of the deciding rules, as in comments and log lines; null unless a single kind of mesh rule decides.
    pub rule: Option<Cow<'static, str>>,
    /// The row's packets, as data.
    pub kinds: Vec<Packets>,
}

#[derive(Clone, Debug, Serialize)]
pub struct DrawnRow {
    /// Indices of the part and the row in it.
    pub at: (usize, usize),
    pub part: &'static str,
    pub packets: String,
    pub kind: VerdictKind,
    pub end: String,
    pub lit: bool,
    /// Distance from the top of the picture, in the picture's pixels.
    pub top: u32,
    pub height: u32,
}

#[derive(Clone, Debug, Serialize)]
pub struct DrawnRows {
    pub width: u32,
    pub height: u32,
    pub rows: Vec<DrawnRow>,
}

impl Picture {
    pub fn rows(&self) -> DrawnRows {
        let Drawing { width, height, rows, .. } = drawing(self);
        let row = |&(at, Area { y: top, height, .. }): &((usize, usize), Area)| {
            let TrafficRowReport { text, verdict: kind, recipient, port, last_port, option, .. } =
                self.row(at);
            let last = last_port.map(|last| format!("-{last}")).unwrap_or_default();
            DrawnRow {
                at,
                part: self.panels[at.0].part.title(),
                packets: text + &option.map(|option| format!(" ({option})")).unwrap_or_default(),
                kind,
                end: match port {
                    Some(port) => format!("captured by {recipient} at {port}{last}"),
                    None => kind.word().to_owned(),
                },
                lit: self.path.as_ref().is_some_and(|path| path.at == at),
                top,
                height,
            }
        };
        DrawnRows { width, height, rows: rows.iter().map(row).collect() }
    }

    pub fn report(&self, basis: &Basis) -> TrafficReport {
        TrafficReport { basis: basis.report(), notes: self.notes.clone(), rows: self.rows_of(|_| true) }
    }

    /// Rows of the selected arrows; none if no rule has an effect.
    pub(crate) fn rows_where(&self, is_shown: impl Fn(&PictureFlow) -> bool) -> Vec<TrafficRowReport> {
        let mut flows = self.panels.iter().flat_map(|panel| &panel.flows);
        match flows.any(|flow| flow.verdict != Verdict::Pass || flow.option.is_some()) {
            true => self.rows_of(is_shown),
            false => Vec::new(),
        }
    }

    fn rows_of(&self, is_shown: impl Fn(&PictureFlow) -> bool) -> Vec<TrafficRowReport> {
        let places = self.shown_panels().flat_map(|(number, panel)| {
            panel.flows.iter().enumerate().map(move |(at, flow)| ((number, at), flow))
        });
        places.filter(|(_, flow)| is_shown(flow)).map(|(at, _)| self.row(at)).collect()
    }

    pub(crate) fn has_unknown(&self) -> bool {
        self.panels.iter().flat_map(|panel| &panel.flows).any(|flow| flow.verdict == Verdict::Unknown)
    }

    fn row(&self, at: (usize, usize)) -> TrafficRowReport {
        self.row_with(at, |text| text.len() <= MAX_LABEL)
    }

    /// Row with as many items of its list as fit.
    pub(super) fn row_with(
        &self,
        (panel, at): (usize, usize),
        fits: impl Fn(&str) -> bool,
    ) -> TrafficRowReport {
        let panel = &self.panels[panel];
        let flow = &panel.flows[at];
        let (verdict, ports) = flow.end();
        let (port, last_port) = VerdictKind::bounds(ports);
        TrafficRowReport {
            part: panel.part.word().into(),
            text: flow.label.text(fits),
            verdict,
            recipient: self.recipient(flow).into(),
            port,
            last_port,
            option: flow.option.clone(),
            rule: flow.reason().map(|reason| reason.name().into()),
            kinds: flow.rows.iter().map(|row| row.packets.clone()).collect(),
        }
    }

    pub fn text(&self, width: usize) -> String {
        let page = RowPage::of(width, self.program.name);
        let mut lines = page.paragraph(Style::Strong, &self.title);
        let packet =
            self.path.as_ref().map(|path| format!("> marks the row of this packet: {}", path.packet));
        lines.extend(self.notes.iter().chain(&packet).flat_map(|note| page.paragraph(Style::Quiet, note)));
        for (number, panel) in self.shown_panels() {
            lines.extend(title(panel.part));
            for (at, flow) in panel.flows.iter().enumerate() {
                let option = flow.option.as_deref();
                let row = self.row_with((number, at), |label| page.label(label, option).len() <= 2);
                lines.extend(page.row(&row, self.path.as_ref().map(|path| path.at == (number, at))));
            }
        }
        if let Some(rule) = self.path.as_ref().and_then(|path| path.rule.as_ref()) {
            lines.push(TextLine::default());
            lines.extend(page.paragraph(Style::Quiet, rule));
        }
        painted(&lines, usize::MAX)
    }
}

/// Maximum length of a label that is read at once, in a list of arrows or by a screen reader.
pub(super) const MAX_LABEL: usize = 120;

/// Width of a verdict or recipient.
const WORD: usize = 12;
const PLACE: usize = 18;

pub(crate) fn row_lines(rows: &[TrafficRowReport], parts: &[TrafficPart], width: usize) -> Vec<TextLine> {
    let captured = rows.iter().find(|row| row.verdict == VerdictKind::Captured);
    let page = RowPage::of(width, captured.map_or("", |row| &row.recipient));
    let of_part = |part: &TrafficPart| {
        let rows: Vec<_> = rows.iter().filter(|row| row.part == part.word()).collect();
        let title = rows.first().map(|_| title(*part));
        title.into_iter().flatten().chain(rows.into_iter().flat_map(|row| page.row(row, None)))
    };
    parts.iter().flat_map(of_part).collect()
}

fn title(part: TrafficPart) -> [TextLine; 2] {
    [TextLine::default(), TextLine::default().styled(Style::Strong, part.title())]
}

struct RowPage {
    width: usize,
    /// Width of recipients; the longest is the proxy with a port.
    place: usize,
}

impl RowPage {
    fn of(width: usize, proxy: &str) -> Self {
        Self { width: width.clamp(60, 120), place: PLACE.max(proxy.len() + " 65535".len()) }
    }

    fn paragraph(&self, style: Style, text: &str) -> Vec<TextLine> {
        wrapped(text, self.width).iter().map(|line| TextLine::default().styled(style, line)).collect()
    }

    fn indent(&self) -> usize {
        2 + WORD + 1 + 3 + 1 + self.place + 1
    }

    fn label(&self, label: &str, option: Option<&str>) -> Vec<String> {
        let option = option.map(|option| format!(" ({option})")).unwrap_or_default();
        wrapped(&format!("{label}{option}"), self.width - self.indent())
    }

    /// Lines of a row. The queried packet's row is marked, and all other rows are dimmed.
    fn row(&self, row: &TrafficRowReport, lit: Option<bool>) -> Vec<TextLine> {
        let TrafficRowReport { verdict, recipient, .. } = row;
        let (mark, style, of_label) = match lit {
            Some(true) => ("> ", verdict.style(), Some(Style::Strong)),
            Some(false) => ("  ", Style::Quiet, Some(Style::Quiet)),
            None => ("  ", verdict.style(), None),
        };
        let last = row.last_port.map(|last| format!("-{last}")).unwrap_or_default();
        let (shaft, place) = match (verdict, row.port) {
            (VerdictKind::Captured, Some(port)) => ("==>", format!("{recipient} {port}{last}")),
            (VerdictKind::NotCaptured, _) => ("-->", recipient.to_string()),
            (VerdictKind::Dropped, _) => ("--x", String::new()),
            _ => ("-?-", String::new()),
        };
        let mut start = TextLine::default()
            .plain(mark)
            .styled(style, format!("{:WORD$}", verdict.word()))
            .plain(" ")
            .styled(style, format!("{shaft} {place:0$}", self.place))
            .plain(" ");
        let indent = TextLine::default().plain(" ".repeat(self.indent()));
        let label = self.label(&row.text, row.option.as_deref());
        let line = |text| std::mem::replace(&mut start, indent.clone()).piece(of_label, text);
        label.iter().map(line).collect()
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    lines(text, |line| line.chars().count() <= width)
}
