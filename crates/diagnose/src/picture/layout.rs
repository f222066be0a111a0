//! The places of everything: parts below each other, in each an arrow a row, from where packets start by the proxy to
//! where they were sent.

use super::drawing::{Area, Drawing, Fill, Ink, Item, Stroke};
use super::letters::Font;
use super::panel::{Panel, Part};
use super::{Disposition, Flow, Picture, Place};

/// Columns, in pixels. A laptop's screen and a page of documentation show them all.
const WIDTH: u32 = 980;
const MARGIN: u32 = 20;
const SOURCE: (u32, u32) = (32, 112);
const WORD: u32 = 158;
const LABEL: (u32, u32) = (240, 384);
const PROXY: (u32, u32) = (644, 132);
const END: (u32, u32) = (836, 112);
/// Where arrows end whose packets are dropped.
const LOST: u32 = 600;

const LINE: u32 = 18;
/// Rows are high enough for a box of two lines.
const ROW: u32 = 50;

const TITLE: Font = Font::bold(18);
const HEADING: Font = Font::bold(15);
const STRONG: Font = Font::bold(13);
const BODY: Font = Font::plain(13);
const SMALL: Font = Font::plain(12);

/// Lays a picture out.
pub(super) fn drawing(picture: &Picture) -> Drawing {
    let mut drawing = Drawing { width: WIDTH, ..Drawing::default() };
    let mut y = 18;
    for line in TITLE.lines(&picture.title, WIDTH - 2 * MARGIN) {
        y += 24;
        drawing.text(MARGIN, y, TITLE, [(Ink::Plain, line)]);
    }
    for note in &picture.notes {
        for line in BODY.lines(note, WIDTH - 2 * MARGIN) {
            y += LINE + 2;
            drawing.text(MARGIN, y, BODY, [(Ink::Quiet, line)]);
        }
    }
    for (number, panel) in picture.panels.iter().enumerate() {
        y = panel_at(&mut drawing, picture, number, panel, y + 20);
    }
    y = legend(&mut drawing, y + 16);
    drawing.height = y + MARGIN;
    let page = Area { x: 0, y: 0, width: WIDTH, height: drawing.height };
    drawing.items.insert(0, Item::Box(Fill::Page, page));
    drawing
}

/// A row, measured.
struct Row<'a> {
    flow: &'a Flow,
    /// Whether the packet in question takes it; `None` if there is none.
    lit: Option<bool>,
    lines: Vec<Vec<(Ink, String)>>,
    top: u32,
    height: u32,
}

impl Row<'_> {
    fn arrow(&self) -> u32 {
        self.top + self.height - 13
    }

    fn is_quiet(&self) -> bool {
        self.lit == Some(false)
    }
}

fn panel_at(drawing: &mut Drawing, picture: &Picture, number: usize, panel: &Panel, top: u32) -> u32 {
    drawing.text(MARGIN, top + 14, HEADING, [(Ink::Plain, panel.part.title().to_owned())]);
    let frame_top = top + 24;
    let mut y = frame_top + 24;
    let mut rows = Vec::new();
    for (at, flow) in panel.flows.iter().enumerate().filter(|(_, flow)| flow.shown) {
        let way = picture.way.as_ref();
        let lit = way.map(|way| way.at == (number, at));
        let more = way.filter(|_| lit == Some(true)).into_iter();
        let more = more.flat_map(|way| [Some(format!("this packet: {}", way.packet)), way.rule.clone()]);
        let more: Vec<String> = more.flatten().collect();
        let lines = lines(flow, lit, &more);
        let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        let height = (count * LINE + 28).max(ROW);
        rows.push(Row { flow, lit, lines, top: y, height });
        y += height;
    }
    let bottom = y + 8;
    let (x, right) = match panel.part {
        Part::Inbound => (PROXY.0 - 14, WIDTH - MARGIN),
        Part::Machines | Part::Outbound => (MARGIN, PROXY.0 + PROXY.1 + 14),
        Part::Within => (MARGIN, WIDTH - MARGIN),
    };
    let frame = Area { x, y: frame_top, width: right - x, height: bottom - frame_top };
    drawing.items.push(Item::Box(Fill::Pod, frame));
    drawing.text(x + 12, frame_top + 17, SMALL, [(Ink::Quiet, "pod".to_owned())]);
    for row in &rows {
        row_at(drawing, row);
    }
    let starts = runs(&rows, |row| Some((row.flow.from, None)));
    let listeners = runs(&rows, |row| match row.flow.disposition {
        Disposition::Captured(ports) => Some((Place::Proxy, Some(ports))),
        Disposition::Passing | Disposition::Dropped | Disposition::Unknown => None,
    });
    let ends = runs(&rows, |_| Some((panel.part.ends().1, None)));
    for (column, boxes) in [(SOURCE, starts), (PROXY, listeners), (END, ends)] {
        for ((place, ports), (top, bottom)) in boxes {
            let mut words: Vec<(Font, String)> = place
                .name()
                .split(if place == Place::Machine { " " } else { "\n" })
                .map(|w| (STRONG, w.to_owned()))
                .collect();
            words.extend(ports.map(|ports| {
                let noun = if ports.is_single() { "port" } else { "ports" };
                (SMALL, format!("{noun} {}", ports.dashed()))
            }));
            place_at(drawing, place, column, (top, bottom), &words);
        }
    }
    bottom
}

/// A row's text: what it is about and the option, then the packet that takes it.
fn lines(flow: &Flow, lit: Option<bool>, more: &[String]) -> Vec<Vec<(Ink, String)>> {
    let font = label_font(lit);
    let wrapped = |text: &str| font.lines(text, LABEL.1);
    let option = flow.option.as_ref().map(|option| format!(" ({option})")).unwrap_or_default();
    // A long option has a separate line anyway.
    let behind = if font.width(&option) <= LABEL.1 / 2 { option.as_str() } else { "" };
    let label = flow.label.text(|text| wrapped(&format!("{text}{behind}")).len() <= 2);
    let ink = if lit == Some(false) { Ink::Quiet } else { Ink::Plain };
    let mut lines: Vec<Vec<(Ink, String)>> =
        wrapped(&label).into_iter().map(|line| vec![(ink, line)]).collect();
    if let (false, Some(last)) = (option.is_empty(), lines.last_mut()) {
        let width: u32 = last.iter().map(|(_, text)| font.width(text)).sum();
        if width + font.width(&option) <= LABEL.1 {
            last.push((Ink::Quiet, option));
        } else {
            let own = wrapped(option.trim_start());
            lines.extend(own.into_iter().map(|line| vec![(Ink::Quiet, line)]));
        }
    }
    let more = more.iter().flat_map(|text| SMALL.lines(text, LABEL.1));
    lines.extend(more.map(|line| vec![(Ink::Plain, line)]));
    lines
}

fn label_font(lit: Option<bool>) -> Font {
    if lit == Some(true) { STRONG } else { BODY }
}

fn row_at(drawing: &mut Drawing, row: &Row<'_>) {
    let Row { flow, lit, lines, top, height } = row;
    if *lit == Some(true) {
        let (x, right) = (WORD - 8, LABEL.0 + LABEL.1 + 2);
        let area = Area { x, y: top + 2, width: right - x, height: height - 4 };
        drawing.items.push(Item::Box(Fill::Lit, area));
    }
    let quiet = row.is_quiet();
    let (stroke, ink, to) = match flow.disposition {
        Disposition::Captured(_) => (Stroke::Captured, Ink::Captured, PROXY.0),
        Disposition::Passing => (Stroke::Passing, Ink::Passing, END.0),
        Disposition::Dropped => (Stroke::Dropped, Ink::Dropped, LOST),
        Disposition::Unknown => (Stroke::Unknown, Ink::Quiet, LOST),
    };
    let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    let first = row.arrow() - 10 - (count - 1) * LINE;
    let word = flow.disposition.word().to_owned();
    drawing.text(WORD, first, STRONG, [(if quiet { Ink::Quiet } else { ink }, word)]);
    for ((number, line), y) in lines.iter().enumerate().zip((first..).step_by(LINE as usize)) {
        let is_more = *lit == Some(true) && number >= label_lines(flow);
        let font = if is_more { SMALL } else { label_font(*lit) };
        drawing.text(LABEL.0, y, font, line.clone());
    }
    let (from, y) = (SOURCE.0 + SOURCE.1, row.arrow());
    drawing.items.push(Item::Arrow { stroke, quiet, from, to, y });
    if matches!(flow.disposition, Disposition::Captured(_)) {
        let (from, to) = (PROXY.0 + PROXY.1, END.0);
        drawing.items.push(Item::Arrow { stroke: Stroke::HandedOn, quiet, from, to, y });
    }
}

/// How many lines the text of a highlighted row takes, before that of the packet.
fn label_lines(flow: &Flow) -> usize {
    lines(flow, Some(true), &[]).len()
}

/// Boxes of rows that follow each other and have the same, with their tops and bottoms.
fn runs<K: PartialEq>(rows: &[Row<'_>], key: impl Fn(&Row<'_>) -> Option<K>) -> Vec<(K, (u32, u32))> {
    let mut runs: Vec<(Option<K>, (u32, u32))> = Vec::new();
    for row in rows {
        let (key, bottom) = (key(row), row.top + row.height);
        match runs.last_mut() {
            Some((last, (_, end))) if *last == key => *end = bottom,
            _ => runs.push((key, (row.top, bottom))),
        }
    }
    runs.into_iter().filter_map(|(key, ends)| Some((key?, ends))).collect()
}

fn place_at(
    drawing: &mut Drawing,
    place: Place,
    (x, width): (u32, u32),
    (top, bottom): (u32, u32),
    words: &[(Font, String)],
) {
    let fill = match place {
        Place::Proxy => Fill::Proxy,
        Place::Network | Place::Machine | Place::Application => Fill::Place,
    };
    let area = Area { x, y: top + 4, width, height: bottom - top - 8 };
    drawing.items.push(Item::Box(fill, area));
    let lines = u32::try_from(words.len()).unwrap_or(u32::MAX);
    let mut y = (top + bottom) / 2 + 5 - (lines - 1) * 8;
    for (font, word) in words {
        drawing.centred(x + width / 2, y, *font, Ink::Plain, word);
        y += 16;
    }
}

/// What lines mean, below all.
fn legend(drawing: &mut Drawing, top: u32) -> u32 {
    let samples = [
        (Stroke::Captured, Ink::Captured, "captured", "the proxy gets it first"),
        (Stroke::Passing, Ink::Passing, "passes", "goes where it was sent"),
        (Stroke::Dropped, Ink::Dropped, "dropped", "never arrives"),
    ];
    let mut y = top + 14;
    for ((stroke, ink, word, meaning), x) in samples.into_iter().zip([MARGIN, 350, 660]) {
        drawing.items.push(Item::Arrow { stroke, quiet: false, from: x, to: x + 48, y: y - 4 });
        let text = x + 70;
        drawing.text(text, y, STRONG, [(ink, word.to_owned())]);
        drawing.text(text + STRONG.width(word) + 8, y, SMALL, [(Ink::Quiet, meaning.to_owned())]);
    }
    y += 22;
    let order = "In each part, from top to bottom: the first matching arrow wins.";
    drawing.text(MARGIN, y, SMALL, [(Ink::Quiet, order.to_owned())]);
    y
}
