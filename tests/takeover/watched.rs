//! The kernel as the engine's backend, with a stop before each of its commits, and with one that never comes about.

use rules::desired::StaleFlows;
use sidecar_init::backend::{Backend, CommitStep, Error, Kernel, Snapshot, Variant};

/// Commits are counted from 0, those on the way back included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// All work.
    Done,
    /// This one fails.
    Fails(usize),
    /// This one and all behind it never happen: what a run leaves that is killed as it makes this commit.
    Killed(usize),
}

pub(crate) struct Watched<'a> {
    pub(crate) kernel: Kernel,
    pub(crate) disposition: Disposition,
    /// Commits that have been asked for.
    pub(crate) commits: usize,
    /// Called before each.
    pub(crate) stop: &'a mut dyn FnMut(&CommitStep),
}

/// The commits of which a step consists: a table of iptables is one, and so is everything else.
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
