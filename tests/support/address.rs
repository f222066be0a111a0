//! Places that a pod can connect to, and their addresses in both families.
//!
//! ```text
//!  VM ── vm0 ┐         ┌ eth0 ── eth0 ┐
//!            ├── pod ──┤              ├── outside (Service, Elsewhere and Resolver are addresses on its lo)
//!                      └ net1 ── net1 ┘
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::setting::Family;

/// CIDRs around `Place::Service`, of both families.
pub(crate) const SERVICE_CIDRS: &str = "10.99.0.0/16,fd99::/16";
/// `Place::Resolver` in the format of `--dns-servers`, of both families.
pub(crate) const RESOLVERS: &str = "10.88.0.10,fd88::10";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Pod,
    PodSecondNic,
    Loopback,
    /// 127.0.0.6 or ::6 of the pod, the source of the proxy's deliveries.
    Six,
    Neighbour,
    SecondNeighbour,
    /// A host that tests list in CIDRs; reached over eth0.
    Service,
    /// A host that no test lists; reached over eth0.
    Elsewhere,
    Resolver,
    VmGateway,
    Machine,
    /// Source of the host's own calls, with ambient; reached over eth0.
    Probe,
}

impl Place {
    pub(crate) fn at(self, family: Family, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip(family), port)
    }

    pub(crate) fn ip(self, family: Family) -> IpAddr {
        let [v4, v6] = self.addresses();
        let text = match family {
            Family::V4 => v4,
            Family::V6 => v6,
        };
        text.parse().expect("the map holds addresses")
    }

    pub(crate) fn is_in_pod(self) -> bool {
        matches!(self, Place::Pod | Place::PodSecondNic | Place::Loopback | Place::Six | Place::VmGateway)
    }

    fn addresses(self) -> [&'static str; 2] {
        match self {
            Place::Pod => ["10.77.0.2", "fd77::2"],
            Place::PodSecondNic => ["10.78.0.2", "fd78::2"],
            Place::Loopback => ["127.0.0.1", "::1"],
            Place::Six => ["127.0.0.6", "::6"],
            Place::Neighbour => ["10.77.0.1", "fd77::1"],
            Place::SecondNeighbour => ["10.78.0.1", "fd78::1"],
            Place::Service => ["10.99.0.1", "fd99::1"],
            Place::Elsewhere => ["10.98.0.1", "fd98::1"],
            Place::Resolver => ["10.88.0.10", "fd88::10"],
            Place::VmGateway => ["10.79.0.1", "fd79::1"],
            Place::Machine => ["10.79.0.2", "fd79::2"],
            Place::Probe => ["169.254.7.127", "fd16:9254:7127:1337:ffff:ffff:ffff:ffff"],
        }
    }
}

pub(crate) fn any(family: Family, port: u16) -> SocketAddr {
    match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED, port).into(),
        Family::V6 => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}
