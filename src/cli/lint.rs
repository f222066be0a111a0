//! `sidecar-init lint`: likely mistakes in capture settings, and warnings about them in other commands.

use super::manifest::{self, NotedSettings, Subject, SubjectSection};
use super::report::{self, Encoding};
use super::run::{self, ResolvedCall, RunMode};
use super::{Exit, RunResult, logging::Stdout, namespace_to_enter, start_logging, status};
use diagnose::finding::{FindingReport, reports};
use diagnose::lint::annotate::{self, FindingLocation};
use diagnose::lint::{
    Code, Finding, InterfaceAddress, Level, all, brief, leaves_ipv6_uncaptured, lint, of_subject, text,
};
use diagnose::{Basis, basis};
use mesh::sources::{Raw, SettingReader};
use mesh::{Capture, Setting};
use serde::Serialize;
use sidecar_init::sys::address;
use std::{path::Path, slice};

pub(super) fn run(subjects: &[Subject]) -> RunResult {
    match subjects {
        [subject] if subject.described().is_none() => of_what_is_here(subject),
        subjects => of_settings(subjects, None),
    }
}

/// Lints the settings stored with the rules, or the rules themselves if none are stored.
fn of_what_is_here(subject: &Subject) -> RunResult {
    let why = match manifest::settings(subject)? {
        NotedSettings::Found(noted, basis) => return of_settings(slice::from_ref(&*noted), Some(&basis)),
        NotedSettings::Unknown(why) => why,
        here @ NotedSettings::NoRules => return Err(manifest::needed(&here).into()),
    };
    let own = |reader: &mut SettingReader<'_>| (reader.switch(Setting::Deny), allowed(reader), form(reader));
    let (run, (deny, allowed, form)) = run::begin(&subject.raw, subject.before.clone(), run::ANSWER, own)?;
    tracing::info!(target: "lint", "the settings are unknown, so only the rules are checked: {why}");
    let mut findings = status::findings(&run)?;
    findings.retain(|finding| !allowed.iter().any(|code| code.name() == finding.code));
    let is_denied = deny && findings.iter().any(|finding| is_denied(finding.level));
    let basis = Basis::Rules { namespace: subject.namespace() };
    let mut answer = LintAnswer { form, sections: Vec::new(), results: Vec::new() };
    answer.add(None, &basis, true, &findings, &FindingLocation::default());
    answer.print(is_denied)
}

fn of_settings(subjects: &[Subject], noted: Option<&Basis>) -> RunResult {
    let prepared = manifest::each(subjects, |subject| {
        let mut reader = SettingReader::new(&subject.raw, subject.before.clone());
        let (deny, notes) = (reader.switch(Setting::Deny), reader.switch(Setting::Notes));
        let flags = (deny, notes, allowed(&mut reader), form(&mut reader));
        Ok((flags, run::finish(reader, &*subject.host())?))
    })?;
    if let ([subject, ..], [(_, call), ..]) = (subjects, &prepared[..]) {
        start_logging(&subject.raw, &call.run, Stdout::Answer)?;
    }
    let form = prepared.first().map_or(LintFormat::Text, |((.., form), _)| *form);
    let mut answer = LintAnswer { form, sections: Vec::new(), results: Vec::new() };
    let given = subjects.first().and_then(|subject| subject.raw.get(Setting::Filename));
    // Standard input, a pipe and a document among the arguments are not files, so findings have no line numbers.
    let file = given.map(|given| given.value.as_str()).filter(|file| Path::new(file).is_file());
    let mut denies = false;
    for (subject, ((deny, notes, allowed, _), call)) in subjects.iter().zip(&prepared) {
        // Flags without a namespace are checked on their author's machine, whose addresses belong to no pod.
        let is_in_pod = noted.is_some() || namespace_to_enter(&subject.raw).is_some();
        let mut findings = if subject.skip().is_some() {
            Vec::new()
        } else if is_in_pod {
            lint_here(lint, &subject.raw, &call.capture)
        } else {
            lint(&subject.raw, &call.capture, &[])
        };
        findings.extend(of_subject(subject, &call.capture));
        let mut findings = all(subject, &call.warnings, findings);
        let is_shown = |finding: &Finding| *notes || is_denied(finding.level);
        findings.retain(|finding| is_shown(finding) && !allowed.contains(&finding.code));
        denies |= *deny && findings.iter().any(|finding| is_denied(finding.level));
        let basis = noted.cloned().or_else(|| subject.described()).unwrap_or(Basis::Flags);
        let (place, title) = (subject.place.as_ref(), subject.title.as_deref());
        let place = FindingLocation { file, place, title };
        answer.add(subject.title.as_deref(), &basis, subjects.len() == 1, &reports(&findings), &place);
    }
    answer.print(denies)
}

fn allowed(reader: &mut SettingReader<'_>) -> Vec<Code> {
    reader.list(Setting::Allow, |reader, source, item| {
        Code::given(item).map_err(|expected| reader.problem(source, item, expected)).ok()
    })
}

fn is_denied(level: Level) -> bool {
    level <= Level::Warning
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LintFormat {
    Text,
    Data(Encoding),
    Sarif,
    GitHub,
}

fn form(reader: &mut SettingReader<'_>) -> LintFormat {
    let data = LintFormat::Data;
    let forms =
        [LintFormat::Text, data(Encoding::Json), data(Encoding::Yaml), LintFormat::Sarif, LintFormat::GitHub];
    run::one_of(reader, Setting::LintFormat, &forms).unwrap_or(LintFormat::Text)
}

struct LintAnswer {
    form: LintFormat,
    sections: Vec<SubjectSection>,
    results: Vec<serde_json::Value>,
}

impl LintAnswer {
    fn add(
        &mut self,
        title: Option<&str>,
        basis: &Basis,
        is_alone: bool,
        findings: &[FindingReport],
        place: &FindingLocation<'_>,
    ) {
        let body = match self.form {
            LintFormat::Text => {
                let first = if is_alone { basis.line(report::line_width()) } else { String::new() };
                first + &text(findings, report::line_width())
            }
            LintFormat::Data(_) => {
                report::document(Encoding::Json, &LintReport { basis: basis.report(), findings })
            }
            LintFormat::GitHub => annotate::github(findings, place),
            LintFormat::Sarif => {
                self.results.extend(annotate::sarif_results(findings, place));
                return;
            }
        };
        self.sections.push(SubjectSection { title: title.map(str::to_owned), body });
    }

    fn print(self, is_denied: bool) -> RunResult {
        match self.form {
            LintFormat::Data(encoding) => manifest::print_data(encoding, &self.sections),
            LintFormat::Text => manifest::print(&self.sections, |title| format!("== {title}")),
            LintFormat::GitHub => {
                report::text(&self.sections.iter().map(|section| section.body.as_str()).collect::<String>())
            }
            LintFormat::Sarif => report::text(&annotate::sarif(&self.results, env!("CARGO_PKG_VERSION"))),
        }?;
        Ok(if is_denied { Exit::Failed } else { Exit::Done })
    }
}

/// The findings, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LintReport<'a> {
    /// The basis of the findings.
    basis: basis::BasisReport,
    /// The findings, warnings first; notes are included only with `--notes`.
    findings: &'a [FindingReport],
}

/// Warns of likely mistakes once the rules are in place: until then nothing is captured, and walking packets takes time.
pub(super) fn warn(subject: &Subject, call: &ResolvedCall) {
    warn_by(brief, &subject.raw, call);
    warn_of(of_subject(subject, &call.capture));
}

pub(super) fn warn_by(look: Lint, raw: &Raw, call: &ResolvedCall) {
    warn_of(match call.run.mode {
        RunMode::Preview(_) => look(raw, &call.capture, &[]),
        _ => lint_here(look, raw, &call.capture),
    });
}

pub(super) fn warn_of(findings: impl IntoIterator<Item = Finding>) {
    for finding in findings.into_iter().filter(|finding| finding.level <= Level::Warning) {
        let Finding { code, subject, text, remedy, .. } = finding;
        tracing::warn!(target: "lint", %code, "{subject}: {text}; {remedy}");
    }
}

pub(super) type Lint = fn(&Raw, &Capture, &[InterfaceAddress]) -> Vec<Finding>;

/// Findings in this namespace. Its addresses matter only if IPv6 is not captured; reading them takes time.
pub(super) fn lint_here(look: Lint, raw: &Raw, capture: &Capture) -> Vec<Finding> {
    if !leaves_ipv6_uncaptured(&**capture) {
        return look(raw, capture, &[]);
    }
    let of_interface = |(address, interface)| InterfaceAddress { address, interface };
    match address::global_ipv6() {
        Ok(found) => look(raw, capture, &found.into_iter().map(of_interface).collect::<Vec<_>>()),
        Err(error) => {
            let unknown = Finding::warning(
                Code::Ipv6Unknown,
                &capture.mesh().entry().keys.ipv6.0.row().option(),
                format!("could not check whether this pod has IPv6 that is not captured: {error}"),
                "check whether its interfaces can be listed: ip -6 addr",
            );
            [vec![unknown], look(raw, capture, &[])].concat()
        }
    }
}
