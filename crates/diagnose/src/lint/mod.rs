//! Suspicious settings of a configuration in which every value is valid.
//!
//! Each finding names the option and the remedy. A warning is about traffic that goes elsewhere than its
//! author thinks, or an option that does nothing; a note is about a limit of the rules themselves. Before lint
//! advises to leave out something that does nothing, it tries packets without it: each ends as before.

pub mod annotate;
mod application;
mod change;
mod comparison;
mod excluded;
mod general;
mod ipv6;
#[cfg(test)]
mod mesh_tests;
mod overlap;
mod report;
#[cfg(test)]
pub(crate) mod tests;
mod unreachable;

pub use application::{of_pod, of_subject};
pub use ipv6::{InterfaceAddress, leaves_ipv6_uncaptured, uncaptured_ipv6};
pub use report::{all, text};
pub use rules::finding::{Code, Edit, Finding, Level, RETIRED};

use comparison::{LintComparison, MAX_TRIALS, MAX_WORK};
use general::{Findings, TrialScope};
use mesh::Capture;
use mesh::sources::{Dialect, Raw};
use rules::simulate::Work;

/// All findings, warnings first; of configurations whose lists are too long, those found in time.
///
/// `interface_addresses` are the IPv6 addresses of the pod's interfaces as far as they are known; flags may declare others.
pub fn lint(raw: &Raw, capture: &Capture, interface_addresses: &[InterfaceAddress]) -> Vec<Finding> {
    lint_within(Work::new(MAX_WORK), None, raw, capture, interface_addresses)
}

/// [`brief`] tries packets where there are at most so many rules. That takes a small part of the time that setting them
/// takes.
const BRIEF_RULES: usize = 100;

/// [`lint`] tries to leave out each item where all lists together have at most 64. In longer lists it only tries items that
/// lie in others or whose rules no packet reaches.
const WHOLE: TrialScope = TrialScope { max_items: MAX_TRIALS, every_list: true };

/// [`brief`] tries to leave out items that lie in others or whose rules no packet reaches, and lists that have such items.
const BRIEF: TrialScope = TrialScope { max_items: 0, every_list: false };

/// As [`lint`], but in little time, for use just before the rules are set. Where lists make many rules, no packet is tried,
/// and only findings that do not depend on lists are reported. Limits of the mesh's own rules are left out.
pub fn brief(raw: &Raw, capture: &Capture, interface_addresses: &[InterfaceAddress]) -> Vec<Finding> {
    lint_within(Work::new(MAX_WORK), Some(BRIEF_RULES), raw, capture, interface_addresses)
}

/// As [`brief`], without the time to try packets: findings about the proxy, its ports and the families, and
/// nothing of what has no effect.
pub fn quick_check(raw: &Raw, capture: &Capture, interface_addresses: &[InterfaceAddress]) -> Vec<Finding> {
    let dialect = Dialect::of(raw);
    let found = general::check_without_packets(raw, &**capture, interface_addresses);
    found.into_iter().map(|finding| dialect.name_in(finding)).collect()
}

fn lint_within(
    work: Work,
    max_rules: Option<usize>,
    raw: &Raw,
    capture: &Capture,
    interface_addresses: &[InterfaceAddress],
) -> Vec<Finding> {
    let dialect = Dialect::of(raw);
    let named =
        |findings: Vec<Finding>| findings.into_iter().map(|finding| dialect.name_in(finding)).collect();
    let mut comparison = LintComparison::new(raw, capture, work);
    if max_rules.is_some_and(|most| comparison.size() > most) {
        return named(general::shared_listeners_and_ipv6(raw, &**capture, interface_addresses));
    }
    let scope = if max_rules.is_some() { BRIEF } else { WHOLE };
    let Findings { mut findings, redundant } =
        general::check_with_packets(&mut comparison, interface_addresses, scope);
    findings.extend(redundant.into_iter().map(|redundant| redundant.finding_with_edit(raw)));
    if max_rules.is_none() {
        findings.extend(general::limits(&mut comparison));
    }
    if comparison.work.is_spent() || comparison.is_cut {
        findings.push(Finding::warning(
            Code::Incomplete,
            "all options",
            "the lists are too long to check completely: the findings are correct, others may be missing",
            "join networks and ports that lie beside each other",
        ));
    }
    findings.sort_by_key(|finding| finding.level);
    named(findings)
}
