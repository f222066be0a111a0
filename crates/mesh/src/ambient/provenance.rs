//! The predecessor: Istio's node agent, which sets the same rules from outside of the pod.
//!
//! All its rules are in chains of names that are ours too, so no form of a rule has to be known. Its policy rule and its
//! route carry no separate protocol; they are known by mark, mask, preference and table.

use super::defaults::{CONNECTION_MARK, TABLE};
use rules::Predecessor;

/// The agent, with iptables (`cni/pkg/iptables`) and in its native mode (`cni/pkg/nftables`).
pub(super) const ISTIO_CNI: Predecessor = Predecessor {
    name: "Istio's CNI agent",
    patterns: &[],
    log_group: None,
    policy_rule: Some((CONNECTION_MARK, TABLE)),
    tables: &["istio-ambient-nat", "istio-ambient-mangle", "istio-ambient-raw"],
};
