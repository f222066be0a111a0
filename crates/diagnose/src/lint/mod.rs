//! What is suspicious about a configuration, though every value in it is valid.
//!
//! Each finding names the option and what helps. A warning is about traffic that goes elsewhere than its
//! author thinks, or an option that does nothing; a note is about a limit of the rules themselves. Advice to leave
//! something out because it does nothing has been followed before it is given, and packets ended as before.

pub mod annotate;
mod application;
mod boundaries;
mod change;
mod comparison;
mod difference;
mod excluded;
mod general;
mod ipv6;
#[cfg(test)]
mod mesh_tests;
mod overlap;
mod probes;
mod report;
#[cfg(test)]
pub(crate) mod tests;
mod unreachable;

pub use application::{containers_as_proxy, runs_as_proxy};
pub use ipv6::{InterfaceAddress, leaves_ipv6_uncaptured, uncaptured_ipv6};
pub use mesh::finding::{Code, Edit, Finding, Level, RETIRED};
pub use report::{Item, items, text};

pub(crate) use probes::probes;

use comparison::{LintComparison, MAX_WORK};
use general::{Findings, Reach};
use mesh::Capture;
use mesh::sources::{Dialect, Raw};
use rules::shadow::Work;

/// All findings, warnings first; of configurations whose lists are too long, those found in time.
///
/// `held` are the IPv6 addresses of the pod's interfaces, where they are known beside those that the flags declare.
pub fn lint(raw: &Raw, capture: &Capture, held: &[InterfaceAddress]) -> Vec<Finding> {
    lint_within(Work::new(MAX_WORK), None, raw, capture, held)
}

/// So many rules are looked at by [`brief`]: it takes a small part of the time that it takes to set them.
const BRIEF_RULES: usize = 100;

/// Longer lists are looked at for items that lie in others.
const WHOLE: Reach = Reach { max_items: 64, every_list: true };

/// The same for [`brief`]: what is suspicious by itself.
const BRIEF: Reach = Reach { max_items: 0, every_list: false };

/// As [`lint`], just before the rules are set: where lists make many, only what the lists have no part in. What the
/// mesh's own rules can't do better is left out.
pub fn brief(raw: &Raw, capture: &Capture, held: &[InterfaceAddress]) -> Vec<Finding> {
    lint_within(Work::new(MAX_WORK), Some(BRIEF_RULES), raw, capture, held)
}

/// As [`brief`], without the time to try packets: findings about the proxy, its ports and the families, and
/// nothing of what has no effect.
pub fn quick_check(raw: &Raw, capture: &Capture, held: &[InterfaceAddress]) -> Vec<Finding> {
    let dialect = Dialect::of(raw);
    let found = general::at_once(raw, &**capture, held);
    found.into_iter().map(|finding| finding.named_by(&dialect)).collect()
}

fn lint_within(
    work: Work,
    max_rules: Option<usize>,
    raw: &Raw,
    capture: &Capture,
    held: &[InterfaceAddress],
) -> Vec<Finding> {
    let dialect = Dialect::of(raw);
    let named =
        |findings: Vec<Finding>| findings.into_iter().map(|finding| finding.named_by(&dialect)).collect();
    let mut comparison = LintComparison::new(raw, capture, work);
    if max_rules.is_some_and(|most| comparison.size() > most) {
        return named(general::of_all(raw, &**capture, held));
    }
    let reach = if max_rules.is_some() { BRIEF } else { WHOLE };
    let Findings { mut findings, redundant } = general::look(&mut comparison, held, reach);
    findings.extend(redundant.into_iter().map(|redundant| redundant.finding_with_edit(raw)));
    if max_rules.is_none() {
        findings.extend(general::limits(&comparison));
    }
    if comparison.work.is_spent() {
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
