//! What is odd about a configuration of Istio's sidecar, in the words of its options: beside what any mesh's rules tell, that
//! some modes and options don't go together.

mod configuration;
mod follow;
mod overlap;
mod unreachable;
mod whole;

pub(crate) use follow::without;

use super::CaptureConfig;
use crate::lint::{self, Change, Held, Judge, Oddities};

/// What is odd, and what does nothing as the judge confirms.
pub(super) fn look(config: &CaptureConfig, judge: &mut Judge<'_>, held: &[Held]) -> Oddities {
    if let Some(nothing) = whole::nothing(config, judge) {
        return Oddities { findings: vec![nothing], idle: Vec::new() };
    }
    let mut findings = lint::of_all(judge.raw, config, held);
    let excluded = whole::everything_excluded(config, judge);
    let is_moot = |change: &Change| excluded.is_some() && whole::is_of_included(change.setting);
    let captures_outbound = excluded.is_none();
    findings.extend(excluded.clone());
    findings.extend(configuration::check(config, judge, captures_outbound));
    let mut candidates = configuration::without_effect(judge.raw, config);
    candidates.extend(overlap::check(config));
    candidates.extend(lint::unreachable(judge, unreachable::made_by));
    candidates.retain(|candidate| !is_moot(&candidate.change));
    Oddities { findings, idle: judge.confirmed(candidates) }
}
