//! A comparison for people: each change in a line, and how one packet of it ends before and after.

use super::{Change, Comparison, PacketEnd};
use crate::{Style, fold};
use std::fmt::Write;

/// Where the ends of a change begin in their lines.
const ENDS: usize = 9;

/// The changes in lines of so many columns.
pub fn text(comparison: &Comparison, width: usize) -> String {
    let mut text = String::new();
    let (shown, omitted) = comparison.shown();
    for change in shown {
        text.push_str(&fold(&format!("{}\n", change.line()), 2, width));
        for (name, end) in [("before", &change.before), ("after", &change.after)] {
            let line = format!("  {name:<7}{}, because {}", end.text, end.reason);
            text.push_str(&fold(&Style::Quiet.paint(line).to_string(), ENDS, width));
            text.push('\n');
        }
    }
    if omitted > 0 {
        let noun = if omitted == 1 { "change concerns" } else { "changes concern" };
        let note = format!(
            "{omitted} more {noun} packets with marks or in unusual connection states; --format json lists them.\n"
        );
        text.push_str(&fold(&note, 0, width));
    }
    if comparison.changes.is_empty() {
        text.push_str("No verdict changes.\n");
    }
    if !comparison.complete {
        let note = "The rules are too many to compare all packets: what is listed is right, but there may be more.\n";
        text.push_str(&fold(note, 0, width));
    }
    text
}

impl Comparison {
    /// The changes to show, each line once, and how many others there are: those that concern no usual packet, beside some that
    /// do.
    pub fn shown(&self) -> (Vec<&Change>, usize) {
        let is_unusual = |change: &Change| change.packets.is_unusual();
        let all_unusual = self.changes.iter().all(is_unusual);
        let mut shown: Vec<&Change> = Vec::new();
        for change in self.changes.iter().filter(|change| all_unusual || !is_unusual(change)) {
            if !shown.iter().any(|known| known.line() == change.line()) {
                shown.push(change);
            }
        }
        let omitted = if all_unusual { 0 } else { self.changes.iter().filter(|one| is_unusual(one)).count() };
        (shown, omitted)
    }
}

impl Change {
    /// The packets, and how they end before and after.
    pub fn line(&self) -> String {
        let mut line = String::new();
        let ends = |with_port| [&self.before, &self.after].map(|end| end.short(with_port));
        let [before, after] = ends(false);
        let [before, after] = if before == after { ends(true) } else { [before, after] };
        let paint = |end: &PacketEnd, text: &str| end.style().paint(text).to_string();
        let _ = write!(
            line,
            "{}: {} -> {}",
            Style::Strong.paint(&self.text),
            paint(&self.before, &before),
            paint(&self.after, &after)
        );
        line
    }
}

impl PacketEnd {
    /// The verdict in a word or two; with the listener where it alone differs.
    pub fn short(&self, with_port: bool) -> String {
        let word = match self.verdict {
            "redirect" | "tproxy" => "captured",
            "pass" => "not captured",
            "drop" => "dropped",
            _ => "unknown",
        };
        let ports = match (self.port, self.last_port) {
            (Some(first), Some(last)) => format!("{first}-{last}"),
            (Some(first), None) => first.to_string(),
            (None, _) => String::new(),
        };
        match (with_port && !ports.is_empty(), self.verdict) {
            (true, "tproxy") => format!("{word} at {ports} (TPROXY)"),
            (true, _) => format!("{word} at {ports}"),
            (false, _) => word.to_owned(),
        }
    }

    fn style(&self) -> Style {
        match self.verdict {
            "redirect" | "tproxy" => Style::Captured,
            "pass" => Style::Passing,
            _ => Style::Dropped,
        }
    }
}
