//! A backend in memory: the kernel's part in tests of the life cycle, with faults at will.

use super::{Backend, Error, Snapshot, Step};

/// Tables and routes in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What it holds.
    pub snapshot: Snapshot,
    /// What was committed, in order.
    pub committed: Vec<Step>,
    /// Commits that still work before one fails; `None` if all do.
    pub fails_after: Option<usize>,
    /// How many of a failing step's tables take effect all the same.
    pub tables_before_fault: usize,
    /// Whether commits after the failing one fail too.
    pub stays_broken: bool,
}

impl Backend for Memory {
    fn read(&mut self) -> Result<Snapshot, Error> {
        Ok(self.snapshot.clone())
    }

    fn commit(&mut self, step: &Step) -> Result<(), Error> {
        let fails = self.fails_after == Some(0);
        self.fails_after = match self.fails_after {
            Some(0) if self.stays_broken => Some(0),
            Some(0) | None => None,
            Some(left) => Some(left - 1),
        };
        match step {
            Step::Tables { variant, family, changes } => {
                let effective =
                    if fails { self.tables_before_fault.min(changes.len()) } else { changes.len() };
                let mut state = self.snapshot.state(*variant, *family);
                for change in &changes[..effective] {
                    state = state.after(change);
                }
                match state.holds_rules() {
                    true => self.snapshot.tables.insert((*variant, *family), state),
                    false => self.snapshot.tables.remove(&(*variant, *family)),
                };
            }
            _ if fails => {}
            Step::Native { wanted, .. } => self.snapshot.native.clone_from(wanted),
            Step::Add(object) => {
                self.snapshot.routes.insert(*object);
            }
            Step::Remove(object) => match self.snapshot.duplicates.iter().position(|o| o == object) {
                Some(copy) => drop(self.snapshot.duplicates.remove(copy)),
                None => drop(self.snapshot.routes.remove(object)),
            },
        }
        if fails {
            return Err(Error::Injected(format!("{step} failed as asked")));
        }
        self.committed.push(step.clone());
        Ok(())
    }
}
