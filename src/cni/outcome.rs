//! The outcome of a call.

use super::protocol::CniError;

/// The outcome of a failed call, in the log and in counters.
pub(super) const FAILED: &str = "failed";

/// The outcome of a successful call.
pub(super) struct Done {
    /// The text for standard output.
    pub(super) answer: Option<String>,
    pub(super) outcome: &'static str,
    pub(super) reason: String,
    /// Undoes the call if the answer does not reach the runtime.
    pub(super) undo: Option<Undo>,
}

pub(super) type Undo = Box<dyn FnOnce() -> Result<(), CniError>>;

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
