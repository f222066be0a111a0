//! What is odd about a configuration, though every value in it is valid.
//!
//! Each finding names the option and what helps. A warning is about traffic that goes elsewhere than its
//! author thinks, or an option that does nothing; a note is about a limit of the rules themselves. Advice to leave
//! something out because it does nothing has been followed before it is given, and packets ended as before.

mod application;
mod asked;
mod change;
mod code;
mod difference;
mod general;
mod ipv6;
mod judge;
#[cfg(test)]
pub(crate) mod laws;
#[cfg(test)]
mod laws_of_meshes;
mod limits;
mod overlap;
mod probes;
mod told;
mod unreachable;

pub use application::runs_as_proxy;
pub use change::{Change, LeftOut};
pub use code::{Code, RETIRED};
pub use ipv6::{Held, leaves_ipv6, uncaptured_ipv6};
pub use judge::Judge;
pub use told::{Item, items, text};

pub(crate) use general::of_all;
pub(crate) use overlap::{addresses, covered, ports};
pub(crate) use probes::probes;
pub(crate) use unreachable::unreachable;

use crate::mesh::Capture;
use crate::sources::{Dialect, Raw, Source};
use rules::shadow::Work;

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
    pub(crate) fn warning(
        code: Code,
        option: &str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warning,
            code,
            option: option.to_owned(),
            text: text.into(),
            remedy: remedy.into(),
        }
    }

    pub(crate) fn note(code: Code, option: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
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
#[derive(Clone, Debug)]
pub struct Idle {
    pub(crate) finding: Finding,
    pub(crate) change: Change,
}

/// What is odd, and what does nothing.
#[derive(Clone, Debug, Default)]
pub struct Oddities {
    pub(crate) findings: Vec<Finding>,
    pub(crate) idle: Vec<Idle>,
}

/// Rules met by packets and compared with each other, in all: some tenths of a second.
const MOST_WORK: usize = 20_000_000;

/// Everything that is odd, warnings first; of configurations whose lists are too long, what was found in time.
///
/// `held` are the IPv6 addresses of the pod's interfaces, where they are known beside those that the flags declare.
pub fn lint(raw: &Raw, capture: &Capture, held: &[Held]) -> Vec<Finding> {
    lint_within(Work::new(MOST_WORK), None, raw, capture, held)
}

/// So many rules are looked at by [`brief`]: it takes a small part of the time that it takes to set them.
const FEW_RULES: usize = 100;

/// As [`lint`], for whoever is about to set the rules: where lists make many, only what the lists have no part in. What the
/// mesh's own rules can't do better is left out.
pub fn brief(raw: &Raw, capture: &Capture, held: &[Held]) -> Vec<Finding> {
    lint_within(Work::new(MOST_WORK), Some(FEW_RULES), raw, capture, held)
}

/// As [`brief`], for whoever has no time to try packets: what is odd about the proxy, its ports and the families, and
/// nothing of what has no effect.
pub fn glance(raw: &Raw, capture: &Capture, held: &[Held]) -> Vec<Finding> {
    let dialect = Dialect::of(raw);
    let found = general::at_once(raw, &**capture, held);
    found.into_iter().map(|finding| finding.told(&dialect)).collect()
}

fn lint_within(
    work: Work,
    most_rules: Option<usize>,
    raw: &Raw,
    capture: &Capture,
    held: &[Held],
) -> Vec<Finding> {
    let dialect = Dialect::of(raw);
    let told = |findings: Vec<Finding>| findings.into_iter().map(|finding| finding.told(&dialect)).collect();
    let mut judge = Judge::new(raw, capture, work);
    if most_rules.is_some_and(|most| judge.size() > most) {
        return told(of_all(raw, &**capture, held));
    }
    let Oddities { mut findings, mut idle } = look(&mut judge, held);
    // Nobody can take back what nobody has said.
    idle.retain(|idle| {
        !raw.get(idle.change.setting).is_some_and(|given| matches!(given.source, Source::Preset(_)))
    });
    findings.extend(idle.into_iter().map(|idle| idle.finding));
    if most_rules.is_none() {
        findings.extend(limits::limits(&judge));
    }
    if judge.work.is_spent() {
        findings.push(Finding::warning(
            Code::NotAllLookedAt,
            "all options",
            "the lists are too long to look at everything: what is said is true, but the rest was not looked at",
            "join networks and ports that lie beside each other",
        ));
    }
    findings.sort_by_key(|finding| finding.level);
    told(findings)
}

/// What is odd, and what does nothing as the judge confirms: by the mesh's own word, or else by its rules.
fn look(judge: &mut Judge<'_>, held: &[Held]) -> Oddities {
    let capture = judge.capture;
    capture.oddities(judge, held).unwrap_or_else(|| general::look(judge, held))
}
