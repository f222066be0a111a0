//! An in-memory backend for life cycle tests, with faults on demand.

use rules::desired::StaleFlows;
use sidecar_init::backend::{Backend, CommitStep, Error, Snapshot, Variant};

#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) snapshot: Snapshot,
    pub(crate) committed: Vec<CommitStep>,
    /// Commits that succeed before one fails; `None` if all succeed.
    pub(crate) fails_after: Option<usize>,
    /// Tables of a failing step that take effect nonetheless.
    pub(crate) tables_before_fault: usize,
    pub(crate) stays_broken: bool,
    /// Commits that fail because of a concurrent change by another program.
    pub(crate) conflicts: u32,
    pub(crate) programs: Vec<Variant>,
    pub(crate) stale_flows: usize,
}

impl Backend for Memory {
    fn hold(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn read(&mut self) -> Result<Snapshot, Error> {
        Ok(self.snapshot.clone())
    }

    fn commit(&mut self, step: &CommitStep) -> Result<(), Error> {
        if self.conflicts > 0 {
            self.conflicts -= 1;
            return Err(Error::Conflict { source: format!("{step} came too late, as asked").into() });
        }
        let fails = self.fails_after == Some(0);
        self.fails_after = match self.fails_after {
            Some(0) if self.stays_broken => Some(0),
            Some(0) | None => None,
            Some(left) => Some(left - 1),
        };
        if fails {
            let mut effective = self.tables_before_fault;
            for (variant, family, changes) in step.changes() {
                let changes = changes[..effective.min(changes.len())].to_vec();
                effective -= changes.len();
                self.snapshot.apply(&CommitStep::Iptables { variant, family, changes });
            }
            return Err(Error::NoProgram(format!("{step} failed as asked")));
        }
        self.snapshot.apply(step);
        self.committed.push(step.clone());
        Ok(())
    }

    fn has_programs(&self, variant: Variant) -> bool {
        self.programs.contains(&variant)
    }

    fn forget_flows(&mut self, _: &StaleFlows) -> Result<usize, Error> {
        Ok(std::mem::take(&mut self.stale_flows))
    }
}
