//! The usual packets at a glance: who calls, what, and where it ends.

use super::cases::{Case, FROM_POD, List, Row, TO_POD};
use super::{Explanation, Scene, explain};
use crate::{Style, columns, fold};
use mesh::sources::Dialect;
use rules::simulate::Verdict;
use std::fmt::Write;

/// The verdict of each cell, in words, and the lists with their meaning; each once.
#[derive(Clone, Debug, Default)]
struct Legend {
    cells: Vec<(String, Style, String)>,
    lists: Vec<List>,
    in_words: bool,
}

/// A cell: its text and its style.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell(String, Option<Style>);

/// A row, or several of one option with the same text.
struct Line {
    rows: Vec<Row>,
    cells: Vec<Cell>,
}

/// Between columns.
const GAP: usize = 2;

/// The tables as text of lines of so many columns, with a legend: rows by destination, columns by sender and protocol, in the
/// order of the cases, those of each family below the title of its rules.
pub fn matrix(scenes: &[&Scene], cases: &[Case], dialect: &Dialect, width: usize) -> String {
    // In words where they have room, else with an arrow, which the legend explains.
    let (text, legend) = tables(scenes, cases, width, true);
    let fits = text.lines().all(|line| columns(line) <= width);
    let (text, legend) = if fits { (text, legend) } else { tables(scenes, cases, width, false) };
    format!("{text}\n{}", legend.text(dialect, width))
}

fn tables(scenes: &[&Scene], cases: &[Case], width: usize, in_words: bool) -> (String, Legend) {
    let mut parts = Vec::new();
    let mut legend = Legend { in_words, ..Legend::default() };
    for scene in scenes {
        let title = if scenes.len() > 1 { format!("== {}\n", scene.title) } else { String::new() };
        for (index, table) in [FROM_POD, TO_POD].into_iter().enumerate() {
            let of = |case: &&Case| case.table == table && case.family == scene.family;
            let cases: Vec<&Case> = cases.iter().filter(of).collect();
            let mut heads: Vec<&str> = Vec::new();
            for case in &cases {
                if !heads.contains(&case.column) {
                    heads.push(case.column);
                }
            }
            if !heads.is_empty() {
                let lines = lines(scene, &cases, heads.len(), &mut legend);
                let title = if index == 0 { title.as_str() } else { "" };
                parts.push(format!("{title}{}", table_text(table, &heads, &lines, width)));
            }
        }
    }
    (parts.join("\n"), legend)
}

fn lines(scene: &Scene, cases: &[&Case], heads: usize, legend: &mut Legend) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in cases.chunks(heads) {
        let cells: Vec<Cell> = row.iter().map(|case| legend.cell(scene, case)).collect();
        let of = row[0].row.clone();
        legend.lists.extend(of.list.filter(|list| !legend.lists.contains(list)));
        match lines.last_mut() {
            Some(line) if of.list.is_some() && line.rows[0].list == of.list && line.cells == cells => {
                line.rows.push(of);
            }
            _ => lines.push(Line { rows: vec![of], cells }),
        }
    }
    lines
}

fn table_text(title: &str, heads: &[&str], lines: &[Line], width: usize) -> String {
    let column = |index: usize| {
        let cells = lines.iter().map(|line| line.cells[index].0.len());
        cells.chain([heads[index].len()]).max().unwrap_or_default() + GAP
    };
    let widths: Vec<usize> = (0..heads.len()).map(column).collect();
    let room = width.saturating_sub(widths.iter().sum::<usize>());
    // A label that does not fit is printed above its cells.
    let label = lines.iter().map(|line| columns(&line.label(LEAST_LABEL))).max().unwrap_or_default();
    let label = label.max(title.len()).min(room.max(LEAST_LABEL));
    let mut text = String::new();
    let cells = |cells: &mut dyn Iterator<Item = (String, usize)>| {
        let mut line = String::new();
        for ((cell, width), column) in cells.zip(&widths) {
            let _ = write!(line, "{:GAP$}{cell}{:2$}", "", "", column - GAP - width);
        }
        line.trim_end().to_owned()
    };
    let heads = cells(&mut heads.iter().map(|head| (Style::Strong.paint(head).to_string(), head.len())));
    let _ = writeln!(text, "{}{:2$}{heads}", Style::Strong.paint(title), "", label - title.len().min(label));
    for line in lines {
        let name = line.label(label);
        let shown = cells(&mut line.cells.iter().map(|Cell(cell, style)| match style {
            Some(style) => (style.paint(cell).to_string(), cell.len()),
            None => (cell.clone(), cell.len()),
        }));
        if columns(&name) > label {
            text.push_str(&fold(&format!("{name}\n"), GAP, width));
            let _ = writeln!(text, "{:label$}{shown}", "");
        } else {
            let _ = writeln!(text, "{name:label$}{shown}");
        }
    }
    text
}

/// The least that labels get, however narrow the terminal.
const LEAST_LABEL: usize = 22;

impl Line {
    /// As many items as fit into so many columns, at least one, and how many more there are.
    fn label(&self, room: usize) -> String {
        let Row { noun, list, .. } = &self.rows[0];
        let option = list.map(|list| format!(" ({})", list.option())).unwrap_or_default();
        let noun = match (*noun, self.rows.len()) {
            ("", _) => String::new(),
            ("port", 2..) => "ports ".to_owned(),
            (noun, _) => format!("{noun} "),
        };
        let items: Vec<&str> = self.rows.iter().map(|row| row.item.as_str()).collect();
        let listed_items = |shown: usize| {
            let more = items.len() - shown;
            let more = if more > 0 { format!(" +{more}") } else { String::new() };
            format!("{noun}{}{more}{option}", items[..shown].join(","))
        };
        let fits = |shown: &usize| listed_items(*shown).len() <= room;
        listed_items((1..=items.len()).rev().find(fits).unwrap_or(1))
    }
}

impl Legend {
    fn cell(&mut self, scene: &Scene, case: &Case) -> Cell {
        let Some(packet) = &case.packet else { return Cell("-".to_owned(), None) };
        let explanation = explain(&scene.view, &scene.routing, packet);
        let (word, meaning) = words(&explanation, self.in_words);
        let style = explanation.style();
        if !self.cells.iter().any(|(known, ..)| *known == word) {
            self.cells.push((word.clone(), style, meaning));
        }
        Cell(word, Some(style))
    }

    /// The legend, in lines of so many columns.
    fn text(&self, dialect: &Dialect, width: usize) -> String {
        let mut text = String::new();
        let mut cells = self.cells.clone();
        cells.sort();
        let longest = cells.iter().map(|(word, ..)| word.len()).max().unwrap_or_default() + GAP;
        for (word, style, meaning) in &cells {
            let room = longest - word.len();
            let line = format!("{}{:room$}{meaning}\n", style.paint(word), "");
            text.push_str(&fold(&line, longest, width));
        }
        for list in &self.lists {
            let key = format!("({})", list.option());
            let flag = list.setting.row().option();
            // A flag without a letter needs no key, unless its author knows another name.
            let name = dialect.name(list.setting).unwrap_or(&flag);
            let spelt = if name == list.option() { String::new() } else { format!(": {name}") };
            let meaning = list.meaning;
            // The key has the width of the rows; one that is wider than its column gets a line to itself.
            let line = match longest.checked_sub(key.len()) {
                Some(room @ GAP..) => format!("{key}{:room$}{meaning}{spelt}\n", ""),
                Some(_) | None => format!("{key}\n{:longest$}{meaning}{spelt}\n", ""),
            };
            text.push_str(&fold(&line, longest, width));
        }
        text
    }
}

fn words(explanation: &Explanation<'_>, in_words: bool) -> (String, String) {
    let by = if in_words { "captured by" } else { "->" };
    let captured = || {
        let verdict = explanation.verdict();
        if in_words { verdict.strip_prefix("captured: ").unwrap_or(&verdict).to_owned() } else { verdict }
    };
    match explanation.outcome.verdict {
        Verdict::Pass => ("passes".to_owned(), "goes where it was sent".to_owned()),
        Verdict::Redirect(ports) => (format!("{by} {}", ports.dashed()), captured()),
        Verdict::Tproxy(port) => (format!("{by} {port}"), captured()),
        Verdict::Drop => ("dropped".to_owned(), "never arrives".to_owned()),
        Verdict::Unknown => ("unknown".to_owned(), "a rule that could decide is not understood".to_owned()),
    }
}
