//! Validated configuration of capture in a pod of the ambient mesh.

use rules::{Family, InterfaceName};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports and marks are ztunnel's and can't be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// True if connections that arrive are excluded, as needed by a gateway of another vendor that takes them itself.
    pub ingress: bool,
    /// True if DNS queries go to ztunnel.
    pub dns: bool,
    /// Interfaces of guests behind the pod, such as virtual machines: their TCP counts as outbound.
    pub interfaces: Vec<InterfaceName>,
    /// IPv4 is always captured.
    pub ipv6: bool,
    /// The address from which the host's own calls come, such as the kubelet's probes.
    pub probe_v4: Ipv4Addr,
    pub probe_v6: Ipv6Addr,
}

impl CaptureConfig {
    pub fn probe_address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.probe_v4.into(),
            Family::V6 => self.probe_v6.into(),
        }
    }
}
