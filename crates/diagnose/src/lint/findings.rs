//! What lint has found: what is said as it is, and what is said to have no effect, which packets have yet to confirm.

use super::change::Change;
use mesh::finding::Finding;

/// A finding that says that something does nothing, and the change that shows it.
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
