//! Renders a status document as text of the terminal's width.

use super::{CaptureStatus, Hit, InstalledRules, Record};
use crate::picture::{TrafficPart, row_lines};
use crate::{Style, TextLine, painted, style::capitalised};
use rules::Family;
use std::cmp::Reverse;

/// Width of the word that precedes the lines of a section.
const WORD: usize = 10;
/// Minimum width of a line, whatever the terminal.
const LEAST: usize = 24;

impl CaptureStatus {
    /// Text in `width` columns: everything if `all`, else captured traffic, findings and counters above zero.
    pub fn text(&self, width: usize, all: bool) -> String {
        let mut page = Page { out: String::new(), width };
        let style = if self.capturing == Some(true) { Style::Captured } else { Style::Passing };
        page.line(0, "", style, &format!("{}.", capitalised(&self.summary)));
        if self.held_by.is_empty() && self.capturing == Some(false) {
            page.line(0, "", Style::Quiet, "To set rules: sidecar-init apply with the pod's flags or -f");
        }
        if !self.findings.is_empty() {
            page.title("Findings");
            self.findings.iter().for_each(|finding| page.push(0, &finding.lines()));
        }
        let crosses = |part: &TrafficPart| all || *part != TrafficPart::Within;
        let parts: Vec<TrafficPart> = TrafficPart::ALL.into_iter().filter(crosses).collect();
        page.out.push_str(&painted(&row_lines(&self.rows, &parts, width), usize::MAX));
        if all {
            page.listeners(self);
        }
        page.hits(&self.hits, all);
        if all {
            page.made(self);
        }
        page.out
    }
}

struct Page {
    out: String,
    width: usize,
}

impl Page {
    fn title(&mut self, text: &str) {
        self.push(0, &[TextLine::default(), TextLine::default().styled(Style::Strong, text)]);
    }

    fn push(&mut self, indent: usize, lines: &[TextLine]) {
        self.out.push_str(&painted(lines, self.width.max(indent + LEAST)));
    }

    fn line(&mut self, indent: usize, word: &str, style: impl Into<Option<Style>>, text: &str) {
        let word = if indent == 0 { String::new() } else { format!("  {word:<0$}", indent - 2) };
        self.push(indent, &[TextLine::hanging(indent).plain(word).piece(style.into(), text)]);
    }

    fn listeners(&mut self, status: &CaptureStatus) {
        if status.listeners.is_empty() {
            return;
        }
        self.title("Listeners");
        for one in &status.listeners {
            let word = format!("{}/{}", one.port, one.protocol);
            let style = one.code.as_ref().map(|_| Style::Dropped);
            self.line(2 + WORD, &word, style, &one.text);
        }
    }

    fn hits(&mut self, hits: &[Hit], all: bool) {
        let is_watched = hits.iter().any(|hit| hit.per_second.is_some());
        let all = all || is_watched;
        if !hits.iter().any(|hit| all || hit.packets > 0) {
            return;
        }
        self.title("Hits");
        let counts = |packets: &str, per_second: Option<f64>| match per_second {
            Some(rate) => format!("{packets:>9} {:>9}", format!("{rate:.1}/s")),
            None if is_watched => format!("{packets:>9} {:>9}", ""),
            None => format!("{packets:>9}"),
        };
        let indent = counts("", None).chars().count() + 4;
        let mut quiet = 0;
        // The highest counters are the most relevant. The sort is stable: equal counters keep the rules' order.
        let mut hits: Vec<&Hit> = hits.iter().collect();
        hits.sort_by_key(|hit| Reverse(hit.packets));
        for hit in hits {
            if hit.packets == 0 && !(all && hit.fate == "captured") {
                quiet += 1;
                continue;
            }
            let counts = counts(&hit.packets.to_string(), hit.per_second);
            let option = hit.option.as_ref().map(|option| format!(" ({option})")).unwrap_or_default();
            let style = match (&*hit.fate, hit.packets) {
                (_, 0) => Some(Style::Quiet),
                ("captured", _) => Some(Style::Captured),
                ("excluded", _) => Some(Style::Passing),
                ("dropped", _) => Some(Style::Dropped),
                _ => None,
            };
            self.line(indent, &counts, style, &format!("{}{option}", hit.text));
        }
        if all && quiet > 0 {
            let rules = if quiet == 1 { "kind of rule has" } else { "kinds of rules have" };
            self.line(indent, "", Style::Quiet, &format!("{quiet} more {rules} matched no packet"));
        }
    }

    fn made(&mut self, status: &CaptureStatus) {
        if status.held_by.is_empty() {
            return;
        }
        self.title("Made");
        status.held_by.iter().for_each(|held| self.held(held));
        if status.held_by.iter().all(|held| held.backend.starts_with("iptables")) {
            let text = "creation time and later changes unknown: iptables does not store them";
            self.line(4, "", Style::Quiet, text);
        }
    }

    fn held(&mut self, held: &InstalledRules) {
        let InstalledRules { backend, families, rules, program, made, .. } = held;
        let names = Family::BOTH.iter().filter(|family| families.iter().any(|one| one == family.word()));
        let names = names.map(Family::to_string).collect::<Vec<_>>().join(" and ");
        self.line(4, "", None, &format!("{rules} rules in {backend}, {names}, by {program}"));
        let Some(Record { program_version, command, at, settings, settings_digest, changed_since, .. }) =
            made
        else {
            if !backend.starts_with("iptables") {
                let text = "creation time and command unknown";
                self.line(4, "", Style::Quiet, text);
            }
            return;
        };
        self.line(4, "", None, &format!("sidecar-init {program_version}, command {command}, at {at}"));
        let line = match settings.as_deref() {
            Some("") => "configured without capture flags".to_owned(),
            Some(settings) => format!("configured with {settings}"),
            None => {
                format!("configured with more settings than a table can store; digest {settings_digest}")
            }
        };
        self.line(4, "", None, &line);
        let (style, state) =
            if *changed_since { (Style::Dropped, "changed") } else { (Style::Quiet, "unchanged") };
        self.line(4, "", style, &format!("{state} since"));
    }
}
