//! IPv6 of a pod that is not captured though the pod has it: those connections bypass the proxy.

use super::comparison::declared;
use super::{Code, Finding};
use mesh::sources::{Dialect, Raw};
use mesh::{CapturePolicy, NoIpv6};
use std::net::{IpAddr, Ipv6Addr};

/// An IPv6 address of the network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub address: Ipv6Addr,
    pub interface: String,
}

/// Whether IPv6 of the pod is not captured while something else is: only then it matters whether the pod has any.
pub fn leaves_ipv6(config: &dyn CapturePolicy) -> bool {
    !config.ipv6() && !config.captures_nothing()
}

/// Reports that the pod has an address whose connections are not captured, by what is declared and by the interfaces.
pub fn uncaptured_ipv6(raw: &Raw, config: &dyn CapturePolicy, held: &[InterfaceAddress]) -> Option<Finding> {
    if !leaves_ipv6(config) {
        return None;
    }
    let is_ours = |address: Ipv6Addr| config.proxy().passthrough.is_some_and(|(_, own)| own == address);
    let counts = |address: Ipv6Addr| is_global(address) && !is_ours(address);
    let names_it = declared(raw).into_iter().find_map(|address| match address {
        IpAddr::V6(address) if counts(address) => Some(address),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    });
    let found = held.iter().find(|held| counts(held.address));
    let what = match (names_it, found) {
        (Some(address), _) => address.to_string(),
        (None, Some(InterfaceAddress { address, interface })) => format!("{address} on {interface}"),
        (None, None) => return None,
    };
    let NoIpv6 { why, setting, remedy } = config.without_ipv6(raw, names_it.is_some());
    let text = format!("{why}, though it has {what}");
    let finding = Finding::warning(Code::Ipv6Uncaptured, &setting.row().mention(), text, remedy);
    Some(finding.named_by(&Dialect::of(raw)))
}

/// Whether others can be called from it.
fn is_global(address: Ipv6Addr) -> bool {
    let is_local = address.is_loopback() || address.is_unicast_link_local();
    !(is_local || address.is_multicast() || address.is_unspecified())
}
