//! The overview for people: the number of namespaces of each state, a line for each, and below it its fault.

use super::{NamespaceRow, NamespaceState, Overview};
use crate::finding::FindingReport;
use crate::status::Listening;
use crate::{Style, columns, fold};
use mesh::visible;
use rules::finding::Code;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

const HEAD: [&str; 6] = ["STATE", "NAMESPACE", "MESH", "LISTENERS", "MADE BY", "AGE"];
/// The column that is shortened where there is not enough room.
const NAME: usize = 1;
/// So much of a name is shown however narrow the terminal is.
const MIN_NAME: usize = 16;
const GAP: &str = "  ";

impl Overview {
    /// The text for a terminal with so many columns; ages count until `now`.
    pub fn text(&self, width: usize, now: SystemTime) -> String {
        let mut text = format!("{}\n", Style::Strong.paint(self.counts()));
        if self.namespaces.is_empty() {
            return text;
        }
        let cells = |row| cells(row, now).map(|cell| visible(&cell));
        let cells: Vec<[String; 6]> = self.namespaces.iter().map(cells).collect();
        let head = HEAD.map(str::to_owned);
        let mut widths = HEAD.map(str::len);
        for row in &cells {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = columns(cell).max(*width);
            }
        }
        let others = widths.iter().sum::<usize>() - widths[NAME] + GAP.len() * (HEAD.len() - 1);
        widths[NAME] = widths[NAME].min(width.saturating_sub(others).max(MIN_NAME));
        text.push_str(&format!("{}\n", Style::Quiet.paint(line(&head, &widths, None))));
        let hang = widths[0] + GAP.len();
        for (row, cells) in self.namespaces.iter().zip(&cells) {
            text.push_str(&line(cells, &widths, Some(style(row.state))));
            text.push('\n');
            if let Some(finding) = row.reason() {
                let FindingReport { code, subject, .. } = finding;
                let subject = subject.as_ref().map(|subject| format!("{subject}: ")).unwrap_or_default();
                let finding = visible(&format!("{code} {subject}{}", finding.text));
                text.push_str(&fold(&format!("{:hang$}{finding}\n", ""), hang, width));
            }
        }
        text
    }

    fn counts(&self) -> String {
        let mut counts: BTreeMap<NamespaceState, usize> = BTreeMap::new();
        for row in &self.namespaces {
            *counts.entry(row.state).or_default() += 1;
        }
        let counts: Vec<String> =
            counts.iter().map(|(state, count)| format!("{count} {}", words(*state))).collect();
        let noun = if self.namespaces.len() == 1 { "namespace" } else { "namespaces" };
        let total = format!("{} network {noun}", self.namespaces.len());
        if counts.is_empty() { total } else { format!("{total}: {}", counts.join(", ")) }
    }
}

fn words(state: NamespaceState) -> &'static str {
    match state {
        NamespaceState::NotCaptured => "not captured",
        state => state.name(),
    }
}

fn style(state: NamespaceState) -> Style {
    match state {
        NamespaceState::Captured => Style::Captured,
        NamespaceState::NotCaptured => Style::Quiet,
        NamespaceState::Partial => Style::Passing,
        NamespaceState::Unknown
        | NamespaceState::Drifted
        | NamespaceState::Overruled
        | NamespaceState::Failing => Style::Dropped,
    }
}

/// A line; the style is that of its first cell.
fn line(cells: &[String; 6], widths: &[usize; 6], of_state: Option<Style>) -> String {
    let padded = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
        let cell = if column == NAME { shortened(cell, *width) } else { cell.clone() };
        let cell = format!("{cell:<width$}");
        match of_state.filter(|_| column == 0) {
            Some(style) => style.paint(cell).to_string(),
            None => cell,
        }
    });
    padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
}

fn cells(row: &NamespaceRow, now: SystemTime) -> [String; 6] {
    let made = row.held_by.iter().find_map(|held| held.made.as_ref());
    let maker = match made {
        Some(made) => maker(&made.command),
        None if row.held_by.is_empty() => "",
        None => "unknown",
    };
    let age = made.and_then(|made| {
        let at = humantime::parse_rfc3339(&made.at).ok()?;
        Some(age(now.duration_since(at).unwrap_or(Duration::ZERO)))
    });
    [
        words(row.state).to_owned(),
        row.name.clone(),
        row.mesh(),
        listening(&row.listeners).to_owned(),
        maker.to_owned(),
        age.unwrap_or_default(),
    ]
}

fn listening(listeners: &[Listening]) -> &'static str {
    let is_down = |one: &Listening| one.missing.as_ref().is_some_and(|missing| *missing == one.families);
    match listeners {
        [] => "",
        all if all.iter().any(|one| one.missing.is_none()) => "unknown",
        all if all
            .iter()
            .all(|one| one.code.as_deref().is_none_or(|code| code == Code::NotTheProxy.name())) =>
        {
            "up"
        }
        all if all.iter().all(is_down) => "down",
        _ => "partly",
    }
}

fn maker(command: &str) -> &str {
    match command {
        "istio-iptables" | "linkerd-init" | "kuma-init" => "init container",
        "cni-add" => "CNI",
        "cni-repair" | "sidecar-node-repair" => "repair",
        other => other,
    }
}

/// A time span as `kubectl get` prints ages (`HumanDuration` of k8s.io/apimachinery): in the largest unit of which it has enough,
/// and if it has few, with the rest in the next smaller unit.
fn age(span: Duration) -> String {
    // The seconds of a unit, the count from which it is used, and the one from which it is used alone.
    let units: [(&str, u64, u64, u64); 5] =
        [("s", 1, 0, 0), ("m", 60, 2, 10), ("h", 3_600, 3, 8), ("d", 86_400, 2, 8), ("y", 31_536_000, 2, 8)];
    let seconds = span.as_secs();
    let at = units.iter().rposition(|(_, size, enough, _)| seconds >= size * enough).unwrap_or(0);
    let (unit, size, _, alone) = units[at];
    let count = seconds / size;
    let rest = units[..at].last().map(|(smaller, of, ..)| (seconds % size / of, smaller));
    match rest.filter(|(rest, _)| count < alone && *rest > 0) {
        Some((rest, smaller)) => format!("{count}{unit}{rest}{smaller}"),
        None => format!("{count}{unit}"),
    }
}

/// A name in so many columns: of a long one its start and its end, by which pods of a workload differ.
fn shortened(name: &str, width: usize) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= width {
        return name.to_owned();
    }
    let kept = width.saturating_sub(2);
    let (start, end) = (kept / 2, kept - kept / 2);
    let (start, end): (String, String) =
        (chars[..start].iter().collect(), chars[chars.len() - end..].iter().collect());
    format!("{start}..{end}")
}

#[cfg(test)]
mod tests {
    use super::super::NamespaceLabel;
    use super::*;
    use crate::answers_tests::{held, record};
    use crate::status::{InstalledRules, Record};
    use rules::finding::Finding;

    fn row(name: &str, state: NamespaceState) -> NamespaceRow {
        let label = NamespaceLabel { name: name.to_owned(), pod: None, container: None, is_named: true };
        NamespaceRow { state, ..NamespaceRow::empty(label) }
    }

    #[test]
    fn partial_capture_has_no_finding_as_its_reason() {
        let finding =
            || Finding::warning(Code::Unreadable, "", "addresses can't be listed", "look as root").into();
        let of = |state| NamespaceRow { findings: vec![finding()], ..row("web", state) };
        assert_eq!(of(NamespaceState::Partial).reason(), None);
        assert_eq!(of(NamespaceState::Unknown).reason(), Some(&finding()));
    }

    #[test]
    fn names_and_records_move_no_cursor() {
        let made = Record { command: "a\u{1b}[2J".to_owned(), ..record() };
        let mut row = row("e\u{1b}[2J", NamespaceState::Unknown);
        row.held_by.push(InstalledRules { made: Some(made), ..held() });
        row.findings.push(Finding::failure(Code::Unreadable, "", "c\u{1b}[2J can't be read", "look").into());
        let text = crate::plain(&Overview::new(vec![row]).text(200, SystemTime::UNIX_EPOCH));
        assert!(["e", "a", "c"].iter().all(|name| text.contains(&format!("{name}\\u{{1b}}[2J"))), "{text:?}");
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (599, "9m59s"),
            (659, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (28_859, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (694_800, "8d"),
            (63_071_999, "729d"),
            (63_158_400, "2y1d"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(shortened("web-0", 5), "web-0");
        assert_eq!(shortened("a-name-that-is-long-x2x4k", 16), "a-name-..g-x2x4k");
    }
}
