//! `sidecar-init lint`: what is odd about the capture flags.

use super::manifest::{self, Section, Subject};
use super::run::{self, Format};
use super::{Exit, ipv6, logging::Stdout, namespace_to_enter, paint, report, start_logging};
use policy::lint::{Finding, Level, lint};
use policy::sources::Reader;
use policy::{Problems, Setting};
use serde::Serialize;

/// Runs the command.
pub(super) fn run(subjects: &[Subject]) -> Result<Exit, Problems> {
    let prepared = manifest::each(subjects, |subject| {
        let mut reader = Reader::new(&subject.raw, subject.before.clone());
        let deny = reader.switch(Setting::Deny);
        Ok((deny, run::finish(reader, &*subject.host())?))
    })?;
    if let ([subject, ..], [(_, call), ..]) = (subjects, &prepared[..]) {
        start_logging(&subject.raw, &call.logging, Stdout::Answer)?;
    }
    let mut sections = Vec::new();
    let mut is_denied = false;
    for (subject, (deny, call)) in subjects.iter().zip(&prepared) {
        // Without a namespace, flags are looked at where their author works, whose addresses are no pod's.
        let findings = match namespace_to_enter(&subject.raw) {
            // That is all there is to say, and the reason is told.
            _ if subject.skip().is_some() => Vec::new(),
            Some(_) => ipv6::lint(lint, &subject.raw, &call.capture),
            None => lint(&subject.raw, &call.capture, &[]),
        };
        let said = subject.warnings_of_form().iter().chain(&call.warnings);
        let mut items: Vec<Item<'_>> = said.map(|text| Item::said(text)).collect();
        items.extend(findings.iter().map(Item::from));
        is_denied |= *deny && items.iter().any(|item| item.level == word(Level::Warning));
        let body = match call.run.format {
            Format::Text => items.iter().map(line).collect::<String>(),
            Format::Json => report::document(&items),
        };
        sections.push(Section { title: subject.title.clone(), body });
    }
    let printed = match prepared.first().map(|(_, call)| call.run.format) {
        Some(Format::Json) => manifest::print_json(&sections),
        Some(Format::Text) | None => manifest::print(&sections, |title| format!("== {title}")),
    };
    Ok(match printed {
        Exit::Done if is_denied => Exit::Failed,
        exit => exit,
    })
}

/// A finding as programs read it.
#[derive(Serialize)]
struct Item<'a> {
    level: &'static str,
    option: Option<&'a str>,
    text: &'a str,
    remedy: Option<&'a str>,
}

impl<'a> Item<'a> {
    /// A remark that reading the flags has made; it names the option itself.
    fn said(text: &'a str) -> Self {
        Self { level: word(Level::Warning), option: None, text, remedy: None }
    }
}

impl<'a> From<&'a Finding> for Item<'a> {
    fn from(finding: &'a Finding) -> Self {
        let Finding { level, option, text, remedy } = finding;
        Self { level: word(*level), option: Some(option), text, remedy: Some(remedy) }
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Warning => "warning",
        Level::Note => "note",
    }
}

fn line(item: &Item<'_>) -> String {
    let level = if item.level == word(Level::Note) { Level::Note } else { Level::Warning };
    paint::finding(level, item.option, item.text, item.remedy, report::line_width())
}
