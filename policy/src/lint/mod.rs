//! What is odd about a configuration, though every value in it is valid.
//!
//! Each finding names the option and what helps. A warning is about traffic that goes elsewhere than its
//! author thinks, or an option that does nothing; a note is about a limit that every mesh shares. Advice to leave
//! something out because it does nothing has been followed before it is given, and packets ended as before.

mod change;
mod code;
mod configuration;
mod ipv6;
mod judge;
#[cfg(test)]
pub(crate) mod laws;
mod overlap;
mod probes;
mod told;
mod unreachable;
mod whole;

pub use code::{Code, RETIRED};
pub use ipv6::{Held, leaves_ipv6, uncaptured_ipv6, why_not_ipv6};
pub use told::{Item, items};

use crate::istio::{self, CaptureConfig};
use crate::mesh::Capture;
use crate::sources::{Dialect, Raw, Source};
use change::Change;
use judge::Judge;
use rules::shadow::Work;
use std::collections::BTreeSet;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Most probably not what was meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing that is odd.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// Which kind of finding it is.
    pub code: Code,
    /// The option, as its author wrote it.
    pub option: String,
    /// What is odd.
    pub text: String,
    /// What helps.
    pub remedy: String,
}

impl Finding {
    fn warning(code: Code, option: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            code,
            option: option.to_owned(),
            text: text.into(),
            remedy: remedy.into(),
        }
    }

    fn note(code: Code, option: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::warning(code, option, text, remedy) }
    }
}

impl Finding {
    /// In the words of whoever has said what to capture.
    fn told(self, dialect: &Dialect) -> Self {
        let Self { level, code, option, text, remedy } = self;
        let [option, text, remedy] = [option, text, remedy].map(|text| dialect.translate(&text));
        Self { level, code, option, text, remedy }
    }
}

/// A finding that says that something does nothing, and the change that shows it.
struct Idle {
    finding: Finding,
    change: Change,
}

/// Rules met by packets and compared with each other, in all: some tenths of a second.
const MOST_WORK: usize = 20_000_000;

/// Everything that is odd, warnings first; of configurations whose lists are too long, what was found in time.
///
/// `held` are the IPv6 addresses of the pod's interfaces, where they are known beside those that the flags declare.
pub fn lint(raw: &Raw, capture: &Capture, held: &[Held]) -> Vec<Finding> {
    let of = |config| lint_within(Work::new(MOST_WORK), usize::MAX, raw, config, held);
    istio::of(capture).map(of).unwrap_or_default()
}

/// So many rules are looked at by [`brief`]: it takes a small part of the time that it takes to set them.
const FEW_RULES: usize = 100;

/// As [`lint`], for whoever is about to set the rules: where lists make many, only what the lists have no part in.
pub fn brief(raw: &Raw, capture: &Capture, held: &[Held]) -> Vec<Finding> {
    let of = |config| lint_within(Work::new(MOST_WORK), FEW_RULES, raw, config, held);
    istio::of(capture).map(of).unwrap_or_default()
}

fn lint_within(
    work: Work,
    most_rules: usize,
    raw: &Raw,
    config: &CaptureConfig,
    held: &[Held],
) -> Vec<Finding> {
    let dialect = Dialect::of(raw);
    let told = |findings: Vec<Finding>| findings.into_iter().map(|finding| finding.told(&dialect)).collect();
    let mut judge = Judge::new(raw, config, work);
    if judge.size() > most_rules {
        return told(whole::check(raw, config, held));
    }
    let (mut findings, mut idle) = look(raw, &mut judge, held);
    // Nobody can take back what nobody has said.
    idle.retain(|idle| {
        !raw.get(idle.change.setting).is_some_and(|given| matches!(given.source, Source::Preset(_)))
    });
    findings.extend(idle.into_iter().map(|idle| idle.finding));
    if judge.work.is_spent() {
        findings.push(Finding::warning(Code::NotAllLookedAt,
            "all options",
            "the lists are too long to look at everything: what is said is true, but the rest was not looked at",
            "join networks and ports that lie beside each other",
        ));
    }
    findings.sort_by_key(|finding| finding.level);
    told(findings)
}

/// What is odd, and what does nothing as the judge confirms.
fn look(raw: &Raw, judge: &mut Judge<'_>, held: &[Held]) -> (Vec<Finding>, Vec<Idle>) {
    let config = judge.config;
    if let Some(nothing) = whole::nothing(judge) {
        return (vec![nothing], Vec::new());
    }
    let mut findings = whole::check(raw, config, held);
    let excluded = whole::everything_excluded(judge);
    let is_moot = |change: &Change| excluded.is_some() && whole::is_of_included(change.setting);
    let captures_outbound = excluded.is_none();
    findings.extend(excluded.clone());
    findings.extend(configuration::check(judge, captures_outbound));
    let mut candidates = configuration::without_effect(raw, config);
    candidates.extend(overlap::check(config));
    candidates.extend(unreachable::check(judge));
    let mut seen = BTreeSet::new();
    let mut idle = Vec::new();
    for candidate in candidates {
        let Change { setting, item, .. } = &candidate.change;
        if is_moot(&candidate.change) || !seen.insert((*setting, item.clone())) {
            continue;
        }
        if judge.is_idle(&candidate.change) {
            idle.push(candidate);
        } else if judge.work.is_spent() {
            break;
        }
    }
    (findings, idle)
}
