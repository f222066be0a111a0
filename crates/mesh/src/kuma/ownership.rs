//! Recognition of Kuma's rules: chains, comments and routing.

use super::{defaults, provenance};
use rules::{Chains, Ownership, PolicyRules};

/// Prefix of the comments: upstream's words, by which it knows its rules again.
pub(super) const COMMENTS: &str = "kuma/mesh/transparent/proxy/";

/// Chains and comments are upstream's, which we succeed; 139 is not in `/etc/iproute2/rt_protos`.
pub const OWNERSHIP: Ownership = Ownership {
    name: "Kuma",
    mesh: "kuma",
    chains: Chains::Prefix("KUMA_MESH_"),
    conflicting_chains: &[],
    comment: "kuma/mesh/transparent/proxy/rule",
    comment_prefix: Some(COMMENTS),
    table: "sidecar_init_kuma",
    protocol: 139,
    policy_rules: PolicyRules::PLAIN,
    address: Some(defaults::PASSTHROUGH_V6),
    predecessor: Some(&provenance::KUMACTL),
    opt_out: "label the pod kuma.io/sidecar-injection=disabled",
    joined: &[],
};
