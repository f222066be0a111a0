//! Suspicious settings in a valid configuration. A warning concerns traffic with an unexpected destination, or an
//! option without effect; a note concerns a limit of the rules. Advice to drop a setting is confirmed by a trial: no
//! verdict changes.

pub mod annotate;
mod application;
mod change;
mod comparison;
mod excluded;
mod general;
#[cfg(test)]
mod mesh_tests;
#[cfg(test)]
pub(crate) mod tests;

pub use application::{InterfaceAddress, leaves_ipv6_uncaptured, of_pod, of_subject, uncaptured_ipv6};
pub use rules::finding::{Code, Edit, Finding, Level};

use crate::{Subject, finding::FindingReport, painted};
use comparison::{LintComparison, MAX_WORK};
use mesh::Capture;
use mesh::sources::{Dialect, Raw};
use rules::simulate::Work;

/// All findings, warnings first; for very long lists, only findings within the budget. `interface_addresses` are the known
/// IPv6 addresses of the pod's interfaces; flags may declare others.
pub fn lint(raw: &Raw, capture: &Capture, interface_addresses: &[InterfaceAddress]) -> Vec<Finding> {
    lint_within(Work::new(MAX_WORK), None, raw, capture, interface_addresses)
}

/// Maximum number of rules for which [`brief`] walks packets: a fraction of the time to set the rules.
const BRIEF_RULES: usize = 100;

/// Fast [`lint`], before rules are set: walks packets only if rules are few, and reports no limits.
pub fn brief(raw: &Raw, capture: &Capture, interface_addresses: &[InterfaceAddress]) -> Vec<Finding> {
    lint_within(Work::new(MAX_WORK), Some(BRIEF_RULES), raw, capture, interface_addresses)
}

/// [`brief`] without packets: findings about the proxy, its ports and the families.
pub fn quick_check(raw: &Raw, capture: &Capture, interface_addresses: &[InterfaceAddress]) -> Vec<Finding> {
    named(raw, general::check_without_packets(raw, &**capture, interface_addresses))
}

fn named(raw: &Raw, findings: Vec<Finding>) -> Vec<Finding> {
    let dialect = Dialect::of(raw);
    findings.into_iter().map(|finding| dialect.name_in(finding)).collect()
}

fn lint_within(
    work: Work,
    max_rules: Option<usize>,
    raw: &Raw,
    capture: &Capture,
    interface_addresses: &[InterfaceAddress],
) -> Vec<Finding> {
    let is_long = |rules: usize| max_rules.is_some_and(|most| rules > most);
    // Counting list items is much faster than making their rules.
    let comparison = (!is_long(capture.lists().len())).then(|| LintComparison::new(raw, capture, work));
    let Some(mut comparison) = comparison.filter(|comparison| !is_long(comparison.statements().count()))
    else {
        return named(raw, general::shared_listeners_and_ipv6(raw, &**capture, interface_addresses));
    };
    let is_whole = max_rules.is_none();
    let (mut findings, redundant) =
        general::check_with_packets(&mut comparison, interface_addresses, is_whole);
    findings.extend(redundant.into_iter().map(|redundant| redundant.finding_with_edit(raw)));
    if is_whole {
        findings.extend(general::limits(&mut comparison));
    }
    if comparison.work.is_spent() || comparison.is_cut {
        findings.push(Finding::warning(
            Code::Incomplete,
            "all options",
            "the lists are too long to check completely: findings are correct, but others may be missing",
            "join adjacent networks and ports",
        ));
    }
    findings.sort_by_key(|finding| finding.level);
    named(raw, findings)
}

/// All findings about a subject, the worst first: remarks about its form, parsing `warnings`, and `findings`.
pub fn all(subject: &Subject, warnings: &[String], findings: Vec<Finding>) -> Vec<Finding> {
    let of_value = |text: &String| Finding::plain(Level::Warning, Code::SurprisingValue, text);
    let mut all = subject.warnings_of_form().to_vec();
    all.extend(warnings.iter().map(of_value));
    all.extend(findings);
    all.sort_by_key(|finding| finding.level);
    all
}

pub fn text(findings: &[FindingReport], width: usize) -> String {
    match findings {
        [] => "No findings\n".to_owned(),
        findings => findings.iter().map(|finding| painted(&finding.lines(), width)).collect(),
    }
}
