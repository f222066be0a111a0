//! A comparison for people: each change in a line, and the outcome of one of its packets before and after.

use super::{Change, Comparison, PacketOutcome};
use crate::explain::PacketEnd;
use crate::explain::VerdictKind;
use crate::{Style, fold};
use std::collections::HashSet;

/// The column at which the outcomes of a change are indented.
const OUTCOME_COLUMN: usize = 9;

/// The changes in lines of so many columns.
pub fn text(comparison: &Comparison, width: usize) -> String {
    let mut text = String::new();
    let (shown, omitted) = comparison.shown();
    for change in shown {
        text.push_str(&fold(&format!("{}\n", change.line()), 2, width));
        for (name, end) in [("before", &change.before), ("after", &change.after)] {
            let line = format!("  {name:<7}{}", end.end.sentence());
            text.push_str(&fold(&Style::Quiet.paint(line).to_string(), OUTCOME_COLUMN, width));
            text.push('\n');
        }
    }
    if omitted > 0 {
        let noun = if omitted == 1 { "change concerns" } else { "changes concern" };
        let note = format!(
            "{omitted} more {noun} packets with marks, from unusual sources or in unusual connection states; --format json lists them.\n"
        );
        text.push_str(&fold(&note, 0, width));
    }
    match (comparison.complete, comparison.changes.is_empty()) {
        (true, true) => text.push_str("No verdict changes.\n"),
        (true, false) => {}
        (false, is_empty) => {
            let known = match is_empty {
                true => "no change was found, but there may be some",
                false => "what is listed is right, but there may be more",
            };
            let note = format!("The rules are too many to compare all packets: {known}.\n");
            text.push_str(&fold(&note, 0, width));
        }
    }
    text
}

impl Comparison {
    /// Whether the verdict of usual packets surely changes.
    pub fn has_known_change(&self) -> bool {
        let is_known = |change: &Change| {
            [&change.before, &change.after].iter().all(|end| end.end.verdict != VerdictKind::Unknown)
        };
        self.changes.iter().any(|change| is_known(change) && !change.packets.is_unusual())
    }

    /// The changes to print, equal lines once, and the number of changes left out: those of unusual packets, unless there are
    /// no others.
    pub fn shown(&self) -> (Vec<&Change>, usize) {
        let is_unusual = |change: &Change| change.packets.is_unusual();
        let all_unusual = self.changes.iter().all(is_unusual);
        let mut lines = HashSet::new();
        let shown = self.changes.iter().filter(|change| all_unusual || !is_unusual(change));
        let shown = shown.filter(|change| lines.insert(change.line())).collect();
        let omitted = if all_unusual { 0 } else { self.changes.iter().filter(|one| is_unusual(one)).count() };
        (shown, omitted)
    }
}

impl Change {
    /// The packets, and their verdict before and after.
    pub fn line(&self) -> String {
        let outcomes =
            |with_port| [&self.before, &self.after].map(|outcome| outcome.verdict_words(with_port));
        let [before, after] = outcomes(false);
        let [before, after] = if before == after { outcomes(true) } else { [before, after] };
        let paint = |outcome: &PacketOutcome, text: &str| outcome.end.verdict.style().paint(text).to_string();
        format!(
            "{}: {} -> {}",
            Style::Strong.paint(&self.text),
            paint(&self.before, &before),
            paint(&self.after, &after)
        )
    }
}

impl PacketOutcome {
    /// The verdict in words; `with_port` adds the port of the listener.
    pub fn verdict_words(&self, with_port: bool) -> String {
        let PacketEnd { verdict, transparent, port, last_port, .. } = self.end;
        let word = verdict.word();
        let by = if transparent == Some(true) { " (TPROXY)" } else { "" };
        match (&self.translated, port, last_port) {
            (Some(to), ..) if with_port => format!("{word}, sent to {to}"),
            (_, Some(first), Some(last)) if with_port => format!("{word} at {first}-{last}{by}"),
            (_, Some(port), None) if with_port => format!("{word} at {port}{by}"),
            _ => word.to_owned(),
        }
    }
}
