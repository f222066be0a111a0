//! Where rules go, and what a configuration wants there.

use super::run::{BackendChoice, Run, VariantChoice};
use policy::istio::{self, CaptureConfig};
use rules::{Family, State, routing::Object};
use sidecar_init::{
    backend::{Kernel, Snapshot, Variant, nftables::bytecode},
    operations::{self, Wanted},
    sys::namespace,
};

/// The interface of the kernel that takes the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// nf_tables, over netlink.
    Native,
    /// The programs of a variant of iptables.
    Iptables(Variant),
}

/// What to use where nobody says and nothing of ours is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usual {
    /// The commands of our own.
    Native,
    /// The drop-in.
    Iptables,
}

/// Chooses: what the flags say, else what holds rules of ours, else what is usual. Without any program of
/// iptables the drop-in works natively, rather than not at all.
pub(super) fn choose(run: &Run, usual: Usual, snapshot: &Snapshot, kernel: &Kernel) -> Target {
    let variant = |forced| {
        Target::Iptables(operations::choose(snapshot, &istio::OWNERSHIP, forced, || {
            kernel.programs(Variant::Nft).is_some()
        }))
    };
    match run.backend {
        BackendChoice::Nftables => Target::Native,
        BackendChoice::Iptables(forced) => variant(forced.map(|choice| match choice {
            VariantChoice::Legacy => Variant::Legacy,
            VariantChoice::Nft => Variant::Nft,
        })),
        BackendChoice::Any if snapshot.variants_in_use(&istio::OWNERSHIP).next().is_some() => variant(None),
        BackendChoice::Any if usual == Usual::Native => Target::Native,
        BackendChoice::Any if Variant::ALL.iter().all(|variant| kernel.programs(*variant).is_none()) => {
            tracing::info!(target: "iptables", "no program of iptables is on PATH; nf_tables is used natively");
            Target::Native
        }
        BackendChoice::Any => variant(None),
    }
}

impl Target {
    /// The variant of iptables whose rules are compared; with native rules there are none to compare.
    pub(super) fn variant(self) -> Variant {
        match self {
            Self::Native => Variant::Nft,
            Self::Iptables(variant) => variant,
        }
    }

    /// Its name, for people and programs.
    pub(super) fn name(self) -> String {
        match self {
            Self::Native => "native".to_owned(),
            Self::Iptables(variant) => variant.to_string(),
        }
    }
}

/// What a configuration wants of the namespace, as iptables rules or as our own table of nf_tables.
pub(super) fn wanted(config: &CaptureConfig, target: Target) -> Wanted {
    let native = target == Target::Native;
    let rules = |family| State::of(istio::rules(config, family).rules());
    let routing = istio::routing(config);
    let mut routes: Vec<Object> = Vec::new();
    if let Some(istio::PolicyRoute { mark, table }) = routing.transparent {
        let families = [Some(Family::V4), routing.transparent_ipv6.then_some(Family::V6)];
        for family in families.into_iter().flatten() {
            let (mark, table) = (mark.value, table.number());
            routes.push(Object::Rule { family, mark, table });
            routes.push(Object::Route { family, table });
        }
    }
    routes.extend(routing.passthrough_ipv6.then_some(Object::Address(istio::OWNERSHIP.address)));
    if config.ipv6 && namespace::lacks_ipv6("lo") {
        // Where no packet of IPv6 can pass, its rules do no harm and its routes are not missed.
        tracing::warn!(target: "config", "IPv6 is disabled on lo: rules are set for it, addresses and routes are not");
        routes.retain(|object| object.family() == Family::V4);
    }
    Wanted {
        owner: istio::OWNERSHIP,
        tables: config.families().filter(|_| !native).map(|family| (family, rules(family))).collect(),
        routes: routes.into_iter().collect(),
        native: native.then(|| istio::nft_table(config)).flatten().as_ref().map(bytecode::Table::of),
    }
}
