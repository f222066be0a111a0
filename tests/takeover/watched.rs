//! The kernel as the engine's backend, with a stop before each commit and an optional commit that never happens.

use rules::desired::StaleFlows;
use sidecar_init::backend::{Backend, CommitStep, Error, Kernel, Snapshot, Variant};

/// How commits end. They are counted from 0, including a revert's commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Done,
    Fails(usize),
    /// This and all later commits never happen, as for a run that is killed at this commit.
    Killed(usize),
}

pub(crate) struct Watched<'a> {
    pub(crate) kernel: Kernel,
    pub(crate) disposition: Disposition,
    pub(crate) commits: usize,
    pub(crate) stop: &'a mut dyn FnMut(&CommitStep),
}

/// Commits of a step: one for each iptables table, one for any other step.
pub(crate) fn commits(step: &CommitStep) -> Vec<CommitStep> {
    match step {
        CommitStep::Iptables { variant, family, changes } => {
            let alone = |change: &rules::TableChange| CommitStep::Iptables {
                variant: *variant,
                family: *family,
                changes: vec![change.clone()],
            };
            changes.iter().map(alone).collect()
        }
        other => vec![other.clone()],
    }
}

impl Backend for Watched<'_> {
    fn hold(&mut self) -> Result<(), Error> {
        self.kernel.hold()
    }

    fn read(&mut self) -> Result<Snapshot, Error> {
        self.kernel.read()
    }

    fn commit(&mut self, step: &CommitStep) -> Result<(), Error> {
        for commit in commits(step) {
            (self.stop)(&commit);
            let number = self.commits;
            self.commits += 1;
            let works = match self.disposition {
                Disposition::Done => true,
                Disposition::Fails(at) => number != at,
                Disposition::Killed(at) => number < at,
            };
            if !works {
                return Err(Error::NoProgram(format!("{commit} failed as asked")));
            }
            self.kernel.commit(&commit)?;
        }
        Ok(())
    }

    fn has_programs(&self, variant: Variant) -> bool {
        self.kernel.has_programs(variant)
    }

    fn forget_flows(&mut self, stale: &StaleFlows) -> Result<usize, Error> {
        self.kernel.forget_flows(stale)
    }
}
