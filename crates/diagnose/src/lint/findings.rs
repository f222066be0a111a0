//! What lint has found: certain findings, and options without effect, which packets have yet to confirm.

use super::change::Change;
use mesh::finding::Finding;

/// A finding about something without effect, and the change that shows it.
#[derive(Clone, Debug)]
pub(super) struct Redundant {
    pub(super) finding: Finding,
    pub(super) change: Change,
}

/// What is suspicious, and what has no effect.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) findings: Vec<Finding>,
    pub(super) redundant: Vec<Redundant>,
}
