//! What to capture: the validated configuration that the policy turns into rules.
//!
//! Every value here is meaningful; there is nothing left to refuse. How it came about (flags, files, variables,
//! annotations) is forgotten.

use crate::facts::DnsCapture;
use rules::{Cidr, Family, InterfaceName, LogLevel, Port, PortRange, Protocol, Uid, UidRange};

/// Which ports of a direction are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    AllBut(Vec<PortRange>),
    /// These, at least one. Nothing is excluded then.
    Only(Vec<PortRange>),
}

/// What is captured of the connections of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Whether any of them is.
    pub is_captured: bool,
    /// The proxy's port that they go to.
    pub listener: Port,
    pub ports: Ports,
    /// Addresses of the other end whose traffic is excluded.
    pub excluded: Vec<Cidr>,
    /// Whether the jump into the mesh is among the first rules of the base chain, and not after all others.
    pub is_inserted: bool,
}

/// Destination ports that are excluded for calls of these users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPorts {
    pub protocol: Protocol,
    /// At least one.
    pub ports: Vec<PortRange>,
    pub uids: UidRange,
}

/// DNS queries captured, those over UDP, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    pub capture: DnsCapture,
    /// Where the proxy answers them.
    pub port: Port,
    /// Whether the proxy's queries and those of others are kept in separate zones.
    pub splits_zones: bool,
}

/// A network behind an interface, such as Docker's bridge, whose machines call through the mesh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VirtualNetwork {
    pub interface: InterfaceName,
    /// Its own addresses: calls within it are excluded.
    pub network: Cidr,
}

/// What to capture, for whom, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Whether IPv6 is captured too. IPv4 always is.
    pub ipv6: bool,
    /// The user whose traffic is the proxy's own.
    pub proxy_uid: Uid,
    pub inbound: Flow,
    pub outbound: Flow,
    /// What is excluded of some users' outbound traffic.
    pub excluded_owners: Vec<OwnerPorts>,
    pub dns: Dns,
    /// Sorted by interface, at most one of a family each.
    pub networks: Vec<VirtualNetwork>,
    /// Whether packets that conntrack calls INVALID are dropped.
    pub drops_invalid: bool,
    /// The level at which the kernel logs packets that meet the rules; `None` where it does not.
    pub log_level: Option<LogLevel>,
    /// Whether every rule has a comment on its purpose.
    pub comments: bool,
    /// Families whose table `nat` holds Docker's chain for DNS.
    pub docker: Vec<Family>,
}

impl CaptureConfig {
    /// Whether DNS queries of a family are captured: where servers are listed, there has to be one of the family.
    pub fn captures_dns(&self, family: Family) -> bool {
        !self.dns.capture.servers(family).is_empty()
    }

    /// Whether DNS of a family is kept in two zones. Docker rewrites queries to its own server, which it could not do for
    /// all that are captured if they were split.
    pub fn splits_zones(&self, family: Family) -> bool {
        let docker_has_all = self.docker.contains(&family) && self.dns.capture == DnsCapture::All;
        self.captures_dns(family) && self.dns.splits_zones && !docker_has_all
    }
}
