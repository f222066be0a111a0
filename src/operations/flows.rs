//! UDP flows that were there before the rules.
//!
//! NAT looks at the first packet of a flow. A resolver that keeps its socket open, as most do, would go on
//! past rules that came later; conntrack has to forget such flows. Redirected flows are left alone: their
//! entry is what leads answers back.

use crate::sys::conntrack::{Conntrack, Flow};
use rules::Family;
use std::{collections::BTreeSet, io, net::IpAddr};

/// Which flows are captured from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    /// Their destination port.
    pub port: u16,
    /// Their destinations; `None` for all.
    pub destinations: Option<BTreeSet<IpAddr>>,
    /// The zone of flows that are left alone: the agent's own.
    pub except_zone: u16,
    /// Whether IPv6 is captured.
    pub ipv6: bool,
}

impl StaleFlows {
    fn includes(&self, flow: &Flow) -> bool {
        let captured = |to| self.destinations.as_ref().is_none_or(|destinations| destinations.contains(to));
        !flow.nated && flow.port == self.port && flow.zone != self.except_zone && captured(&flow.destination)
    }
}

/// Makes conntrack forget flows that the rules should capture and that pass them by; says how many.
///
/// # Errors
/// When conntrack can't be read or refuses.
pub fn forget_stale_flows(stale: &StaleFlows) -> io::Result<usize> {
    let mut conntrack = Conntrack::open()?;
    let mut forgotten = 0;
    for family in [Some(Family::V4), stale.ipv6.then_some(Family::V6)].into_iter().flatten() {
        for flow in conntrack.udp_flows(family)?.iter().filter(|flow| stale.includes(flow)) {
            conntrack.forget(flow)?;
            forgotten += 1;
        }
    }
    Ok(forgotten)
}
