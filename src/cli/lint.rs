//! `sidecar-init lint`: what is odd about the capture flags.

use super::data::{self, Encoding};
use super::manifest::{self, Section, Subject};
use super::run::{self, Format};
use super::{Exit, ipv6, logging::Stdout, namespace_to_enter, report, start_logging};
use policy::lint::{Item, items, lint};
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
        let items = items(subject, &call.warnings, &findings);
        is_denied |= *deny && items.iter().any(Item::is_warning);
        let body = match call.run.format {
            Format::Text => items.iter().map(|item| item.text(report::line_width())).collect::<String>(),
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
