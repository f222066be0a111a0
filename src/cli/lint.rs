//! `sidecar-init lint`: likely mistakes in the settings of capture, from flags, a manifest, or the note beside rules.

use super::data::{self, Encoding};
use super::manifest::{self, Section, Subject};
use super::noted::{self, NotedSettings};
use super::run::{self, Format};
use super::{Exit, ipv6, logging::Stdout, namespace_to_enter, report, start_logging, status};
use diagnose::lint::{Item, items, lint, runs_as_proxy, text};
use diagnose::{Basis, basis};
use mesh::sources::Reader;
use mesh::{Problems, Setting};
use serde::Serialize;
use std::slice;

pub(super) fn run(subjects: &[Subject]) -> Result<Exit, Problems> {
    match subjects {
        [subject] if subject.described().is_none() => of_what_is_here(subject),
        subjects => of_settings(subjects, None),
    }
}

/// Lints the settings that are noted beside the rules, or the rules themselves where there is no note.
fn of_what_is_here(subject: &Subject) -> Result<Exit, Problems> {
    let why = match noted::settings(subject)? {
        Ok(NotedSettings::Found(noted, basis)) => return of_settings(slice::from_ref(&*noted), Some(&basis)),
        Ok(NotedSettings::Unknown(why)) => why,
        Ok(here @ NotedSettings::NoRules) => return Err(noted::needed(&here)),
        Err(exit) => return Ok(exit),
    };
    let mut reader = Reader::new(&subject.raw, subject.before.clone());
    let deny = reader.switch(Setting::Deny);
    let (run, logging) = run::read(&mut reader);
    reader.finish()?;
    start_logging(&subject.raw, &logging, Stdout::Answer)?;
    tracing::info!(target: "lint", "the settings are not known, so only the rules are looked at: {why}");
    let findings = match status::findings(&run) {
        Ok(findings) => findings,
        Err(failure) => return Ok(report::failure(&failure, Exit::Failed)),
    };
    let items: Vec<Item<'_>> = findings.iter().map(Item::of_rules).collect();
    let is_denied = deny && items.iter().any(Item::is_warning);
    let basis = Basis::Rules { namespace: subject.namespace() };
    let body = body(run.format, &basis, true, items);
    Ok(print(run.format, &[Section { title: None, body }], is_denied))
}

fn of_settings(subjects: &[Subject], noted: Option<&Basis>) -> Result<Exit, Problems> {
    let prepared = manifest::each(subjects, |subject| {
        let mut reader = Reader::new(&subject.raw, subject.before.clone());
        let flags = (reader.switch(Setting::Deny), reader.switch(Setting::Notes));
        Ok((flags, run::finish(reader, &*subject.host())?))
    })?;
    if let ([subject, ..], [(_, call), ..]) = (subjects, &prepared[..]) {
        start_logging(&subject.raw, &call.logging, Stdout::Answer)?;
    }
    let mut sections = Vec::new();
    let mut is_denied = false;
    for (subject, ((deny, notes), call)) in subjects.iter().zip(&prepared) {
        // Without a namespace, flags are looked at where their author works, whose addresses are no pod's.
        let mut findings = match namespace_to_enter(&subject.raw) {
            // The reason is reported as a finding.
            _ if subject.skip().is_some() => Vec::new(),
            _ if noted.is_some() => ipv6::lint(lint, &subject.raw, &call.capture),
            Some(_) => ipv6::lint(lint, &subject.raw, &call.capture),
            None => lint(&subject.raw, &call.capture, &[]),
        };
        findings.extend(runs_as_proxy(subject, &call.capture));
        let mut items = items(subject, &call.warnings, &findings);
        items.retain(|item| *notes || item.is_warning());
        is_denied |= *deny && items.iter().any(Item::is_warning);
        let basis = noted.cloned().or_else(|| subject.described()).unwrap_or(Basis::Flags);
        let body = body(call.run.format, &basis, subjects.len() == 1, items);
        sections.push(Section { title: subject.title.clone(), body });
    }
    let format = prepared.first().map_or(Format::Text, |(_, call)| call.run.format);
    Ok(print(format, &sections, is_denied))
}

/// The findings of a subject; one that is not `alone` has a title instead of the line that names its basis.
fn body(format: Format, basis: &Basis, alone: bool, items: Vec<Item<'_>>) -> String {
    match format {
        Format::Text => {
            let first = if alone { basis.line(report::line_width()) } else { String::new() };
            first + &text(&items, report::line_width())
        }
        Format::Data(_) => {
            data::document(Encoding::Json, &Findings { basis: basis.report(), findings: items })
        }
    }
}

fn print(format: Format, sections: &[Section], is_denied: bool) -> Exit {
    let printed = match format {
        Format::Data(encoding) => manifest::print_data(encoding, sections),
        Format::Text => manifest::print(sections, |title| format!("== {title}")),
    };
    match printed {
        Exit::Done if is_denied => Exit::Failed,
        exit => exit,
    }
}

/// The findings as programs read them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Findings<'a> {
    /// The basis of the findings.
    basis: basis::Report,
    /// The findings, warnings first; notes are among them with `--notes` alone.
    findings: Vec<Item<'a>>,
}
