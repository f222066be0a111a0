//! A picture as SVG: no fonts, scripts or hosts; light or dark as its reader's page is.

use super::colours::{BEHIND, BORDERS, Colour, TEXT};
use super::drawing::{Area, Drawing, Fill, Ink, Item, Stroke, Text};
use super::layout::drawing;
use super::{Disposition, Picture};
use std::fmt::Write;

impl Picture {
    /// The picture as an SVG document, whose classes start with `t-`. It stays below 40 kB, however long lists are.
    pub fn svg(&self) -> String {
        let drawing = drawing(self);
        let Drawing { width, height, items } = &drawing;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\">\n<title>{}</title>\n<desc>{}</desc>\n<style>\n{}</style>\n",
            escaped(&self.title),
            escaped(&self.description()),
            style()
        );
        for item in items {
            match item {
                Item::Box(fill, area) => rectangle(&mut out, *fill, *area),
                Item::Arrow { stroke, quiet, from, to, y } => {
                    arrow(&mut out, *stroke, *quiet, (*from, *to), *y);
                }
                Item::Text(text) => text_at(&mut out, text),
            }
        }
        out.push_str("</svg>\n");
        out
    }

    /// The picture in sentences, for who does not see it.
    fn description(&self) -> String {
        /// What a screen reader reads in one go; a picture of long lists has no more.
        const MAX: usize = 120;
        let mut out = self.notes.join(" ");
        for (number, panel) in self.panels.iter().enumerate() {
            write!(out, " {}:", panel.part.title()).expect("a string takes all");
            let shown = panel.flows.iter().enumerate().filter(|(_, flow)| flow.shown);
            for (place, (at, flow)) in shown.enumerate() {
                let label = flow.label.text(|text| text.len() <= MAX);
                let to = match flow.disposition {
                    Disposition::Captured(ports) => {
                        format!(" by the {} at {}", super::Place::Proxy.name(), ports.dashed())
                    }
                    Disposition::Passing | Disposition::Dropped | Disposition::Unknown => String::new(),
                };
                let option = flow.option.as_ref().map(|option| format!(" ({option})")).unwrap_or_default();
                let way = self.way.as_ref().filter(|way| way.at == (number, at));
                let way =
                    way.map(|way| format!(", the way of the packet {}", way.packet)).unwrap_or_default();
                let mark = if place == 0 { " " } else { "; " };
                write!(out, "{mark}{label}: {}{to}{option}{way}", flow.disposition.word())
                    .expect("a string takes all");
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
         .t-captured-line{stroke-width:3}.t-passing-line{stroke-width:2;stroke-dasharray:8 5}\n\
         .t-dropped-line{stroke-width:2.5}.t-quiet-line{stroke-width:1.2}.t-line.t-thin{stroke-width:1.2}\n\
         .t-line.t-whole{stroke-dasharray:none}\n",
    );
    let light = |(_, _, light, _): &Colour| *light;
    let dark = |(_, _, _, dark): &Colour| *dark;
    rules(&mut out, light);
    out.push_str("@media(prefers-color-scheme:dark){\n");
    rules(&mut out, dark);
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
    line(
        out,
        format_args!(
            "<rect class=\"t-{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"/>"
        ),
    );
}

/// An arrow from left to right. Its tip is drawn beside it: markers would need names that are unique on a page.
fn arrow(out: &mut String, stroke: Stroke, quiet: bool, (from, to): (u32, u32), y: u32) {
    let name = match stroke {
        Stroke::Captured => "captured",
        Stroke::Passing => "passing",
        Stroke::Dropped => "dropped",
        Stroke::Unknown | Stroke::HandedOn => "quiet",
    };
    let thin = if quiet { " t-thin" } else { "" };
    let lost = if matches!(stroke, Stroke::Dropped | Stroke::Unknown) { " t-lost" } else { "" };
    let end = match stroke {
        Stroke::Captured | Stroke::HandedOn => to - 9,
        Stroke::Passing => to - 2,
        Stroke::Dropped | Stroke::Unknown => to,
    };
    line(out, format_args!("<path class=\"t-line t-{name}-line{lost}{thin}\" d=\"M{from} {y}H{end}\"/>"));
    let (above, below) = (y - 5, y + 5);
    match stroke {
        Stroke::Captured => {
            line(
                out,
                format_args!(
                    "<path class=\"t-{name}-tip\" d=\"M{} {above}L{} {y}L{} {below}z\"/>",
                    to - 11,
                    to - 1,
                    to - 11
                ),
            );
        }
        Stroke::HandedOn => {
            line(
                out,
                format_args!(
                    "<path class=\"t-{name}-tip\" d=\"M{} {}L{} {y}L{} {}z\"/>",
                    to - 9,
                    y - 3,
                    to - 1,
                    to - 9,
                    y + 3
                ),
            );
        }
        Stroke::Passing => line(
            out,
            format_args!(
                "<path class=\"t-line t-{name}-line t-whole{thin}\" d=\"M{} {above}L{} {y}L{} {below}\"/>",
                to - 10,
                to - 2,
                to - 10
            ),
        ),
        Stroke::Dropped => line(
            out,
            format_args!(
                "<path class=\"t-line t-{name}-line{thin}\" d=\"M{to} {above}l10 10M{to} {below}l10 -10\"/>"
            ),
        ),
        Stroke::Unknown => {}
    }
}

fn text_at(out: &mut String, text: &Text) {
    let Text { x, y, centred, font, pieces } = text;
    let bold = if font.bold { " t-bold" } else { "" };
    let anchor = if *centred { " text-anchor=\"middle\"" } else { "" };
    let start = format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"{anchor}", font.size);
    match pieces.as_slice() {
        [(ink, words)] => {
            line(out, format_args!("{start} class=\"{}{bold}\">{}</text>", class(*ink), escaped(words)));
        }
        pieces => {
            let pieces = pieces.iter().map(|(ink, words)| {
                format!("<tspan class=\"{}{bold}\">{}</tspan>", class(*ink), escaped(words))
            });
            line(out, format_args!("{start}>{}</text>", pieces.collect::<String>()));
        }
    }
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
