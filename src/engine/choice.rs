//! Which backend takes the rules.

use crate::backend::{Backend, BackendName, Snapshot, Variant};
use rules::Ownership;

/// The caller's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// None: the variant of iptables that holds rules of the owner is kept; else the preferred backend is used, if the machine
    /// has it.
    InUse(Preference),
    Nftables,
    /// iptables, perhaps a certain variant of it.
    Iptables(Option<Variant>),
}

/// What to use where nothing of the owner's is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    Nftables,
    /// iptables, or nf_tables where no program of iptables is there: rather that than nothing.
    Iptables,
    /// iptables-legacy, whatever others use; where the machine lacks it, as [`Preference::Iptables`].
    Legacy,
}

impl Choice {
    /// The choices that flags and configurations name.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("nftables", Self::Nftables),
        ("iptables", Self::Iptables(None)),
        ("iptables-nft", Self::Iptables(Some(Variant::Nft))),
        ("iptables-legacy", Self::Iptables(Some(Variant::Legacy))),
    ];

    /// The choice of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
    }

    /// The same, with another preference where nothing was chosen.
    pub fn preferring(self, preference: Preference) -> Self {
        if let Self::InUse(_) = self { Self::InUse(preference) } else { self }
    }

    /// The backend that takes the owner's rules.
    pub fn backend(self, backend: &dyn Backend, snapshot: &Snapshot, owner: &Ownership) -> BackendName {
        match self {
            Self::Nftables => BackendName::Nftables,
            Self::Iptables(forced) => BackendName::Iptables(variant(backend, snapshot, owner, forced)),
            Self::InUse(preference) => match (snapshot.variants_of(owner).next(), preference) {
                (Some(variant), _) => BackendName::Iptables(variant),
                (None, Preference::Nftables) if !snapshot.lacks_nftables => BackendName::Nftables,
                (None, Preference::Nftables) => {
                    tracing::info!(target: "backend", "this kernel has no nf_tables; iptables-legacy is used");
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
                    tracing::info!(target: "backend", "no program of iptables is on PATH; nftables is used");
                    BackendName::Nftables
                }
                (None, Preference::Iptables | Preference::Legacy) => {
                    BackendName::Iptables(variant(backend, snapshot, owner, None))
                }
            },
        }
    }
}

/// The variant that is forced, else the one that holds rules of the owner's, else legacy if it is in use already or the
/// kernel has nothing else, else nft if its programs are there.
fn variant(
    backend: &dyn Backend,
    snapshot: &Snapshot,
    owner: &Ownership,
    forced: Option<Variant>,
) -> Variant {
    match forced.or_else(|| snapshot.variants_of(owner).next()) {
        Some(variant) => variant,
        None if snapshot.is_in_use(Variant::Legacy) || snapshot.lacks_nftables => Variant::Legacy,
        None if backend.has_programs(Variant::Nft) => Variant::Nft,
        None => Variant::Legacy,
    }
}
