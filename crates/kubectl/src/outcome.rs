//! How a command ends.

/// How a command ends that has an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    Done,
    /// The rules differ or are not there, a packet ends otherwise than expected, or a finding is denied.
    Different,
    /// Something in the pod fails.
    Failing,
}
