//! Recognition of linkerd's rules, and their predecessor.

use rules::Predecessor;
use rules::{Chains, Ownership, PolicyRules};

/// Prefix of the comments: upstream's words.
pub(super) const COMMENTS: &str = "proxy-init/";

/// Chains and comments are upstream's, which we succeed. The policy has no routing; 140 is not in
/// `/etc/iproute2/rt_protos`.
pub const OWNERSHIP: Ownership = Ownership {
    name: "linkerd",
    mesh: "linkerd",
    chains: Chains::Prefix("PROXY_INIT_"),
    conflicting_chains: &[],
    comment: "sidecar-init-linkerd",
    comment_prefix: Some(COMMENTS),
    table: "sidecar_init_linkerd",
    protocol: 140,
    policy_rules: PolicyRules::PLAIN,
    address: None,
    predecessor: Some(&PROXY_INIT),
    opt_out: "annotate the pod linkerd.io/inject=disabled",
    joined: &[],
};

/// Our rules are its rules, comments included, so that nothing else distinguishes them.
const PROXY_INIT: Predecessor =
    Predecessor { name: "proxy-init", patterns: &[], log_group: None, policy_rule: None, tables: &[] };
