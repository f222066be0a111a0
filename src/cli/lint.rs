//! `sidecar-init lint`: what is odd about the capture flags.

use super::data::{self, Encoding};
use super::manifest::{self, Section, Subject};
use super::run::{self, Format};
use super::{Exit, ipv6, logging::Stdout, namespace_to_enter, start_logging};
use policy::lint::{Code, Finding, Level, lint};
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
        let of_form = subject.warnings_of_form().iter().map(|text| Item::said(Code::OddManifest, text));
        let of_values = call.warnings.iter().map(|text| Item::said(Code::OddValue, text));
        let mut items: Vec<Item<'_>> = of_form.chain(of_values).collect();
        items.extend(findings.iter().map(Item::from));
        is_denied |= *deny && items.iter().any(|item| item.level == word(Level::Warning));
        let body = match call.run.format {
            Format::Text => items.iter().map(line).collect::<String>(),
            Format::Data(_) => data::document(Encoding::Json, &Findings { findings: items }),
        };
        sections.push(Section { title: subject.title.clone(), body });
    }
    let printed = match prepared.first().map(|(_, call)| call.run.format) {
        Some(Format::Data(encoding)) => manifest::print_data(encoding, &sections),
        Some(Format::Text) | None => manifest::print(&sections, |title| format!("== {title}")),
    };
    Ok(match printed {
        Exit::Done if is_denied => Exit::Failed,
        exit => exit,
    })
}

/// The findings as programs read them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Findings<'a> {
    /// Everything that is odd, warnings first.
    findings: Vec<Item<'a>>,
}

/// A finding.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Item<'a> {
    /// How much it matters: warning or note.
    level: &'static str,
    /// Which kind of finding it is.
    code: &'static str,
    /// The option; null where the text names it.
    option: Option<&'a str>,
    /// What is odd.
    text: &'a str,
    /// What helps; null where the text says it.
    remedy: Option<&'a str>,
}

impl<'a> Item<'a> {
    /// A remark that reading the flags has made; it names the option itself.
    fn said(code: Code, text: &'a str) -> Self {
        Self { level: word(Level::Warning), code: code.name(), option: None, text, remedy: None }
    }
}

impl<'a> From<&'a Finding> for Item<'a> {
    fn from(finding: &'a Finding) -> Self {
        let Finding { level, code, option, text, remedy } = finding;
        Self { level: word(*level), code: code.name(), option: Some(option), text, remedy: Some(remedy) }
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Warning => "warning",
        Level::Note => "note",
    }
}

fn line(item: &Item<'_>) -> String {
    let option = item.option.map(|option| format!("{option}: ")).unwrap_or_default();
    let remedy = item.remedy.map(|remedy| format!("\n               -> {remedy}")).unwrap_or_default();
    format!("{:8} {} {option}{}{remedy}\n", item.level, item.code, item.text)
}
