//! IPv6 of a pod that is not captured though the pod has it: those connections bypass the proxy.

use super::{Code, Finding};
use crate::explain::declared_addresses;
use mesh::sources::{Dialect, Raw};
use mesh::{CapturePolicy, Ipv6Advice};
use rules::Family;
use std::net::{IpAddr, Ipv6Addr};

/// An IPv6 address of the network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub address: Ipv6Addr,
    pub interface: String,
}

/// Only where something else is captured does it matter whether the pod has IPv6.
pub fn leaves_ipv6_uncaptured(config: &dyn CapturePolicy) -> bool {
    !config.ipv6() && !config.captures_nothing()
}

/// The warning that the pod has a global IPv6 address while IPv6 is not captured; it names a declared address rather than one
/// of the interfaces.
pub fn uncaptured_ipv6(
    raw: &Raw,
    config: &dyn CapturePolicy,
    interface_addresses: &[InterfaceAddress],
) -> Option<Finding> {
    if !leaves_ipv6_uncaptured(config) {
        return None;
    }
    let passthrough = config.proxy().passthrough(Family::V6);
    let is_relevant = |address: Ipv6Addr| is_global(address) && passthrough != Some(address.into());
    let declared_address = declared_addresses(raw).into_iter().flatten().find_map(|address| match address {
        IpAddr::V6(address) if is_relevant(address) => Some(address),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    });
    let interface_address = interface_addresses.iter().find(|one| is_relevant(one.address));
    let what = match (declared_address, interface_address) {
        (Some(address), _) => address.to_string(),
        (None, Some(InterfaceAddress { address, interface })) => format!("{address} on {interface}"),
        (None, None) => return None,
    };
    let Ipv6Advice { why, setting, remedy } = config.without_ipv6(raw, declared_address.is_some());
    let text = format!("{why}, though it has {what}");
    let finding = Finding::warning(Code::Ipv6Uncaptured, &setting.row().mention(), text, remedy);
    Some(Dialect::of(raw).name_in(finding))
}

/// Other hosts can reach it: unique local addresses count, which they do not for the standard library.
fn is_global(address: Ipv6Addr) -> bool {
    let is_local = address.is_loopback() || address.is_unicast_link_local();
    !(is_local || address.is_multicast() || address.is_unspecified())
}
