//! By what the rules of Istio's sidecar are known again, and whose place they take.

use super::{defaults, provenance};
use rules::{Chains, Ownership, PolicyRules};

/// By what this policy's rules and routing are known again. The chains' prefix is upstream's, which we succeed; 137 is
/// not in `/etc/iproute2/rt_protos`.
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

/// What the names of its chains in the tables of iptables begin with.
pub const PREFIX: &str = "ISTIO_";

/// The name of the program whose work we take over.
pub const PREDECESSOR: &str = provenance::ISTIO_IPTABLES.name;
