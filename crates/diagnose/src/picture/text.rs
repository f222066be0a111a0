//! Rows of traffic as text: an arrow a line, coloured, as wide as the terminal.

use super::letters;
use super::model::Picture;
use super::rows::TrafficRowReport;
use crate::Style;
use crate::explain::VerdictKind;
use crate::traffic::TrafficPart;
use std::fmt::{Display, Write};

/// The columns that arrows and what they lead to take.
const WORD: usize = 12;
const PLACE: usize = 18;

impl Picture {
    /// The picture for a terminal of so many columns. It holds escape sequences for colours.
    pub fn text(&self, width: usize) -> String {
        let mut page = RowPage::of(width, self.program.name);
        page.lines(Style::Strong, &self.title);
        let packet =
            self.path.as_ref().map(|path| format!("> marks the row of this packet: {}", path.packet));
        for note in self.notes.iter().chain(&packet) {
            page.lines(Style::Quiet, note);
        }
        for (number, panel) in self.shown_panels() {
            page.title(panel.part);
            for (at, flow) in panel.flows.iter().enumerate() {
                let option = flow.option.as_deref();
                let row = self.row_with((number, at), |label| page.label(label, option).len() <= 2);
                page.row(&row, self.path.as_ref().map(|path| path.is_at(number, at)));
            }
        }
        if let Some(rule) = self.path.as_ref().and_then(|path| path.rule.as_ref()) {
            page.text.push('\n');
            page.lines(Style::Quiet, rule);
        }
        page.text
    }
}

/// Rows of these parts for a terminal of so many columns.
pub(crate) fn rows_text(rows: &[TrafficRowReport], parts: &[TrafficPart], width: usize) -> String {
    let captured = rows.iter().find(|row| row.verdict == VerdictKind::Captured);
    let mut page = RowPage::of(width, captured.map_or("", |row| &row.recipient));
    for part in parts {
        let mut of_part = rows.iter().filter(|row| row.part == part.word()).peekable();
        if of_part.peek().is_some() {
            page.title(*part);
        }
        of_part.for_each(|row| page.row(row, None));
    }
    page.text
}

struct RowPage {
    text: String,
    width: usize,
    /// The columns of recipients: the longest is the proxy with a port.
    place: usize,
}

impl RowPage {
    fn of(width: usize, proxy: &str) -> Self {
        let place = PLACE.max(proxy.len() + " 65535".len());
        Self { text: String::new(), width: width.clamp(60, 120), place }
    }

    fn title(&mut self, part: TrafficPart) {
        self.text.push('\n');
        self.lines(Style::Strong, part.title());
    }

    fn lines(&mut self, style: Style, text: &str) {
        for line in wrapped(text, self.width) {
            self.line(&style.paint(line));
        }
    }

    fn line(&mut self, line: &dyn Display) {
        writeln!(self.text, "{line}").expect("writing to a string can't fail");
    }

    fn indent(&self) -> usize {
        2 + WORD + 1 + 3 + 1 + self.place + 1
    }

    /// The lines of packets, with the option that decides.
    fn label(&self, label: &str, option: Option<&str>) -> Vec<String> {
        let option = option.map(|option| format!(" ({option})")).unwrap_or_default();
        wrapped(&format!("{label}{option}"), self.width - self.indent())
    }

    /// Writes a row. The path of the packet in question is marked, and all others are dimmed.
    fn row(&mut self, row: &TrafficRowReport, lit: Option<bool>) {
        let TrafficRowReport { verdict, recipient, .. } = row;
        let style = if lit == Some(false) { Style::Quiet } else { verdict.style() };
        let last = row.last_port.map(|last| format!("-{last}")).unwrap_or_default();
        let (shaft, place) = match (verdict, row.port) {
            (VerdictKind::Captured, Some(port)) => ("==>", format!("{recipient} {port}{last}")),
            (VerdictKind::NotCaptured, _) => ("-->", recipient.to_string()),
            (VerdictKind::Dropped, _) => ("--x", String::new()),
            _ => ("-?-", String::new()),
        };
        let mark = if lit == Some(true) { '>' } else { ' ' };
        for (number, line) in self.label(&row.text, row.option.as_deref()).iter().enumerate() {
            let line: Box<dyn Display> = match lit {
                Some(true) => Box::new(Style::Strong.paint(line)),
                Some(false) => Box::new(Style::Quiet.paint(line)),
                None => Box::new(line),
            };
            if number == 0 {
                let word = style.paint(verdict.word());
                let path = style.paint(format!("{shaft} {place:0$}", self.place));
                self.line(&format_args!("{mark} {word:WORD$} {path} {line}"));
            } else {
                self.line(&format_args!("{:1$}{line}", "", self.indent()));
            }
        }
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    letters::lines(text, |line| line.chars().count() <= width)
}
