//! The status for people, as wide as their terminal.

use super::{CaptureStatus, Hit, InstalledRules, Record, StatusPart};
use crate::Style;
use crate::finding::line;
use mesh::Mesh;
use mesh::visible;
use rules::finding::Finding;
use std::cmp::Reverse;
use std::fmt::{self, Display, Write};
use std::net::IpAddr;

/// Sections whose lines follow a word of this width.
const WORD: usize = 10;
/// No line gets narrower than this, whatever the terminal.
const LEAST: usize = 24;

impl CaptureStatus {
    /// The text for people, for as many columns: all of it, or what is captured, what is wrong, and what was met.
    pub fn text(&self, width: usize, all: bool) -> String {
        text(self, width, all)
    }
}

fn text(status: &CaptureStatus, width: usize, all: bool) -> String {
    let mut page = Page { out: String::new(), width };
    let style = if status.capturing == Some(true) { Style::Captured } else { Style::Passing };
    page.line(0, "", style, &capitalised(&status.summary));
    if status.held_by.is_empty() && status.capturing == Some(false) {
        page.line(0, "", Style::Quiet, "sidecar-init apply with the pod's flags sets rules.");
    }
    page.findings(&status.findings);
    for mesh in Mesh::ALL.iter().filter(|mesh| status.meshes.contains(&mesh.name())) {
        let title = |word: &str| match status.meshes.len() {
            1 => word.to_owned(),
            _ => format!("{word} for {}", mesh.ownership().name),
        };
        let of_mesh = |parts: &[StatusPart]| -> Vec<StatusPart> {
            parts.iter().filter(|part| part.mesh == mesh.name()).cloned().collect()
        };
        page.parts(&title("Captured"), Style::Captured, &of_mesh(&status.captured));
        page.parts(&title("Excluded"), Style::Passing, &of_mesh(&status.left_alone));
        page.parts(&title("Dropped"), Style::Dropped, &of_mesh(&status.dropped));
    }
    if all {
        page.listeners(status);
    }
    page.hits(&status.hits, all);
    if all {
        page.made(status);
    }
    page.out
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}

struct Page {
    out: String,
    width: usize,
}

impl Page {
    fn title(&mut self, text: impl Display) {
        self.put(format_args!("\n{}\n", Style::Strong.paint(text)));
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a string grows");
    }

    /// A line after a word, broken where it gets too long.
    fn line(&mut self, indent: usize, word: &str, style: impl Into<Option<Style>>, text: &str) {
        let style = style.into();
        let paint = |line: String| style.map_or(line.clone(), |style| style.paint(line).to_string());
        let room = self.width.saturating_sub(indent).max(LEAST);
        let mut lines = wrapped(&visible(text), room).into_iter();
        let first = lines.next().unwrap_or_default();
        let head = match indent {
            0 => String::new(),
            _ => format!("  {word:<0$}", indent - 2),
        };
        self.put(format_args!("{head}{}\n", paint(first)));
        for line in lines {
            self.put(format_args!("{:indent$}{}\n", "", paint(line)));
        }
    }

    fn parts(&mut self, title: &str, style: Style, parts: &[StatusPart]) {
        if parts.is_empty() {
            return;
        }
        self.title(style.paint(title));
        let both = parts.iter().flat_map(|part| &part.families).any(|family| *family == "ipv4")
            && parts.iter().flat_map(|part| &part.families).any(|family| *family == "ipv6");
        let mut before = "";
        for part in parts {
            let word = if part.direction == before { "" } else { part.direction };
            before = part.direction;
            let mut notes: Vec<&str> = part.option.iter().map(String::as_str).collect();
            // Addresses, networks and ranges of addresses show their family.
            let is_of_addresses = part.items.iter().any(|item| {
                item.split(['/', '-']).next().is_some_and(|first| first.parse::<IpAddr>().is_ok())
            });
            match part.families.as_slice() {
                ["ipv4"] if both && !is_of_addresses => notes.push("IPv4"),
                ["ipv6"] if both && !is_of_addresses => notes.push("IPv6"),
                _ => {}
            }
            let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
            self.line(2 + WORD, word, None, &format!("{}{notes}", part.text));
        }
    }

    fn listeners(&mut self, status: &CaptureStatus) {
        if status.listeners.is_empty() {
            return;
        }
        self.title("Listeners");
        for one in &status.listeners {
            let word = format!("{}/{}", one.port, one.protocol);
            let style = one.fault.map(|_| Style::Dropped);
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
        // What was met most is what people look for. Stable: the others keep the order of the rules.
        let mut hits: Vec<&Hit> = hits.iter().collect();
        hits.sort_by_key(|hit| Reverse(hit.packets));
        for hit in hits {
            if hit.packets == 0 && !(all && hit.fate == "captured") {
                quiet += 1;
                continue;
            }
            let counts = counts(&hit.packets.to_string(), hit.per_second);
            let option = hit.option.as_ref().map(|option| format!(" ({option})")).unwrap_or_default();
            let style = match (hit.fate, hit.packets) {
                (_, 0) => Some(Style::Quiet),
                ("captured", _) => Some(Style::Captured),
                ("left_alone", _) => Some(Style::Passing),
                ("dropped", _) => Some(Style::Dropped),
                _ => None,
            };
            self.line(indent, &counts, style, &format!("{}{option}", hit.text));
        }
        if all && quiet > 0 {
            let rules = if quiet == 1 { "1 other kind of rule has" } else { "other kinds of rules have" };
            let text = if quiet == 1 {
                format!("{rules} met no packet")
            } else {
                format!("{quiet} {rules} met no packet")
            };
            self.line(indent, "", Style::Quiet, &text);
        }
    }

    fn made(&mut self, status: &CaptureStatus) {
        if status.held_by.is_empty() {
            return;
        }
        self.title("Made");
        for held in &status.held_by {
            self.held(held);
        }
        if status.held_by.iter().all(|held| held.backend.starts_with("iptables")) {
            let text =
                "iptables keeps no note of when rules were made, nor of whether they were changed since";
            self.line(4, "", Style::Quiet, text);
        }
    }

    /// The rules in one place, and how they were made.
    fn held(&mut self, held: &InstalledRules) {
        let InstalledRules { backend, families, rules, program, made, .. } = held;
        let names = families.iter().map(|family| if *family == "ipv4" { "IPv4" } else { "IPv6" });
        let names = names.collect::<Vec<_>>().join(" and ");
        self.line(4, "", None, &format!("{rules} rules in {backend}, {names}, by {program}"));
        let Some(Record { program_version, command, at, settings, settings_digest, changed_since, .. }) =
            made
        else {
            if !backend.starts_with("iptables") {
                let text = "the table has no note of when it was made, or by what";
                self.line(4, "", Style::Quiet, text);
            }
            return;
        };
        let text = format!("sidecar-init {program_version}, command {command}, at {at}");
        self.line(4, "", None, &text);
        let line = match settings.as_deref() {
            Some("") => "configured without capture flags".to_owned(),
            Some(settings) => format!("configured with {settings}"),
            None => {
                format!("made with more settings than the note can hold; their digest is {settings_digest}")
            }
        };
        self.line(4, "", None, &line);
        match changed_since {
            true => self.line(4, "", Style::Dropped, "changed since"),
            false => self.line(4, "", Style::Quiet, "unchanged since"),
        }
    }

    fn findings(&mut self, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        self.title("Findings");
        for finding in findings {
            self.out.push_str(&line(finding, self.width.max(LEAST)));
        }
    }
}

/// Lines of at most so many columns, broken at spaces.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
