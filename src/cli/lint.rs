//! `sidecar-init lint`: what is odd about the capture flags.

use super::run::{self, Format};
use super::{Exit, ipv6, logging::Stdout, namespace_to_enter, report, start_logging};
use policy::lint::{Finding, Level, lint};
use policy::sources::{Host, Raw, Reader};
use policy::{Problem, Problems, Setting};
use serde::Serialize;

/// Runs the command.
pub(super) fn run(raw: &Raw, host: &dyn Host, problems: Vec<Problem>) -> Result<Exit, Problems> {
    let mut reader = Reader::new(raw, problems);
    let deny = reader.switch(Setting::Deny);
    let call = run::finish(reader, host)?;
    start_logging(raw, &call.logging, Stdout::Answer)?;
    // Without a namespace, flags are looked at where their author works, whose addresses are no pod's.
    let findings = match namespace_to_enter(raw) {
        Some(_) => ipv6::lint(lint, raw, &call.capture),
        None => lint(raw, &call.capture, &[]),
    };
    let mut items: Vec<Item<'_>> = call.warnings.iter().map(|text| Item::said(text)).collect();
    items.extend(findings.iter().map(Item::from));
    let printed = match call.run.format {
        Format::Text => report::text(&items.iter().map(line).collect::<String>()),
        Format::Json => report::json(&items),
    };
    let warned = items.iter().any(|item| item.level == word(Level::Warning));
    Ok(match printed {
        Exit::Done if deny && warned => Exit::Failed,
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
    let option = item.option.map(|option| format!("{option}: ")).unwrap_or_default();
    let remedy = item.remedy.map(|remedy| format!("\n         -> {remedy}")).unwrap_or_default();
    format!("{:8} {option}{}{remedy}\n", item.level, item.text)
}
