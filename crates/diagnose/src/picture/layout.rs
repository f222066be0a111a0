//! Layout of a drawing: network, proxy and application side by side, with one row per arrow. Traffic that bypasses the proxy
//! runs behind its box. Captured traffic ends at a port in the box, and continues from there.

use super::drawing::{Area, Drawing, DrawingItem, Fill, Font, Ink, Line, LineEnd, Stroke};
use super::model::{FlowEndpoint, PacketPath, Panel, Picture, PictureFlow};
use crate::{explain::VerdictKind, traffic::TrafficPart};
use std::ops::Range;

/// Columns in pixels, as left edge and width; in total, they fit a page and a README unscaled.
const WIDTH: u32 = 700;
const MARGIN: u32 = 8;
const NETWORK: (u32, u32) = (MARGIN, 70);
const TEXT: (u32, u32) = (86, 342);
/// Distance of the text from the left edge, after the verdict's word.
const WORD: u32 = 100;
const POD: (u32, u32) = (432, 262);
const PROXY: (u32, u32) = (440, 88);
const APPLICATION: (u32, u32) = (594, 92);

const LINE: u32 = 18;
/// Minimum height of a row: a line of text above an arrow.
const ROW: u32 = 36;
const HEAD: u32 = 26;
/// Maximum height of the picture of one packet.
const HIGHEST: u32 = 300;
/// Maximum number of lines of a rule.
const RULE_LINES: usize = 4;

const TITLE: Font = Font { size: 18, bold: true };
const HEADING: Font = Font { size: 15, bold: true };
const STRONG: Font = Font { size: 13, bold: true };
const BODY: Font = Font { size: 13, bold: false };
const SMALL: Font = Font { size: 12, bold: false };

const fn right((x, width): (u32, u32)) -> u32 {
    x + width
}

/// Lays out a whole picture, or the part with the path of a packet, at most [`HIGHEST`] pixels high.
pub(super) fn drawing(picture: &Picture) -> Drawing {
    let mut drawing = Drawing { width: WIDTH, ..Drawing::default() };
    let mut y = 6;
    // Text beside the picture is not repeated: the verdict for a packet, and the subject of a summary.
    let (title, font, notes) = match &picture.path {
        Some(path) => (Some(&path.packet), HEADING, &[][..]),
        None if picture.is_summary => (None, TITLE, &[][..]),
        None => (Some(&picture.title), TITLE, &picture.notes[..]),
    };
    for line in title.into_iter().flat_map(|title| font.lines(title, WIDTH - 2 * MARGIN)) {
        y += font.size + 5;
        drawing.text(MARGIN, y, font, [(Ink::Plain, line)]);
    }
    let order = "In each part, the first row that matches decides.".to_owned();
    let order = (title.is_some() && picture.path.is_none()).then_some(order);
    for note in notes.iter().chain(&order) {
        for line in BODY.lines(note, WIDTH - 2 * MARGIN) {
            y += LINE + 1;
            drawing.text(MARGIN, y, BODY, [(Ink::Quiet, line)]);
        }
    }
    let mut panels: Vec<(usize, &Panel)> = picture.shown_panels().collect();
    panels.sort_by_key(|(_, panel)| panel.part == TrafficPart::Machines);
    let top = y + if y > 6 { 14 } else { 2 };
    y = top + 24 + 15 * u32::try_from(name_lines(picture.program.name, PROXY.1 - 8).len()).unwrap_or(2);
    let mut sections = Vec::new();
    for (number, panel) in panels {
        let section = match &picture.path {
            Some(path) => path_section(path, panel, y),
            None => section(panel, y, 0..panel.flows.len(), |at, top| {
                LayoutRow::of(panel, (number, at), None, &[], top)
            }),
        };
        y = section.bottom;
        sections.push(section);
    }
    let bottom = y + 10;
    frame(&mut drawing, picture, &sections, (top, bottom));
    for section in &sections {
        let title = section.panel.part.title().to_owned();
        drawing.text(TEXT.0, section.top + 19, HEADING, [(Ink::Plain, title)]);
        section.rows.iter().for_each(|row| row_at(&mut drawing, section.panel.part, row));
        for (y, text) in &section.omitted {
            drawing.text(TEXT.0 + WORD, *y, BODY, [(Ink::Quiet, text.clone())]);
        }
    }
    drawing.height = bottom + MARGIN;
    let page = Area { x: 0, y: 0, width: WIDTH, height: drawing.height };
    drawing.items.insert(0, DrawingItem::Box(Fill::Page, page));
    drawing
}

struct Section<'a> {
    panel: &'a Panel,
    rows: Vec<LayoutRow<'a>>,
    /// Texts for omitted rows, with their baselines.
    omitted: Vec<(u32, String)>,
    top: u32,
    bottom: u32,
}

struct LayoutRow<'a> {
    /// Indices of panel and row.
    at: (usize, usize),
    flow: &'a PictureFlow,
    /// True if the queried packet takes the row; `None` without such a packet.
    lit: Option<bool>,
    lines: Vec<Vec<(Ink, String)>>,
    label: usize,
    top: u32,
    height: u32,
    /// Vertical positions of the arrow and the first text line.
    arrow: u32,
    text: u32,
}

impl<'a> LayoutRow<'a> {
    /// Lays out a row with `rule` below the label. Within the pod, arrows are beside the text; elsewhere they run below it.
    fn of(panel: &'a Panel, at: (usize, usize), lit: Option<bool>, rule: &[String], top: u32) -> Self {
        let flow = &panel.flows[at.1];
        let mut lines = lines(flow, lit);
        let label = lines.len();
        lines.extend(rule.iter().map(|line| vec![(Ink::Plain, line.clone())]));
        let room = u32::try_from(lines.len()).unwrap_or(u32::MAX) * LINE;
        let is_within = panel.part == TrafficPart::Within;
        let height = (room + if is_within { 10 } else { 18 }).max(ROW);
        let arrow = if is_within { top + height / 2 } else { top + height - 10 };
        let text = if is_within { top + (height - room) / 2 + 13 } else { arrow + 8 - room };
        Self { at, flow, lit, lines, label, top, height, arrow, text }
    }
}

/// Stacked rows of a part, each laid out by `row` at its position.
fn section<'a>(
    panel: &'a Panel,
    top: u32,
    rows: Range<usize>,
    row: impl Fn(usize, u32) -> LayoutRow<'a>,
) -> Section<'a> {
    let mut y = top + HEAD;
    let placed = |at| {
        let row = row(at, y);
        y += row.height;
        row
    };
    let rows = rows.map(placed).collect();
    // A two-line name fits beside a heading without rows.
    Section { panel, rows, omitted: Vec::new(), top, bottom: (y + 6).max(top + 44) }
}

/// Rows around a packet's row, with the deciding rule. Preceding rows, which the packet does not match, are preferred.
fn path_section<'a>(path: &PacketPath, panel: &'a Panel, top: u32) -> Section<'a> {
    let ((number, at), count) = (path.at, panel.flows.len());
    let rule: Vec<String> = path.rule.iter().flat_map(|rule| SMALL.lines(rule, TEXT.1 - WORD)).collect();
    let of = |from: usize, to: usize, rule_lines: usize| {
        let before = (from > 0).then(|| omitted(from, "before"));
        let indent = if before.is_some() { LINE } else { 0 };
        let mut section = section(panel, top + indent, from..to, |row, y| {
            let rule = if row == at { shortened(&rule, rule_lines) } else { Vec::new() };
            LayoutRow::of(panel, (number, row), Some(row == at), &rule, y)
        });
        section.top = top;
        section.omitted.extend(before.map(|text| (top + HEAD + 13, text)));
        if to < count {
            section.omitted.push((section.bottom + 8, omitted(count - to, "after")));
            section.bottom += LINE;
        }
        section
    };
    let fits = |section: &Section<'_>| section.bottom + 10 + MARGIN <= HIGHEST;
    let rule_lines = (0..=RULE_LINES).rev().find(|lines| fits(&of(at, at + 1, *lines))).unwrap_or_default();
    let (mut from, mut to) = (at, at + 1);
    loop {
        if from > 0 && fits(&of(from - 1, to, rule_lines)) {
            from -= 1;
        } else if to < count && fits(&of(from, to + 1, rule_lines)) {
            to += 1;
        } else {
            return of(from, to, rule_lines);
        }
    }
}

fn omitted(count: usize, place: &str) -> String {
    format!("... {count} more {} {place}", if count == 1 { "row" } else { "rows" })
}

fn shortened(lines: &[String], count: usize) -> Vec<String> {
    let mut kept: Vec<String> = lines.iter().take(count).cloned().collect();
    if let (true, Some(last)) = (count < lines.len(), kept.last_mut()) {
        while SMALL.width(&format!("{last} ...")) > TEXT.1 - WORD {
            last.truncate(last.trim_end().rfind(' ').unwrap_or_default());
        }
        last.push_str(" ...");
    }
    kept
}

fn frame(drawing: &mut Drawing, picture: &Picture, sections: &[Section<'_>], (top, bottom): (u32, u32)) {
    let pod = Area { x: POD.0, y: top, width: POD.1, height: bottom - top };
    drawing.items.push(DrawingItem::Box(Fill::Pod, pod));
    drawing.text(POD.0 + 10, top + 16, SMALL, [(Ink::Quiet, "pod".to_owned())]);
    let inner = top + 22;
    let mut place = |column: (u32, u32), fill, (top, bottom): (u32, u32), name: &str| {
        let area = Area { x: column.0, y: top, width: column.1, height: bottom - top };
        drawing.items.push(DrawingItem::Box(fill, area));
        for (line, y) in name_lines(name, column.1 - 8).iter().zip((top + 17..).step_by(15)) {
            drawing.centred(column.0 + column.1 / 2, y, STRONG, Ink::Plain, line);
        }
    };
    place(PROXY, Fill::Proxy, (inner, bottom - 10), picture.program.name);
    let machines = sections.iter().find(|section| section.panel.part == TrafficPart::Machines);
    let border = machines.filter(|_| sections.len() > 1).map(|section| section.top);
    if machines.is_none() || border.is_some() {
        let bottom = border.map_or(bottom - 10, |border| border - 2);
        place(APPLICATION, Fill::Place, (inner, bottom), FlowEndpoint::Application.name());
    }
    if machines.is_some() {
        let top = border.map_or(inner, |border| border + 2);
        place(APPLICATION, Fill::Place, (top, bottom - 10), FlowEndpoint::Machine.name());
    }
    place(NETWORK, Fill::Place, (inner, bottom - 10), FlowEndpoint::Network.name());
}

fn name_lines(name: &str, width: u32) -> Vec<String> {
    match name.find('-') {
        Some(at) if STRONG.width(name) > width && !name.contains(' ') => {
            vec![name[..=at].to_owned(), name[at + 1..].to_owned()]
        }
        _ => STRONG.lines(name, width),
    }
}

fn lines(flow: &PictureFlow, lit: Option<bool>) -> Vec<Vec<(Ink, String)>> {
    let font = label_font(lit);
    let width = TEXT.1 - WORD;
    let wrapped = |text: &str| font.lines(text, width);
    let option = flow.option.as_ref().map(|option| format!(" ({option})")).unwrap_or_default();
    let behind = if font.width(&option) <= width / 2 { option.as_str() } else { "" };
    let label = flow.label.text(|text| wrapped(&format!("{text}{behind}")).len() <= 2);
    let ink = if lit == Some(false) { Ink::Quiet } else { Ink::Plain };
    let mut lines: Vec<Vec<(Ink, String)>> =
        wrapped(&label).into_iter().map(|line| vec![(ink, line)]).collect();
    if let (false, Some(last)) = (option.is_empty(), lines.last_mut()) {
        let taken: u32 = last.iter().map(|(_, text)| font.width(text)).sum();
        if taken + font.width(&option) <= width {
            last.push((Ink::Quiet, option));
        } else {
            let own = wrapped(option.trim_start());
            lines.extend(own.into_iter().map(|line| vec![(Ink::Quiet, line)]));
        }
    }
    lines
}

fn label_font(lit: Option<bool>) -> Font {
    if lit == Some(true) { STRONG } else { BODY }
}

fn row_at(drawing: &mut Drawing, part: TrafficPart, row: &LayoutRow<'_>) {
    let LayoutRow { at, flow, lit, lines, label, top, height, arrow, text } = row;
    drawing.rows.push((*at, Area { x: MARGIN, y: *top, width: WIDTH - 2 * MARGIN, height: *height }));
    if *lit == Some(true) {
        let area = Area { x: TEXT.0 - 4, y: top + 1, width: TEXT.1 + 6, height: height - 3 };
        drawing.items.push(DrawingItem::Box(Fill::Lit, area));
    }
    let quiet = *lit == Some(false);
    let (kind, ports) = flow.end();
    // The verdict is beside the arrow of its colour, which may run from application to proxy. Uncaptured traffic is the quietest.
    let is_sent = !matches!(part, TrafficPart::Inbound | TrafficPart::Within);
    let (x, y, font) = if ports.is_some() && is_sent && flow.from != FlowEndpoint::Proxy {
        (right(PROXY) + 2, arrow - 8, Font { bold: true, ..SMALL })
    } else {
        (TEXT.0, *text, if kind == VerdictKind::NotCaptured { label_font(*lit) } else { STRONG })
    };
    drawing.text(x, y, font, [(if quiet { Ink::Quiet } else { drawn(kind).0 }, kind.word().to_owned())]);
    for ((number, line), y) in lines.iter().enumerate().zip((*text..).step_by(LINE as usize)) {
        let font = if number >= *label { SMALL } else { label_font(*lit) };
        drawing.text(TEXT.0 + WORD, y, font, line.clone());
    }
    if let Some(ports) = ports {
        let ink = if quiet { Ink::Quiet } else { Ink::Plain };
        drawing.centred(PROXY.0 + PROXY.1 / 2, arrow + 4, SMALL, ink, &ports.dashed());
    }
    drawing.items.extend(path(part, flow, *arrow, quiet).into_iter().map(DrawingItem::Line));
}

fn drawn(kind: VerdictKind) -> (Ink, Stroke) {
    match kind {
        VerdictKind::Captured => (Ink::Captured, Stroke::Captured),
        VerdictKind::NotCaptured => (Ink::Passing, Stroke::Passing),
        VerdictKind::Dropped => (Ink::Dropped, Stroke::Dropped),
        VerdictKind::Unknown | VerdictKind::Depends => (Ink::Quiet, Stroke::Unknown),
    }
}

fn path(part: TrafficPart, flow: &PictureFlow, y: u32, quiet: bool) -> Vec<Line> {
    use TrafficPart::{Inbound, Machines, Outbound, Within};
    let (kind, ports) = flow.end();
    let (_, stroke) = drawn(kind);
    let line = |from: u32, to: u32| Line { stroke, quiet, from, to, y, end: LineEnd::Open };
    let arrow = |from: u32, to: u32| Line { end: LineEnd::Tip, ..line(from, to) };
    let turn = |from: u32, to: u32| Line { end: LineEnd::Turn, ..line(from, to) };
    let on = |from: u32, to: u32| Line { stroke: Stroke::HandedOn, ..arrow(from, to) };
    let (outside, proxy, beyond, application) = (right(NETWORK), PROXY.0, right(PROXY), APPLICATION.0);
    let between = (beyond + application) / 2;
    let is_ended = !matches!(kind, VerdictKind::Captured | VerdictKind::NotCaptured);
    let is_captured = ports.is_some();
    match (part, flow.from == FlowEndpoint::Proxy) {
        (Inbound, _) if is_captured => vec![arrow(outside, proxy), on(beyond, application)],
        (Inbound, _) if is_ended => vec![arrow(outside, POD.0 - 24)],
        (Inbound, _) if flow.to == FlowEndpoint::Proxy => vec![arrow(outside, proxy)],
        (Inbound, _) => vec![line(outside, proxy), arrow(beyond, application)],
        (Outbound | Machines, true) if is_captured => vec![turn(proxy, proxy - 40)],
        (Outbound | Machines, true) if is_ended => vec![arrow(proxy, POD.0 - 24)],
        (Outbound | Machines, true) => vec![arrow(proxy, outside)],
        (Outbound | Machines, false) if is_captured => vec![arrow(application, beyond), on(proxy, outside)],
        (Outbound | Machines, false) if is_ended => vec![arrow(application, between)],
        (Outbound | Machines, false) => vec![line(application, beyond), arrow(proxy, outside)],
        (Within, true) if is_captured => vec![turn(beyond, between)],
        (Within, true) if is_ended => vec![arrow(beyond, between)],
        (Within, true) => vec![arrow(beyond, application)],
        (Within, false) if is_captured => {
            let above = Line { y: y - 5, ..arrow(application, beyond) };
            vec![above, Line { y: y + 5, ..on(beyond, application) }]
        }
        (Within, false) if is_ended => vec![arrow(application, between)],
        (Within, false) => vec![turn(application, between)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_at_a_dash_only_if_they_do_not_fit() {
        assert_eq!(name_lines("linkerd2-proxy", 1000), ["linkerd2-proxy"]);
        assert_eq!(name_lines("linkerd2-proxy", 10), ["linkerd2-", "proxy"]);
    }
}
