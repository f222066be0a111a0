//! One network namespace, opened for an owner: the operations of every front end, and the choice of the backend.

use super::apply::{self, ApplyPlan, EngineResult, Options, Summary};
use super::{compare::LiveComparison, provenance::preceding_rules};
use crate::backend::iptables::Lock;
use crate::backend::{self, Backend, BackendName, Kernel, Snapshot, Variant};
use rules::{Ownership, desired::Desired};

pub struct Session {
    pub kernel: Kernel,
    pub options: Options,
}

impl Session {
    /// Opens this thread's namespace for an owner. `known_owners` are all owners that may capture there.
    pub fn open(
        lock: Lock,
        owner: Ownership,
        choice: Choice,
        known_owners: &'static [Ownership],
    ) -> Result<Self, backend::Error> {
        Ok(Self { kernel: Kernel::open(lock, owner)?, options: Options::replacing(choice, known_owners) })
    }

    pub fn apply(&mut self, desired: &Desired) -> EngineResult<Summary> {
        apply::apply(&mut self.kernel, desired, &self.options)
    }

    pub fn check(&mut self, desired: &Desired) -> EngineResult<LiveComparison> {
        apply::check(&mut self.kernel, desired, self.options.choice)
    }

    pub fn clean(&mut self) -> EngineResult<Summary> {
        let owner = self.kernel.owner();
        apply::clean(&mut self.kernel, owner, self.options.known_owners)
    }

    pub fn plan_clean(&mut self) -> EngineResult<ApplyPlan> {
        let owner = self.kernel.owner();
        apply::plan_clean(&mut self.kernel, owner, self.options.known_owners)
    }

    /// Other programs' rules that redirect packets before the owner's rules; the engine can't prevent that.
    pub fn preceding_rules(&mut self) -> Result<Vec<String>, backend::Error> {
        let owner = self.kernel.owner().alone().union(self.options.known_owners);
        preceding_rules(&mut self.kernel, &owner)
    }

    /// Like [`Session::preceding_rules`], after a change: a failure to read is listed, not returned.
    pub fn preceding_rules_if_known(&mut self) -> Vec<String> {
        self.preceding_rules().unwrap_or_else(|error| {
            vec![format!("cannot check for other programs' rules before sidecar-init's: {error}")]
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The iptables variant that holds the owner's rules; else the preferred backend, if the machine has it.
    InUse(Preference),
    Nftables,
    Iptables(Option<Variant>),
}

/// The backend to use if the owner has no rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    Nftables,
    /// iptables, or nf_tables on a machine without iptables.
    Iptables,
    /// iptables-legacy, whatever other programs use; otherwise like [`Preference::Iptables`].
    Legacy,
}

impl Choice {
    pub const NAMED: [(&'static str, Self); 4] = [
        ("nftables", Self::Nftables),
        ("iptables", Self::Iptables(None)),
        ("iptables-nft", Self::Iptables(Some(Variant::Nft))),
        ("iptables-legacy", Self::Iptables(Some(Variant::Legacy))),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
    }

    pub fn preferring(self, preference: Preference) -> Self {
        if let Self::InUse(_) = self { Self::InUse(preference) } else { self }
    }

    pub fn backend(self, backend: &dyn Backend, snapshot: &Snapshot, owner: &Ownership) -> BackendName {
        match self {
            Self::Nftables => BackendName::Nftables,
            Self::Iptables(forced) => BackendName::Iptables(variant(backend, snapshot, owner, forced)),
            Self::InUse(preference) => match (snapshot.variants_of(owner).next(), preference) {
                (Some(variant), _) => BackendName::Iptables(variant),
                (None, Preference::Nftables) if !snapshot.lacks_nftables => BackendName::Nftables,
                (None, Preference::Nftables) => {
                    tracing::info!(target: "backend", "this kernel has no nf_tables; using iptables-legacy");
                    BackendName::Iptables(Variant::Legacy)
                }
                (None, Preference::Legacy)
                    if backend.has_programs(Variant::Legacy) && backend.takes_legacy() =>
                {
                    BackendName::Iptables(Variant::Legacy)
                }
                (None, Preference::Iptables | Preference::Legacy)
                    if !Variant::ALL.iter().any(|v| backend.has_programs(*v)) =>
                {
                    tracing::info!(target: "backend", "no iptables program is on PATH; using nftables");
                    BackendName::Nftables
                }
                (None, Preference::Iptables | Preference::Legacy) => {
                    BackendName::Iptables(variant(backend, snapshot, owner, None))
                }
            },
        }
    }
}

/// The forced variant, or the one with the owner's rules; else legacy if in use or the only one, else nft if it has programs.
fn variant(backend: &dyn Backend, live: &Snapshot, owner: &Ownership, forced: Option<Variant>) -> Variant {
    match forced.or_else(|| live.variants_of(owner).next()) {
        Some(variant) => variant,
        None if live.is_in_use(Variant::Legacy) || live.lacks_nftables => Variant::Legacy,
        None if backend.has_programs(Variant::Nft) => Variant::Nft,
        None => Variant::Legacy,
    }
}
