//! One network namespace, opened on behalf of an owner: what every front end does to it.

use super::{
    apply::{self, ApplyPlan, EngineError, OnDrift, Options, Summary},
    choice::Choice,
    compare::LiveComparison,
    foreign::preceding_rules,
};
use crate::backend::{self, Backend, Kernel, iptables::Lock};
use rules::{Ownership, desired::Desired};

/// A namespace, its owner and how changes are made.
pub struct Session {
    kernel: Kernel,
    options: Options,
}

impl Session {
    /// Opens the namespace that this thread is in, as an owner sees it. `known_owners` are all that may capture there.
    pub fn open(
        lock: Lock,
        owner: Ownership,
        choice: Choice,
        known_owners: &'static [Ownership],
    ) -> Result<Self, backend::Error> {
        Ok(Self { kernel: Kernel::open(lock, owner)?, options: Options::replacing(choice, known_owners) })
    }

    /// The same, with other options for [`Session::apply`].
    pub fn with(mut self, on_drift: OnDrift, force: bool) -> Self {
        self.options = Options { on_drift, force, ..self.options };
        self
    }

    /// Selects another backend for what follows.
    pub fn choose(&mut self, choice: Choice) {
        self.options.choice = choice;
    }

    /// Holds the namespace's lock until the session is dropped, for changes that have to happen together.
    ///
    /// # Errors
    /// When another program has the lock for too long.
    pub fn hold(&mut self) -> Result<(), backend::Error> {
        self.kernel.hold()
    }

    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// Brings the namespace to the desired state; see [`apply::apply`].
    pub fn apply(&mut self, desired: &Desired) -> Result<Summary, EngineError> {
        apply::apply(&mut self.kernel, desired, &self.options)
    }

    /// Compares the namespace with the desired state; see [`apply::check`].
    pub fn check(&mut self, desired: &Desired) -> Result<LiveComparison, EngineError> {
        apply::check(&mut self.kernel, desired, self.options.choice)
    }

    /// Removes everything of the owner's; see [`apply::clean`].
    pub fn clean(&mut self) -> Result<Summary, EngineError> {
        let owner = self.kernel.owner();
        apply::clean(&mut self.kernel, owner, self.options.known_owners)
    }

    /// Plans that; see [`apply::plan_clean`].
    pub fn plan_clean(&mut self) -> Result<ApplyPlan, EngineError> {
        let owner = self.kernel.owner();
        apply::plan_clean(&mut self.kernel, owner, self.options.known_owners)
    }

    /// Rules of other programs that send packets elsewhere before the owner's rules see them. No change can repair that.
    pub fn preceding_rules(&mut self) -> Result<Vec<String>, backend::Error> {
        let owner = self.kernel.owner().alone().union(self.options.known_owners);
        Ok(preceding_rules(&mut self.kernel, &owner)?.iter().map(ToString::to_string).collect())
    }

    /// The same after a change, which a failure to look does not undo: it is reported like them.
    pub fn preceding_rules_if_known(&mut self) -> Vec<String> {
        self.preceding_rules().unwrap_or_else(|error| {
            vec![format!(
                "could not check for rules of other programs that come before sidecar-init's: {error}"
            )]
        })
    }
}
