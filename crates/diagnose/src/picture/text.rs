//! A picture as text: an arrow a line, coloured, as wide as the terminal.

use super::flow::{FlowEndpoint, PictureFlow};
use super::letters;
use super::model::Picture;
use crate::Style;
use crate::explain::VerdictKind;
use std::fmt::Write;

/// The columns that arrows and what they lead to take.
const WORD: usize = 12;
const PLACE: usize = 18;

impl Picture {
    /// The picture for a terminal of so many columns. It holds escape sequences for colours.
    pub fn text(&self, width: usize) -> String {
        let width = width.clamp(60, 120);
        let mut text = String::new();
        for line in wrapped(&self.title, width) {
            line_of(&mut text, &Style::Strong.paint(line));
        }
        let packet =
            self.path.as_ref().map(|path| format!("> marks the row of this packet: {}", path.packet));
        for note in self.notes.iter().chain(&packet) {
            for line in wrapped(note, width) {
                line_of(&mut text, &Style::Quiet.paint(line));
            }
        }
        for (number, panel) in self.shown_panels() {
            text.push('\n');
            line_of(&mut text, &Style::Strong.paint(panel.part.title()));
            for (at, flow) in panel.flows.iter().enumerate() {
                let lit = self.path.as_ref().map(|path| path.is_at(number, at));
                arrow(&mut text, flow, self.proxy, lit, width);
            }
        }
        if let Some(rule) = self.path.as_ref().and_then(|path| path.rule.as_ref()) {
            text.push('\n');
            for line in wrapped(rule, width) {
                line_of(&mut text, &Style::Quiet.paint(line));
            }
        }
        text
    }
}

/// Writes an arrow. The path of the packet in question is marked, and all others are dimmed.
fn arrow(text: &mut String, flow: &PictureFlow, proxy: &str, lit: Option<bool>, width: usize) {
    let (kind, ports) = flow.end();
    let style = if lit == Some(false) { Style::Quiet } else { kind.style() };
    let (shaft, place) = match (kind, ports) {
        (VerdictKind::Captured, Some(ports)) => ("==>", format!("{proxy} {}", ports.dashed())),
        (VerdictKind::NotCaptured, _) if flow.to == FlowEndpoint::Proxy => ("-->", proxy.to_owned()),
        (VerdictKind::NotCaptured, _) => ("-->", flow.to.name().to_owned()),
        (VerdictKind::Dropped, _) => ("--x", String::new()),
        _ => ("-?-", String::new()),
    };
    let mark = if lit == Some(true) { '>' } else { ' ' };
    // The longest place is the proxy with a port.
    let place_width = PLACE.max(proxy.len() + " 65535".len());
    let indent = 2 + WORD + 1 + 3 + 1 + place_width + 1;
    let rest = width - indent;
    let option = flow.option.as_ref().map(|option| format!(" ({option})")).unwrap_or_default();
    let label = flow.label.text(|label| wrapped(&format!("{label}{option}"), rest).len() <= 2);
    let label = wrapped(&format!("{label}{option}"), rest);
    for (number, line) in label.iter().enumerate() {
        let line: Box<dyn std::fmt::Display> = match lit {
            Some(true) => Box::new(Style::Strong.paint(line)),
            Some(false) => Box::new(Style::Quiet.paint(line)),
            None => Box::new(line),
        };
        if number == 0 {
            let word = style.paint(kind.word());
            let path = style.paint(format!("{shaft} {place:place_width$}"));
            line_of(text, &format_args!("{mark} {word:WORD$} {path} {line}"));
        } else {
            line_of(text, &format_args!("{:indent$}{line}", ""));
        }
    }
}

fn line_of(text: &mut String, line: &dyn std::fmt::Display) {
    writeln!(text, "{line}").expect("writing to a string can't fail");
}

/// The text in lines of so many columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    letters::lines(text, |line| line.chars().count() <= width)
}
