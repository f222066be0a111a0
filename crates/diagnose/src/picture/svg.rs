//! Pictures as SVG, without fonts, scripts or external resources; light or dark like the surrounding page.

use super::drawing::{Area, Drawing, DrawingItem, Fill, Ink, Line, LineEnd, Stroke, Text};
use super::model::{FlowEndpoint, Picture};
use super::{layout::drawing, rows::MAX_LABEL};
use crate::explain::VerdictKind;
use std::fmt::Write;

impl Picture {
    /// Picture as an SVG document, whose classes start with `t-`. Long lists are folded, so their length does not matter.
    pub fn svg(&self) -> String {
        let drawing = drawing(self);
        let Drawing { width, height, items, rows: _ } = &drawing;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\">\n<title>{}</title>\n<desc>{}</desc>\n<style>\n{}</style>\n",
            escaped(&self.title),
            escaped(&self.description()),
            style()
        );
        for item in items {
            match item {
                DrawingItem::Box(fill, area) => rectangle(&mut out, *fill, *area),
                DrawingItem::Line(line) => line.draw(&mut out),
                DrawingItem::Text(text) => text_at(&mut out, text),
            }
        }
        out.push_str("</svg>\n");
        out
    }

    /// Picture in sentences, for screen readers.
    fn description(&self) -> String {
        let mut out = self.notes.join(" ");
        for (number, panel) in self.shown_panels() {
            write!(out, " {}:", panel.part.title()).expect("a string takes all");
            for (at, flow) in panel.flows.iter().enumerate() {
                let label = flow.label.text(|text| text.len() <= MAX_LABEL);
                let (kind, ports) = flow.end();
                let to = match (kind, ports) {
                    (VerdictKind::Captured, Some(ports)) => {
                        format!(" by {} at {}", self.recipient(flow), ports.dashed())
                    }
                    (VerdictKind::NotCaptured, _) if flow.to == FlowEndpoint::Proxy => {
                        format!(" to {}", self.recipient(flow))
                    }
                    _ => String::new(),
                };
                let option = flow.option.as_ref().map(|option| format!(" ({option})")).unwrap_or_default();
                let path = self.path.as_ref().filter(|path| path.at == (number, at));
                let path =
                    path.map(|path| format!(", the row of the packet {}", path.packet)).unwrap_or_default();
                let mark = if at == 0 { " " } else { "; " };
                write!(out, "{mark}{label}: {}{to}{option}{path}", kind.word()).expect("a string takes all");
            }
            out.push('.');
        }
        out.trim_start().to_owned()
    }
}

fn style() -> String {
    let mut out = String::from(
        "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}\n\
         .t-bold{font-weight:bold}.t-line{fill:none}.t-lost{stroke-dasharray:2 5}\n\
         .t-captured-line{stroke-width:2.5}.t-passing-line{stroke-width:1.5;stroke-dasharray:6 4}\n\
         .t-dropped-line{stroke-width:2.5}.t-quiet-line{stroke-width:1.2}.t-line.t-thin{stroke-width:1.2}\n\
         .t-line.t-whole{stroke-dasharray:none}\n",
    );
    rules(&mut out, |(_, _, light, _)| light);
    out.push_str("@media(prefers-color-scheme:dark){\n");
    rules(&mut out, |(_, _, _, dark)| dark);
    out.push_str("}\n");
    out
}

fn rules(out: &mut String, shade: impl Fn(&Colour) -> &'static str) {
    for colour @ (class, what, ..) in TEXT.iter().chain(&BEHIND).chain(&BORDERS) {
        write!(out, ".t-{class}{{{what}:{}}}", shade(colour)).expect("a string takes all");
    }
    for colour @ (class, ..) in TEXT.iter().filter(|(class, ..)| *class != "plain") {
        let shade = shade(colour);
        write!(out, ".t-{class}-line{{stroke:{shade}}}.t-{class}-tip{{fill:{shade};stroke:{shade}}}")
            .expect("a string takes all");
    }
    out.push('\n');
}

fn rectangle(out: &mut String, fill: Fill, Area { x, y, width, height }: Area) {
    let (class, round) = match fill {
        Fill::Page => ("page", 0),
        Fill::Pod => ("pod", 10),
        Fill::Place => ("place", 6),
        Fill::Proxy => ("proxy", 6),
        Fill::Lit => ("lit", 4),
    };
    let size = format!("width=\"{width}\" height=\"{height}\"");
    line(out, format_args!("<rect class=\"t-{class}\" x=\"{x}\" y=\"{y}\" {size} rx=\"{round}\"/>"));
}

impl Line {
    /// Draws the tip as a separate path: markers would need names that are unique on a page.
    fn draw(&self, out: &mut String) {
        let Self { stroke, quiet, from, to, y, end } = *self;
        // Name of the line's colour, and the part of the line that a tip covers.
        let (name, covered) = match stroke {
            Stroke::Captured => ("captured", 9),
            Stroke::Passing => ("passing", 2),
            Stroke::Dropped => ("dropped", 0),
            Stroke::Unknown => ("quiet", 0),
            Stroke::HandedOn => ("quiet", 9),
        };
        let thin = if quiet { " t-thin" } else { "" };
        let lost = if matches!(stroke, Stroke::Dropped | Stroke::Unknown) { " t-lost" } else { "" };
        // Position of the tip, and true if it points right.
        let (x, y_of_tip, is_right) = match end {
            LineEnd::Open | LineEnd::Tip => (to, y, to > from),
            LineEnd::Turn => (from, y + 6, from > to),
        };
        let back = |by: u32| if is_right { x - by } else { x + by };
        let data = match end {
            LineEnd::Open => format!("M{from} {y}H{to}"),
            LineEnd::Tip => format!("M{from} {y}H{}", back(covered)),
            LineEnd::Turn => format!("M{from} {}H{to}V{y_of_tip}H{}", y - 6, back(covered)),
        };
        line(out, format_args!("<path class=\"t-line t-{name}-line{lost}{thin}\" d=\"{data}\"/>"));
        if end == LineEnd::Open {
            return;
        }
        let tip = |half: u32, length: u32, point: u32| {
            let (above, below) = (y_of_tip - half, y_of_tip + half);
            format!("M{0} {above}L{1} {y_of_tip}L{0} {below}", back(length), back(point))
        };
        let (class, data) = match stroke {
            Stroke::Captured => (format!("t-{name}-tip"), tip(5, 11, 1) + "z"),
            Stroke::HandedOn => (format!("t-{name}-tip"), tip(3, 9, 1) + "z"),
            Stroke::Passing => (format!("t-line t-{name}-line t-whole{thin}"), tip(5, 10, 2)),
            Stroke::Dropped => {
                let data = format!("M{0} {1}l10 10M{0} {2}l10 -10", x - 5, y_of_tip - 5, y_of_tip + 5);
                (format!("t-line t-{name}-line{thin}"), data)
            }
            Stroke::Unknown => return,
        };
        line(out, format_args!("<path class=\"{class}\" d=\"{data}\"/>"));
    }
}

fn text_at(out: &mut String, text: &Text) {
    let Text { x, y, centred, font, pieces } = text;
    let bold = if font.bold { " t-bold" } else { "" };
    let anchor = if *centred { " text-anchor=\"middle\"" } else { "" };
    let start = format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"{anchor}", font.size);
    if let [(ink, words)] = &pieces[..] {
        return line(out, format_args!("{start} class=\"{}{bold}\">{}</text>", class(*ink), escaped(words)));
    }
    let pieces = pieces.iter().map(|(ink, words)| {
        // Some renderers drop a space at the start of a piece.
        let (gap, words) = words.strip_prefix(' ').map_or(("", &**words), |rest| (" dx=\"4\"", rest));
        format!("<tspan class=\"{}{bold}\"{gap}>{}</tspan>", class(*ink), escaped(words))
    });
    line(out, format_args!("{start}>{}</text>", pieces.collect::<String>()));
}

fn class(ink: Ink) -> &'static str {
    match ink {
        Ink::Plain => "t-plain",
        Ink::Quiet => "t-quiet",
        Ink::Captured => "t-captured",
        Ink::Passing => "t-passing",
        Ink::Dropped => "t-dropped",
    }
}

fn line(out: &mut String, content: std::fmt::Arguments<'_>) {
    out.write_fmt(content).expect("a string takes all");
    out.push('\n');
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

// Blue for captured traffic, grey for other traffic, and a red that differs from both in lightness, so that colour-blind
// readers can distinguish them. Tests check their contrast with every background.

/// Style sheet class, the property that it colours, and the colours on light and dark pages.
pub(super) type Colour = (&'static str, &'static str, &'static str, &'static str);

/// Colours of text, and of lines of the same name.
pub(super) const TEXT: [Colour; 5] = [
    ("plain", "fill", "#1b2530", "#e8edf3"),
    ("quiet", "fill", "#515c68", "#aab6c2"),
    ("captured", "fill", "#0a58b8", "#74b3ff"),
    ("passing", "fill", "#68696b", "#9aa3ad"),
    ("dropped", "fill", "#5c0a2e", "#ffd0d0"),
];

/// Backgrounds of text.
pub(super) const BEHIND: [Colour; 5] = [
    ("page", "fill", "#ffffff", "#10151b"),
    ("pod", "fill", "#f3f6fa", "#19212a"),
    ("place", "fill", "#e6ebf1", "#2a343f"),
    ("proxy", "fill", "#d9e7fa", "#1d3657"),
    ("lit", "fill", "#fff3c9", "#3b3516"),
];

pub(super) const BORDERS: [Colour; 4] = [
    ("pod", "stroke", "#8593a3", "#5d6c7c"),
    ("place", "stroke", "#8593a3", "#6f7f90"),
    ("proxy", "stroke", "#0a58b8", "#74b3ff"),
    ("lit", "stroke", "#b58900", "#d0a520"),
];
