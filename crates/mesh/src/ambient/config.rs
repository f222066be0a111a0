//! What to capture in a pod of the ambient mesh: nothing in it can be wrong.

use rules::{Family, InterfaceName};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What to capture. Ports and marks are ztunnel's and can't be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Whether connections that arrive are excluded, as needed by a gateway of another vendor that takes them itself.
    pub ingress: bool,
    /// Whether DNS queries go to ztunnel.
    pub dns: bool,
    /// Interfaces of guests behind the pod, such as virtual machines: their TCP counts as outbound.
    pub interfaces: Vec<InterfaceName>,
    /// Whether IPv6 is captured too. IPv4 always is.
    pub ipv6: bool,
    /// The address from which the host's own calls come, such as the kubelet's probes.
    pub probe_v4: Ipv4Addr,
    /// The same over IPv6.
    pub probe_v6: Ipv6Addr,
}

impl CaptureConfig {
    /// The address from which the host's own calls of a family come.
    pub fn probe_address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.probe_v4.into(),
            Family::V6 => self.probe_v6.into(),
        }
    }
}
