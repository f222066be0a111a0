//! IPv6 of a pod that is not captured though the pod has it: those connections pass the proxy by.

use super::judge::declared;
use super::{Code, Finding};
use crate::Setting;
use crate::istio::defaults::PASSTHROUGH_V6;
use crate::mesh::Policy;
use crate::sources::Raw;
use std::net::{IpAddr, Ipv6Addr};

/// An IPv6 address of the network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub address: Ipv6Addr,
    /// The name of its interface.
    pub interface: String,
}

/// Whether the pod's IPv6 is left alone while something else is captured: only then is it worth looking whether it has any.
pub fn leaves_ipv6(config: &dyn Policy) -> bool {
    !config.ipv6() && !config.captures_nothing()
}

/// Why the pod's IPv6 is not captured, in a sentence.
pub fn why_not_ipv6(raw: &Raw) -> &'static str {
    match raw.is_on(Setting::DualStack) {
        false => "IPv6 is not captured in this pod: its first address is not IPv6",
        true => "IPv6 is not captured in this pod: none of its declared addresses is IPv6",
    }
}

/// Says that the pod has an address whose connections are not captured, by what is declared and by what interfaces hold.
pub fn uncaptured_ipv6(raw: &Raw, config: &dyn Policy, held: &[Held]) -> Option<Finding> {
    if !leaves_ipv6(config) {
        return None;
    }
    let names_it = declared(raw).into_iter().find_map(|address| match address {
        IpAddr::V6(address) if is_global(address) => Some(address),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    });
    let found = held.iter().find(|held| is_global(held.address));
    let what = match (names_it, found) {
        (Some(address), _) => address.to_string(),
        (None, Some(Held { address, interface })) => format!("{address} on {interface}"),
        (None, None) => return None,
    };
    let declares = raw.get(Setting::PodIps).is_some();
    let (option, remedy) = match (names_it, declares, raw.is_on(Setting::DualStack)) {
        (Some(_), ..) => (Setting::PodIps, "give --dual-stack"),
        (None, true, true) => (Setting::PodIps, "name it in --pod-ips"),
        (None, true, false) => (Setting::PodIps, "name it in --pod-ips, and give --dual-stack"),
        (None, false, false) => (Setting::DualStack, "give --dual-stack"),
        (None, false, true) => (Setting::DualStack, "run this again, as the address has just come"),
    };
    let text = format!("{}, though it has {what}", why_not_ipv6(raw));
    Some(Finding::warning(Code::Ipv6Uncaptured, &option.row().option(), text, remedy))
}

/// Whether others can be called from it: ours on `lo` serves the proxy alone.
fn is_global(address: Ipv6Addr) -> bool {
    let is_local = address.is_loopback() || address.is_unicast_link_local();
    !(is_local || address.is_multicast() || address.is_unspecified() || address == PASSTHROUGH_V6)
}
