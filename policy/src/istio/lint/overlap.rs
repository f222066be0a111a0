//! Items of Istio's lists that lie in other items.

use crate::Setting;
use crate::istio::{CaptureConfig, InboundPorts, OutboundCidrs};
use crate::lint::{Idle, addresses, covered, ports};
use rules::{Cidr, Family};

/// Looks for items that another item of the same option covers.
pub(super) fn check(config: &CaptureConfig) -> Vec<Idle> {
    let mut found = Vec::new();
    let networks = |setting, cidrs: &[Cidr]| {
        let of = |family| cidrs.iter().copied().filter(move |cidr| cidr.family() == family);
        let each = Family::BOTH.map(|family| covered(setting, &of(family).collect::<Vec<_>>(), addresses));
        each.into_iter().flatten()
    };
    found.extend(networks(Setting::ServiceExcludeCidr, &config.excluded_cidrs));
    if let OutboundCidrs::Only(cidrs) = &config.outbound_cidrs {
        found.extend(networks(Setting::ServiceCidr, cidrs));
    }
    found.extend(covered(Setting::OutboundPorts, &config.outbound_ports, ports));
    found.extend(covered(Setting::OutboundPortsExclude, &config.excluded_outbound_ports, ports));
    match &config.inbound_ports {
        InboundPorts::AllBut(excluded) => {
            found.extend(covered(Setting::InboundPortsExclude, excluded, ports));
        }
        InboundPorts::Only(included) => found.extend(covered(Setting::InboundPorts, included, ports)),
    }
    found
}
