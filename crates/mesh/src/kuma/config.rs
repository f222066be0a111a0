//! The validated configuration that the policy turns into rules. Its source (flags, files, variables, annotations) is
//! forgotten.

use crate::facts::DnsCapture;
use rules::{Cidr, Family, InterfaceName, LogLevel, Port, PortRange, Protocol, Uid, UidRange};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    AllBut(Vec<PortRange>),
    /// At least one. Nothing is excluded then.
    Only(Vec<PortRange>),
}

/// One direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub is_captured: bool,
    pub listener: Port,
    pub ports: Ports,
    /// Addresses of the other end.
    pub excluded: Vec<Cidr>,
    /// True if the jump into the mesh is among the first rules of the base chain, and not after all others.
    pub is_inserted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPorts {
    pub protocol: Protocol,
    /// At least one.
    pub ports: Vec<PortRange>,
    pub uids: UidRange,
}

/// DNS queries over UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    pub capture: DnsCapture,
    pub port: Port,
    /// True if the proxy's queries and those of others are kept in separate zones.
    pub splits_zones: bool,
}

/// A network behind an interface, such as Docker's bridge, whose machines call through the mesh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VirtualNetwork {
    pub interface: InterfaceName,
    /// Calls within it are excluded.
    pub network: Cidr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// IPv4 is always captured.
    pub ipv6: bool,
    pub proxy_uid: Uid,
    pub inbound: Flow,
    pub outbound: Flow,
    pub excluded_owners: Vec<OwnerPorts>,
    pub dns: Dns,
    /// Sorted by interface, at most one of a family each.
    pub networks: Vec<VirtualNetwork>,
    /// True if packets that conntrack calls INVALID are dropped.
    pub drops_invalid: bool,
    /// `None` where the kernel does not log packets.
    pub log_level: Option<LogLevel>,
    /// True if every rule has a comment on its purpose.
    pub comments: bool,
    /// Families whose table `nat` holds Docker's chain for DNS.
    pub docker: Vec<Family>,
}

impl CaptureConfig {
    /// Where servers are listed, there has to be one of the family.
    pub fn captures_dns(&self, family: Family) -> bool {
        !self.dns.capture.servers(family).is_empty()
    }

    /// Docker rewrites queries to its own server, which it could not do for all that are captured if they were split.
    pub fn splits_zones(&self, family: Family) -> bool {
        let docker_has_all = self.docker.contains(&family) && self.dns.capture == DnsCapture::All;
        self.captures_dns(family) && self.dns.splits_zones && !docker_has_all
    }
}
