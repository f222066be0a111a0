//! How a command ends.

/// How a command ends that has an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    Done,
    /// The rules differ, a packet ends otherwise than expected, or a finding is denied.
    Different,
}
