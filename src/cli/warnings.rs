//! Findings of lints about this network namespace, and warnings of them, from commands that do something else.

use super::manifest::Subject;
use super::run::{ResolvedCall, RunMode};
use diagnose::lint::{Code, Finding, InterfaceAddress, Level, brief, leaves_ipv6_uncaptured, of_subject};
use mesh::{Capture, CapturePolicy, sources::Raw};
use sidecar_init::sys::address;
use std::io;

/// Warns of likely mistakes once the rules are in place: the lint walks packets, which may take longer than setting the rules,
/// and until then nothing is captured. A preview does not read the namespace.
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

/// The addresses that matter to [`diagnose::lint::lint`]: none where IPv6 is captured, as looking takes time.
fn addresses(capture: &dyn CapturePolicy) -> io::Result<Vec<InterfaceAddress>> {
    if !leaves_ipv6_uncaptured(capture) {
        return Ok(Vec::new());
    }
    let addresses = address::global_ipv6()?.into_iter();
    Ok(addresses.map(|(address, interface)| InterfaceAddress { address, interface }).collect())
}

pub(super) type Lint = fn(&Raw, &Capture, &[InterfaceAddress]) -> Vec<Finding>;

pub(super) fn lint_here(look: Lint, raw: &Raw, capture: &Capture) -> Vec<Finding> {
    match addresses(&**capture) {
        Ok(addresses) => look(raw, capture, &addresses),
        Err(error) => {
            let mut findings = vec![unknown(&**capture, &error)];
            findings.extend(look(raw, capture, &[]));
            findings
        }
    }
}

fn unknown(capture: &dyn CapturePolicy, error: &io::Error) -> Finding {
    Finding::warning(
        Code::Ipv6Unknown,
        &capture.mesh().entry().keys.ipv6.0.row().option(),
        format!("could not check whether this pod has IPv6 that is not captured: {error}"),
        "see whether its interfaces can be listed: ip -6 addr",
    )
}
