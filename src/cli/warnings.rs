//! Warnings of what a lint finds, from commands that do something else.

use super::ipv6;
use super::manifest::Subject;
use super::run::{ResolvedCall, RunMode};
use diagnose::lint::{Finding, Level, brief, of_subject};
use mesh::sources::Raw;

/// Warns of likely mistakes once the rules are in place: the lint walks packets, which may take longer than setting the rules,
/// and until then nothing is captured. A preview does not read the namespace.
pub(super) fn warn(subject: &Subject, call: &ResolvedCall) {
    warn_by(brief, &subject.raw, call);
    warn_of(of_subject(subject, &call.capture));
}

/// Warns of the findings of a lint.
pub(super) fn warn_by(look: ipv6::Lint, raw: &Raw, call: &ResolvedCall) {
    warn_of(match call.run.mode {
        RunMode::Preview(_) => look(raw, &call.capture, &[]),
        _ => ipv6::lint(look, raw, &call.capture),
    });
}

pub(super) fn warn_of(findings: impl IntoIterator<Item = Finding>) {
    for finding in findings.into_iter().filter(|finding| finding.level <= Level::Warning) {
        let Finding { code, subject, text, remedy, .. } = finding;
        tracing::warn!(target: "lint", %code, "{subject}: {text}; {remedy}");
    }
}
