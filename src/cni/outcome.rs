//! How a call has ended.

use super::protocol::Fault;

/// How a call ended that failed, in the log and for counters.
pub(super) const FAILED: &str = "failed";

/// What a call has done.
pub(super) struct Done {
    /// What standard output gets.
    pub(super) answer: Option<String>,
    pub(super) outcome: &'static str,
    pub(super) reason: String,
    /// What takes it back where the answer does not reach the runtime, to which the call has failed then.
    pub(super) undo: Option<Undo>,
}

pub(super) type Undo = Box<dyn FnOnce() -> Result<(), Fault>>;

impl Done {
    pub(super) fn new(outcome: &'static str, reason: String) -> Self {
        Self { answer: None, outcome, reason, undo: None }
    }

    pub(super) fn answering(self, answer: String) -> Self {
        Self { answer: Some(answer), ..self }
    }

    pub(super) fn undone_by(self, undo: Undo) -> Self {
        Self { undo: Some(undo), ..self }
    }
}
