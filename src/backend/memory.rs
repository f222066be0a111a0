//! A backend in memory: the kernel's part in tests of the life cycle, with faults at will.

use super::{Backend, Error, Snapshot, Step, Variant};
use rules::{desired::StaleFlows, routing::Object};

/// Tables and routes in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub snapshot: Snapshot,
    /// What was committed, in order.
    pub committed: Vec<Step>,
    /// Commits that still work before one fails; `None` if all do.
    pub fails_after: Option<usize>,
    /// How many of a failing step's tables take effect all the same.
    pub tables_before_fault: usize,
    /// Whether commits after the failing one fail too.
    pub stays_broken: bool,
    /// How many commits still fail because another program has changed the rules meanwhile.
    pub conflicts: u32,
    /// The variants of iptables whose programs are there.
    pub programs: Vec<Variant>,
    /// How many flows conntrack knows that the rules would pass by.
    pub stale_flows: usize,
}

impl Backend for Memory {
    fn hold(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn read(&mut self) -> Result<Snapshot, Error> {
        Ok(self.snapshot.clone())
    }

    fn commit(&mut self, step: &Step) -> Result<(), Error> {
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
        let mut effective = if fails { self.tables_before_fault } else { usize::MAX };
        for (variant, family, changes) in step.changes() {
            let state = self.snapshot.iptables(variant, family);
            let done = &changes[..effective.min(changes.len())];
            effective -= done.len();
            self.snapshot.set_iptables(
                variant,
                family,
                done.iter().fold(state, |state, change| state.after(change)),
            );
        }
        match step {
            Step::Iptables { .. } | Step::Clear(_) => {}
            _ if fails => {}
            Step::Nftables { live, wanted } => self.snapshot.exchange(live.as_ref(), wanted.clone()),
            Step::Add(object) => {
                self.snapshot.routes.insert(*object);
            }
            Step::Adopt(object) => {
                if !matches!(object, Object::Rule { .. }) {
                    self.snapshot.routes_of_others.retain(|standing| standing.object != *object);
                }
                self.snapshot.routes.insert(*object);
            }
            Step::RemoveInherited(standing) => drop(self.snapshot.routes_of_others.remove(standing)),
            Step::GiveBack(standing) => self.snapshot.give_back(*standing),
            Step::RemoveTables(names) => self.snapshot.tables_of_others.retain(|name| !names.contains(name)),
            Step::RemoveHidden(tables) => self.snapshot.hidden.retain(|place, _| !tables.contains(place)),
            Step::Remove(object) => match self.snapshot.duplicates.iter().position(|o| o == object) {
                Some(copy) => drop(self.snapshot.duplicates.remove(copy)),
                None => drop(self.snapshot.routes.remove(object)),
            },
            // There are no packets here.
            Step::WaitForInFlight => {}
        }
        if fails {
            return Err(Error::Injected(format!("{step} failed as asked")));
        }
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
