//! Recognition of the rules of Istio's sidecar, and their predecessor.

use super::{defaults, provenance};
use rules::{Chains, Ownership, PolicyRules};

/// The chains' prefix is upstream's, which we succeed; 137 is not in `/etc/iproute2/rt_protos`.
pub const OWNERSHIP: Ownership = Ownership {
    name: "Istio's sidecar",
    mesh: "istio",
    chains: Chains::Prefix(PREFIX),
    conflicting_chains: &provenance::CONFLICTING,
    comment: "sidecar-init",
    comment_prefix: None,
    table: "sidecar_init",
    protocol: 137,
    policy_rules: PolicyRules::PLAIN,
    address: Some(defaults::PASSTHROUGH_V6),
    predecessor: Some(&provenance::ISTIO_IPTABLES),
    opt_out: "label the pod sidecar.istio.io/inject=false",
    joined: &[],
};

/// Prefix of its chains in the tables of iptables.
pub const PREFIX: &str = "ISTIO_";

pub const PREDECESSOR: &str = provenance::ISTIO_IPTABLES.name;
