//! UDP flows that were there before the rules.
//!
//! A resolver that keeps its socket open, as most do, would go on past rules that came later. Redirected flows are left
//! alone: their entry is what leads answers back.

use crate::sys::conntrack::Conntrack;
use rules::desired::StaleFlows;
use std::io;

/// Makes conntrack forget flows that the rules should capture and that pass them by; says how many.
pub(super) fn forget(stale: &StaleFlows) -> io::Result<usize> {
    let mut conntrack = Conntrack::open()?;
    let mut forgotten = 0;
    for &family in &stale.families {
        for flow in conntrack.udp_flows(family)? {
            if !flow.nated && stale.includes(flow.destination, flow.port, flow.zone) {
                conntrack.forget(&flow)?;
                forgotten += 1;
            }
        }
    }
    Ok(forgotten)
}
