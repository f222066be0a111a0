//! What is odd about a configuration, though every value in it is valid.
//!
//! Each finding names the option and what helps. A warning is about traffic that goes elsewhere than its
//! author thinks, or an option that does nothing; a note is about a limit that every mesh shares.

mod configuration;
mod overlap;

use crate::istio::{self, CaptureConfig};
use crate::sources::Raw;
use rules::shadow::{Work, shadowed};

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
    /// The option, as its author wrote it.
    pub option: String,
    /// What is odd.
    pub text: String,
    /// What helps.
    pub remedy: String,
}

impl Finding {
    fn warning(option: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warning, option: option.to_owned(), text: text.into(), remedy: remedy.into() }
    }

    fn note(option: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::warning(option, text, remedy) }
    }
}

/// Everything that is odd, warnings first.
pub fn lint(raw: &Raw, config: &CaptureConfig) -> Vec<Finding> {
    let mut findings = configuration::check(raw, config);
    findings.extend(overlap::check(config));
    findings.extend(unreachable(config));
    findings.sort_by_key(|finding| finding.level);
    findings.dedup();
    findings
}

/// Rules that nothing reaches, if an option made them.
fn unreachable(config: &CaptureConfig) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for family in config.families() {
        let rules = istio::rules(config, family);
        for found in shadowed(rules.rules(), &mut Work::new(1_000_000)) {
            let (Some(origin), Some(by)) = (found.rule.origin, found.by.origin) else { continue };
            if origin.option.is_empty() || origin == by && found.rule.rule == found.by.rule {
                continue;
            }
            let text = |rule| rules::render::iptables::rule(rule);
            let finding = Finding::warning(
                &origin.option_text(),
                format!(
                    "the rule `{}` is never reached: `{}` ({}) comes first",
                    text(&found.rule.rule),
                    text(&found.by.rule),
                    by.option_text(),
                ),
                "take the item out of one of the two options",
            );
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    findings
}
