//! The usual packets at a glance: who calls, what, and where it ends.

use super::cases::{Case, CaseRow, FROM_POD, List, TO_POD};
use super::{Explanation, RuleView, VerdictKind, explain};
use crate::{Style, columns, fold};
use mesh::sources::Dialect;
use rules::Family;
use rules::simulate::Verdict;
use std::fmt::Write;

/// The tables of all families, and the legend of their words.
#[derive(Debug, Default)]
pub struct Matrix<'a> {
    pub tables: Vec<MatrixTable<'a>>,
    /// Each word for a verdict with its meaning, once.
    pub words: Vec<VerdictWord>,
    /// The options that rows name.
    pub lists: Vec<List>,
}

/// The packets of a family in one direction.
#[derive(Debug)]
pub struct MatrixTable<'a> {
    pub family: Family,
    /// The family, above the first table of its rules where both families have rules.
    pub heading: Option<Family>,
    /// What the rows are about.
    pub title: &'static str,
    pub heads: Vec<&'static str>,
    pub lines: Vec<Line<'a>>,
}

/// A word for a verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerdictWord {
    pub word: String,
    pub style: Style,
    pub meaning: String,
}

/// A row, or several of one option with the same text.
#[derive(Debug)]
pub struct Line<'a> {
    rows: Vec<CaseRow>,
    pub cells: Vec<MatrixCell>,
    /// What becomes of the packets of each cell, of all rows.
    pub explained: Vec<Vec<Explanation<'a>>>,
}

/// A cell: its text and its style; none, where no such packet is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixCell {
    pub text: String,
    pub style: Option<Style>,
}

/// Between columns.
const GAP: usize = 2;

/// The tables as text of lines of so many columns, with a legend: rows by destination, columns by sender and protocol, in the
/// order of the cases, those of each family below its name.
pub fn matrix(rule_views: &[&RuleView], cases: &[Case], dialect: &Dialect, width: usize) -> String {
    // In words where they have room, else with an arrow, which the legend explains.
    let matrix = tables(rule_views, cases, true);
    let text = matrix.text(width);
    let fits = text.lines().all(|line| columns(line) <= width);
    let (text, matrix) = if fits {
        (text, matrix)
    } else {
        let short = tables(rule_views, cases, false);
        (short.text(width), short)
    };
    format!("{text}\n{}", matrix.legend(dialect, width))
}

/// The same as data, for front ends that have tables. `in_words` is whether cells say more than an arrow and a port.
pub fn tables<'a>(rule_views: &[&'a RuleView], cases: &'a [Case], in_words: bool) -> Matrix<'a> {
    let mut matrix = Matrix::default();
    for rule_view in rule_views {
        let mut heading = (rule_views.len() > 1).then_some(rule_view.family);
        for title in [FROM_POD, TO_POD] {
            let of = |case: &&Case| case.direction == title && case.family == rule_view.family;
            let cases: Vec<&Case> = cases.iter().filter(of).collect();
            let mut heads: Vec<&str> = Vec::new();
            for case in &cases {
                if !heads.contains(&case.column) {
                    heads.push(case.column);
                }
            }
            if !heads.is_empty() {
                let lines = matrix.lines(rule_view, &cases, heads.len(), in_words);
                matrix.tables.push(MatrixTable {
                    family: rule_view.family,
                    heading: heading.take(),
                    title,
                    heads,
                    lines,
                });
            }
        }
    }
    matrix.words.sort();
    matrix
}

fn table_text(MatrixTable { title, heads, lines, .. }: &MatrixTable<'_>, width: usize) -> String {
    let column = |index: usize| {
        let cells = lines.iter().map(|line| line.cells[index].text.len());
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
        let shown = cells(&mut line.cells.iter().map(|MatrixCell { text, style }| match style {
            Some(style) => (style.paint(text).to_string(), text.len()),
            None => (text.clone(), text.len()),
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

impl Line<'_> {
    /// As many items as fit into so many columns, at least one, and how many more there are.
    pub fn label(&self, room: usize) -> String {
        let CaseRow { noun, list, .. } = &self.rows[0];
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

impl<'a> Matrix<'a> {
    fn lines(
        &mut self,
        rule_view: &'a RuleView,
        cases: &[&'a Case],
        heads: usize,
        in_words: bool,
    ) -> Vec<Line<'a>> {
        let mut lines: Vec<Line<'a>> = Vec::new();
        for row in cases.chunks(heads) {
            let explained: Vec<Option<Explanation<'a>>> = row
                .iter()
                .map(|case| Some(explain(&rule_view.view, &rule_view.routing, case.packet.as_ref()?)))
                .collect();
            let cells: Vec<MatrixCell> =
                explained.iter().map(|explained| self.cell(explained.as_ref(), in_words)).collect();
            let of = row[0].row.clone();
            self.lists.extend(of.list.filter(|list| !self.lists.contains(list)));
            let is_more = |line: &&mut Line<'_>| {
                of.list.is_some() && line.rows[0].list == of.list && line.cells == cells
            };
            match lines.last_mut().filter(is_more) {
                Some(line) => {
                    line.rows.push(of);
                    line.explained.iter_mut().zip(explained).for_each(|(all, more)| all.extend(more));
                }
                None => {
                    let explained = explained.into_iter().map(|one| one.into_iter().collect()).collect();
                    lines.push(Line { rows: vec![of], cells, explained });
                }
            }
        }
        lines
    }

    fn cell(&mut self, explained: Option<&Explanation<'_>>, in_words: bool) -> MatrixCell {
        let Some(explained) = explained else { return MatrixCell { text: "-".to_owned(), style: None } };
        let (word, meaning) = words(explained, in_words);
        let style = VerdictKind::of(explained.outcome.verdict).0.style();
        if !self.words.iter().any(|known| known.word == word) {
            self.words.push(VerdictWord { word: word.clone(), style, meaning });
        }
        MatrixCell { text: word, style: Some(style) }
    }

    /// The tables in lines of so many columns, if possible.
    fn text(&self, width: usize) -> String {
        let part = |table: &MatrixTable<'_>| {
            let heading = table.heading.map(|heading| format!("== {heading}\n")).unwrap_or_default();
            heading + &table_text(table, width)
        };
        self.tables.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    /// The legend, in lines of so many columns.
    fn legend(&self, dialect: &Dialect, width: usize) -> String {
        let mut text = String::new();
        let longest =
            self.words.iter().map(|VerdictWord { word, .. }| word.len()).max().unwrap_or_default() + GAP;
        for VerdictWord { word, style, meaning } in &self.words {
            let room = longest - word.len();
            let line = format!("{}{:room$}{meaning}\n", style.paint(word), "");
            text.push_str(&fold(&line, longest, width));
        }
        for list in &self.lists {
            let (key, meaning) = list.described(dialect);
            // The key has the width of the rows; one that is wider than its column gets a line to itself.
            let line = match longest.checked_sub(key.len()) {
                Some(room @ GAP..) => format!("{key}{:room$}{meaning}\n", ""),
                Some(_) | None => format!("{key}\n{:longest$}{meaning}\n", ""),
            };
            text.push_str(&fold(&line, longest, width));
        }
        text
    }
}

impl List {
    /// The key by which rows name it, and its meaning with the name by which its author knows it.
    pub fn described(&self, dialect: &Dialect) -> (String, String) {
        let flag = self.setting.row().option();
        // A flag without a letter needs no key, unless its author knows another name.
        let name = dialect.name(self.setting).unwrap_or(&flag);
        let spelt = if name == self.option() { String::new() } else { format!(": {name}") };
        (format!("({})", self.option()), format!("{}{spelt}", self.meaning))
    }
}

fn words(explanation: &Explanation<'_>, in_words: bool) -> (String, String) {
    let by = if in_words { "captured by" } else { "->" };
    let captured = || if in_words { explanation.summary() } else { explanation.end().words() };
    match explanation.outcome.verdict {
        Verdict::Pass => ("passes".to_owned(), "goes where it was sent".to_owned()),
        Verdict::Redirect(ports) => (format!("{by} {}", ports.dashed()), captured()),
        Verdict::Tproxy(port) => (format!("{by} {port}"), captured()),
        Verdict::Drop => ("dropped".to_owned(), "never arrives".to_owned()),
        Verdict::Unknown => {
            ("unknown".to_owned(), "a rule that could decide is not understood or not listed".to_owned())
        }
    }
}
