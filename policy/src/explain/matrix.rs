//! The usual packets at a glance: who calls, what, and where it ends.

use super::{Explanation, explain};
use rules::Family;
use rules::simulate::{Packet, Routing, Verdict, View};

/// One cell of the table.
#[derive(Clone, Debug)]
pub struct Case {
    /// The family of its addresses.
    pub family: Family,
    /// Who sends it: the row.
    pub who: &'static str,
    /// What it is: the row, behind who.
    pub what: &'static str,
    /// Where it goes: the column.
    pub to: &'static str,
    /// The packet; `None` where there is none to be had.
    pub packet: Option<Packet>,
}

/// The table as text, rows by sender and kind, columns by destination, in the order of the cases.
pub fn matrix(view: &View, routing: &Routing, cases: &[Case]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for case in cases {
        if !columns.contains(&case.to) {
            columns.push(case.to);
        }
        if !rows.contains(&(case.who, case.what)) {
            rows.push((case.who, case.what));
        }
    }
    let cell = |row: &(&str, &str), column: &&str| {
        let case = cases.iter().find(|case| (case.who, case.what) == *row && case.to == *column);
        let packet = case.and_then(|case| case.packet.as_ref());
        packet.map_or_else(|| "-".to_owned(), |packet| short(&explain(view, routing, packet)))
    };
    let mut lines = vec![["", ""].iter().chain(&columns).map(ToString::to_string).collect::<Vec<_>>()];
    for row in &rows {
        let names = [row.0.to_owned(), row.1.to_owned()];
        lines.push(names.into_iter().chain(columns.iter().map(|column| cell(row, column))).collect());
    }
    aligned(&lines)
}

fn short(explanation: &Explanation<'_>) -> String {
    match explanation.outcome.verdict {
        Verdict::Pass => "passes".to_owned(),
        Verdict::Redirect(ports) => format!("-> {ports}"),
        Verdict::Tproxy(port) => format!("=> {port}"),
        Verdict::Drop => "dropped".to_owned(),
        Verdict::Unknown => "unknown".to_owned(),
    }
}

fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(String::len).max();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("{cell:<0$}", width(column).unwrap_or_default()))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
