//! Where everything is drawn: network, proxy and application side by side, and below each other a row for each arrow.
//!
//! What passes the proxy by runs behind its box. What it captures ends there, at a port, and goes on from there.

use super::drawing::{Area, Drawing, Fill, Ink, Item, Stroke};
use super::letters::Font;
use super::panel::{Panel, Part};
use super::{Disposition, Flow, Picture, Place};

/// Columns in pixels, as left edge and width: as wide as the page and a README show them without scaling.
const WIDTH: u32 = 700;
const MARGIN: u32 = 8;
const NETWORK: (u32, u32) = (MARGIN, 76);
const TEXT: (u32, u32) = (94, 310);
/// From the left edge of the text, behind the word for the verdict.
const WORD: u32 = 74;
const POD: (u32, u32) = (410, 284);
const PROXY: (u32, u32) = (420, 92);
const APPLICATION: (u32, u32) = (576, 108);

const LINE: u32 = 18;
/// Rows are high enough for a line of text above an arrow.
const ROW: u32 = 40;
/// The height of a heading above its rows.
const HEAD: u32 = 26;

const TITLE: Font = Font::bold(18);
const HEADING: Font = Font::bold(15);
const STRONG: Font = Font::bold(13);
const BODY: Font = Font::plain(13);
const SMALL: Font = Font::plain(12);

const fn right((x, width): (u32, u32)) -> u32 {
    x + width
}

/// Lays a picture out: all of it, or of a packet's way the part that the packet belongs to.
pub(super) fn drawing(picture: &Picture) -> Drawing {
    let mut drawing = Drawing { width: WIDTH, ..Drawing::default() };
    let mut y = 6;
    // The verdict on a packet is said beside its picture.
    let (title, font) = match &picture.way {
        Some(way) => (&way.packet, HEADING),
        None => (&picture.title, TITLE),
    };
    for line in font.lines(title, WIDTH - 2 * MARGIN) {
        y += font.size + 5;
        drawing.text(MARGIN, y, font, [(Ink::Plain, line)]);
    }
    let order = "In each part, the first row that matches decides.";
    let order = picture.way.is_none().then(|| order.to_owned());
    for note in picture.notes.iter().chain(&order) {
        for line in BODY.lines(note, WIDTH - 2 * MARGIN) {
            y += LINE + 1;
            drawing.text(MARGIN, y, BODY, [(Ink::Quiet, line)]);
        }
    }
    let mut panels: Vec<(usize, &Panel)> = picture.shown_panels().collect();
    // Where others send, after all that the application sends and gets.
    panels.sort_by_key(|(_, panel)| panel.part == Part::Machines);
    let top = y + 14;
    // Two lines of names above the first row.
    let names = top + 58;
    y = names;
    let mut sections = Vec::new();
    for (number, panel) in panels {
        let section = section(picture, number, panel, y);
        y = section.bottom;
        sections.push(section);
    }
    let bottom = y + 10;
    frame(&mut drawing, picture, &sections, (top, bottom));
    for section in &sections {
        drawing.text(
            TEXT.0,
            section.top + 19,
            HEADING,
            [(Ink::Plain, section.panel.part.title().to_owned())],
        );
        section.rows.iter().for_each(|row| row_at(&mut drawing, section.panel.part, row));
    }
    drawing.height = bottom + MARGIN;
    let page = Area { x: 0, y: 0, width: WIDTH, height: drawing.height };
    drawing.items.insert(0, Item::Box(Fill::Page, page));
    drawing
}

/// A part with its rows, measured.
struct Section<'a> {
    panel: &'a Panel,
    rows: Vec<Row<'a>>,
    top: u32,
    bottom: u32,
}

/// A row, measured.
struct Row<'a> {
    /// Its panel and its place there.
    at: (usize, usize),
    flow: &'a Flow,
    /// Whether the packet that is asked about takes it; `None` if there is none.
    lit: Option<bool>,
    lines: Vec<Vec<(Ink, String)>>,
    top: u32,
    height: u32,
    /// The height of its arrow, and of its first line of text.
    arrow: u32,
    text: u32,
}

fn section<'a>(picture: &Picture, number: usize, panel: &'a Panel, top: u32) -> Section<'a> {
    let mut y = top + HEAD;
    let mut rows = Vec::new();
    for (at, flow) in panel.flows.iter().enumerate().filter(|(_, flow)| flow.shown) {
        let way = picture.way.as_ref();
        let lit = way.map(|way| way.at == (number, at));
        let rule = way.filter(|_| lit == Some(true)).and_then(|way| way.rule.as_deref());
        let lines = lines(flow, lit, rule);
        let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        // Within the pod, arrows are beside the text; elsewhere they run below it.
        let (height, arrow) = match panel.part {
            Part::Within => {
                let height = (count * LINE + 10).max(ROW);
                (height, height / 2)
            }
            Part::Inbound | Part::Outbound | Part::Machines => {
                let height = (count * LINE + 22).max(ROW);
                (height, height - 12)
            }
        };
        let text = if panel.part == Part::Within {
            (height - count * LINE) / 2 + 13
        } else {
            arrow + 8 - count * LINE
        };
        rows.push(Row {
            at: (number, at),
            flow,
            lit,
            lines,
            top: y,
            height,
            arrow: y + arrow,
            text: y + text,
        });
        y += height;
    }
    // Beside the heading alone there is room for two lines of a name.
    Section { panel, rows, top, bottom: (y + 6).max(top + 44) }
}

/// The pod, its proxy and its application, and what is outside.
fn frame(drawing: &mut Drawing, picture: &Picture, sections: &[Section<'_>], (top, bottom): (u32, u32)) {
    let pod = Area { x: POD.0, y: top, width: POD.1, height: bottom - top };
    drawing.items.push(Item::Box(Fill::Pod, pod));
    drawing.text(POD.0 + 10, top + 16, SMALL, [(Ink::Quiet, "pod".to_owned())]);
    let inner = top + 22;
    let mut place = |column: (u32, u32), fill, (top, bottom): (u32, u32), name: &str| {
        let area = Area { x: column.0, y: top, width: column.1, height: bottom - top };
        drawing.items.push(Item::Box(fill, area));
        for (line, y) in name_lines(name, column.1 - 8).iter().zip((top + 17..).step_by(15)) {
            drawing.centred(column.0 + column.1 / 2, y, STRONG, Ink::Plain, line);
        }
    };
    place(PROXY, Fill::Proxy, (inner, bottom - 10), picture.proxy);
    let right_side = |part: Part| match part {
        Part::Machines => Place::Machine,
        Part::Inbound | Part::Outbound | Part::Within => Place::Application,
    };
    for (at, (name, ends)) in runs(sections, |part| Some(right_side(part))).into_iter().enumerate() {
        let (top, bottom) = (if at == 0 { inner } else { ends.0 }, ends.1);
        place(APPLICATION, Fill::Place, (top, bottom), name.name());
    }
    let left_side = |part: Part| (part != Part::Within).then_some(Place::Network);
    for (at, (name, ends)) in runs(sections, left_side).into_iter().enumerate() {
        let (top, bottom) = (if at == 0 { inner } else { ends.0 }, ends.1);
        place(NETWORK, Fill::Place, (top, bottom), name.name());
    }
}

/// A name in lines that fit, broken behind a dash or at a space.
fn name_lines(name: &str, width: u32) -> Vec<String> {
    if STRONG.width(name) <= width {
        return vec![name.to_owned()];
    }
    match name.find('-') {
        Some(at) => vec![name[..=at].to_owned(), name[at + 1..].to_owned()],
        None => STRONG.lines(name, width),
    }
}

/// What follows each other and has the same at one side, with top and bottom.
fn runs(sections: &[Section<'_>], side: impl Fn(Part) -> Option<Place>) -> Vec<(Place, (u32, u32))> {
    let mut runs: Vec<(Option<Place>, (u32, u32))> = Vec::new();
    for section in sections {
        let place = side(section.panel.part);
        match runs.last_mut() {
            Some((last, (_, end))) if *last == place => *end = section.bottom,
            _ => runs.push((place, (section.top, section.bottom))),
        }
    }
    runs.into_iter().filter_map(|(place, ends)| Some((place?, ends))).collect()
}

/// A row's text: what it is about and the option, then the rule that decides about the packet that takes it.
fn lines(flow: &Flow, lit: Option<bool>, rule: Option<&str>) -> Vec<Vec<(Ink, String)>> {
    let font = label_font(lit);
    let width = TEXT.1 - WORD;
    let wrapped = |text: &str| font.lines(text, width);
    let option = flow.option.as_ref().map(|option| format!(" ({option})")).unwrap_or_default();
    // A long option has a line of its own anyway.
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
    let rule = rule.into_iter().flat_map(|text| SMALL.lines(text, width));
    lines.extend(rule.map(|line| vec![(Ink::Plain, line)]));
    lines
}

fn label_font(lit: Option<bool>) -> Font {
    if lit == Some(true) { STRONG } else { BODY }
}

fn row_at(drawing: &mut Drawing, part: Part, row: &Row<'_>) {
    let Row { at, flow, lit, lines, top, height, arrow, text } = row;
    drawing.rows.push((*at, Area { x: MARGIN, y: *top, width: WIDTH - 2 * MARGIN, height: *height }));
    if *lit == Some(true) {
        let area = Area { x: TEXT.0 - 4, y: top + 1, width: TEXT.1 + 6, height: height - 4 };
        drawing.items.push(Item::Box(Fill::Lit, area));
    }
    let quiet = *lit == Some(false);
    let ink = match flow.disposition {
        Disposition::Captured(_) => Ink::Captured,
        Disposition::Passing => Ink::Passing,
        Disposition::Dropped => Ink::Dropped,
        Disposition::Unknown => Ink::Quiet,
    };
    let word = flow.disposition.word().to_owned();
    drawing.text(TEXT.0, *text, STRONG, [(if quiet { Ink::Quiet } else { ink }, word)]);
    for ((number, line), y) in lines.iter().enumerate().zip((*text..).step_by(LINE as usize)) {
        let is_more = *lit == Some(true) && number >= label_lines(flow);
        let font = if is_more { SMALL } else { label_font(*lit) };
        drawing.text(TEXT.0 + WORD, y, font, line.clone());
    }
    if let Disposition::Captured(ports) = flow.disposition {
        let middle = PROXY.0 + PROXY.1 / 2;
        let ink = if quiet { Ink::Quiet } else { Ink::Plain };
        drawing.centred(middle, arrow + 4, SMALL, ink, &ports.dashed().to_string());
    }
    drawing.items.extend(path(part, flow, *arrow, quiet));
}

/// How many lines the words of a lit row take, before the rule.
fn label_lines(flow: &Flow) -> usize {
    lines(flow, Some(true), None).len()
}

/// The way of packets at this height, in pieces.
fn path(part: Part, flow: &Flow, y: u32, quiet: bool) -> Vec<Item> {
    let stroke = match flow.disposition {
        Disposition::Captured(_) => Stroke::Captured,
        Disposition::Passing => Stroke::Passing,
        Disposition::Dropped => Stroke::Dropped,
        Disposition::Unknown => Stroke::Unknown,
    };
    let at = |from: u32, to: u32, y: u32| Item::Arrow { stroke, quiet, from, to, y, tip: true };
    let arrow = |from: u32, to: u32| at(from, to, y);
    let line = |from: u32, to: u32| Item::Arrow { stroke, quiet, from, to, y, tip: false };
    let on =
        |from: u32, to: u32, y: u32| Item::Arrow { stroke: Stroke::HandedOn, quiet, from, to, y, tip: true };
    let turn = |x: u32, to: u32| Item::Turn { stroke, quiet, x, to, y };
    let (outside, proxy, beyond, application) = (right(NETWORK), PROXY.0, right(PROXY), APPLICATION.0);
    let between = (beyond + application) / 2;
    let is_ended = matches!(flow.disposition, Disposition::Dropped | Disposition::Unknown);
    let is_captured = matches!(flow.disposition, Disposition::Captured(_));
    match (part, flow.from == Place::Proxy) {
        (Part::Inbound, _) if is_captured => vec![arrow(outside, proxy), on(beyond, application, y)],
        (Part::Inbound, _) if is_ended => vec![arrow(outside, POD.0 - 24)],
        (Part::Inbound, _) => vec![line(outside, proxy), arrow(beyond, application)],
        (Part::Outbound | Part::Machines, true) if is_captured => vec![turn(proxy, proxy - 40)],
        (Part::Outbound | Part::Machines, true) if is_ended => vec![arrow(proxy, POD.0 - 24)],
        (Part::Outbound | Part::Machines, true) => vec![arrow(proxy, outside)],
        (Part::Outbound | Part::Machines, false) if is_captured => {
            vec![arrow(application, beyond), on(proxy, outside, y)]
        }
        (Part::Outbound | Part::Machines, false) if is_ended => vec![arrow(application, between)],
        (Part::Outbound | Part::Machines, false) => vec![line(application, beyond), arrow(proxy, outside)],
        (Part::Within, true) if is_captured => vec![turn(beyond, between)],
        (Part::Within, true) if is_ended => vec![arrow(beyond, between)],
        (Part::Within, true) => vec![arrow(beyond, application)],
        (Part::Within, false) if is_captured => {
            vec![at(application, beyond, y - 5), on(beyond, application, y + 5)]
        }
        (Part::Within, false) if is_ended => vec![arrow(application, between)],
        (Part::Within, false) => vec![turn(application, between)],
    }
}
