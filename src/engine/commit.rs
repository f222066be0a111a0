//! Commits steps as a whole, or leaves the old state: a failure is followed by a rollback, which is planned from what is
//! really there.

use super::steps::way_back;
use crate::backend::{Backend, CommitStep, Error, Snapshot, Variant};
use rules::{Family, Ownership, Table};
use std::fmt;

#[derive(Debug, thiserror::Error)]
#[error("{step} failed; {aftermath}")]
pub struct CommitFailure {
    pub step: String,
    pub aftermath: Aftermath,
    pub source: Error,
}

/// The state that a failed change leaves.
#[derive(Debug)]
pub enum Aftermath {
    RolledBack,
    /// The old one, except the owner's rules in these tables of iptables (nft), which its program can't show: rules
    /// removed there can't be put back.
    Lost {
        tables: Vec<(Family, Table)>,
    },
    /// Neither the old nor the new one: these steps back failed as well, each with its reason.
    Left {
        steps: Vec<(CommitStep, Error)>,
    },
    /// It can't even be read.
    Unknown(Error),
}

impl fmt::Display for Aftermath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RolledBack => f.write_str("the old state is back in place"),
            Self::Lost { tables } => {
                let names = tables.iter().map(|(family, table)| format!("{family} {}", table.name()));
                let names: Vec<String> = names.collect();
                write!(
                    f,
                    "the old state is back, but for rules that were removed from tables that {} can't show ({}), so run \
                     this again or clean",
                    Variant::Nft,
                    names.join(", ")
                )
            }
            Self::Left { steps } => {
                f.write_str("it could not be taken back in full, so run this again or clean; left undone:")?;
                steps.iter().try_for_each(|(step, error)| write!(f, "\n  {step}: {error}"))
            }
            Self::Unknown(error) => write!(f, "whether the old state is back can't be read: {error}"),
        }
    }
}

impl CommitFailure {
    /// True if a step failed because another program changed rules at the same time, and the change can be tried again:
    /// what is lost would be removed again.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self.aftermath, Aftermath::RolledBack | Aftermath::Lost { .. })
            && matches!(&self.source, Error::Conflict { .. })
    }
}

pub(super) fn commit(
    backend: &mut dyn Backend,
    before: &Snapshot,
    steps: &[CommitStep],
    owner: &Ownership,
) -> Result<(), Box<CommitFailure>> {
    for (index, step) in steps.iter().enumerate() {
        if let Some(next) = steps.get(index + 1) {
            backend.prepare(Some(next));
        }
        if let Err(source) = backend.commit(step) {
            let aftermath = roll_back(backend, before, &steps[..=index], owner);
            return Err(Box::new(CommitFailure { step: step.to_string(), aftermath, source }));
        }
    }
    Ok(())
}

/// Takes back what has taken effect of the attempted steps, the last of which failed.
fn roll_back(
    backend: &mut dyn Backend,
    before: &Snapshot,
    attempted: &[CommitStep],
    owner: &Ownership,
) -> Aftermath {
    backend.prepare(None);
    let now = match backend.read() {
        Ok(now) => now,
        Err(error) => return Aftermath::Unknown(error),
    };
    let mut failed = Vec::new();
    for step in way_back(before, &now, attempted, owner) {
        if let Err(error) = backend.commit(&step) {
            failed.push((step, error));
        }
    }
    let cleaned = attempted.iter().filter_map(|step| match step {
        CommitStep::CleanUnlistable(tables) => Some(tables),
        _ => None,
    });
    let is_kept = |place: &(Family, Table)| {
        now.unlistable.get(place).is_some_and(|unlistable| unlistable.holds_any_of(owner))
    };
    let tables: Vec<(Family, Table)> = cleaned.flatten().copied().filter(|place| !is_kept(place)).collect();
    match (failed.is_empty(), tables.is_empty()) {
        (true, true) => Aftermath::RolledBack,
        (true, false) => Aftermath::Lost { tables },
        (false, _) => Aftermath::Left { steps: failed },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_tried_again_unless_steps_back_failed() {
        for (aftermath, is_tried_again) in [
            (Aftermath::RolledBack, true),
            (Aftermath::Lost { tables: vec![(Family::V4, Table::Filter)] }, true),
            (Aftermath::Left { steps: Vec::new() }, false),
        ] {
            let source = Error::Conflict { source: "too late".into() };
            let failure = CommitFailure { step: "a step".to_owned(), aftermath, source };
            assert_eq!(failure.is_conflict(), is_tried_again, "{failure}");
        }
    }
}
