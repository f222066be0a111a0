//! What to capture: the validated configuration that the policy turns into rules.
//!
//! Every value here is meaningful; there is nothing left to refuse. How it came about (flags, environment,
//! annotations) is forgotten.

pub use crate::facts::DnsCapture;
use rules::{Cidr, Family, Gid, InterfaceName, Mark, Port, PortRange, Uid};
use std::num::NonZeroU32;

/// How inbound connections reach the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interception {
    /// NAT to the proxy's port. The proxy sees its own address as the destination and asks the kernel
    /// (`SO_ORIGINAL_DST`) for the real one.
    Redirect,
    /// Hand-over to a transparent socket: source and destination stay as they were.
    Tproxy {
        /// Marks packets for the policy rule.
        mark: Mark,
        /// The routing table that delivers marked packets locally.
        table: RouteTable,
    },
    /// Nothing is captured.
    None,
}

/// A routing table that is ours to use: any but 0 and the kernel's own (253 `default`, 254 `main`,
/// 255 `local`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTable(NonZeroU32);

impl RouteTable {
    /// The table; `None` for the kernel's own.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(table) if number < 253 || number > 255 => Some(Self(table)),
            Some(_) | None => None,
        }
    }

    pub const fn number(self) -> u32 {
        self.0.get()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboundPorts {
    /// Every port but these. The tunnel port is never captured.
    AllBut(Vec<PortRange>),
    /// These ports; none if the list is empty.
    Only(Vec<PortRange>),
}

/// Which outbound destinations are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboundCidrs {
    /// Every address.
    All,
    /// These networks, in the order given.
    Only(Vec<Cidr>),
}

/// Whose outbound traffic is captured, by the group of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerGroups {
    /// That of all groups but these.
    AllBut(Vec<Gid>),
    /// That of these groups; none if the list is empty.
    Only(Vec<Gid>),
}

/// What to capture, for whom, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Whether IPv6 is captured too. IPv4 always is.
    pub ipv6: bool,
    /// How inbound connections reach the proxy.
    pub interception: Interception,
    /// The proxy's ports for outbound connections.
    pub outbound_listener: PortRange,
    /// The proxy's ports for inbound connections; a single one with TPROXY.
    pub inbound_listener: PortRange,
    /// The HBONE tunnel's port, never captured.
    pub tunnel_port: Port,
    /// Users whose traffic is the proxy's own.
    pub proxy_uids: Vec<Uid>,
    /// Groups whose traffic is the proxy's own.
    pub proxy_gids: Vec<Gid>,
    pub inbound_ports: InboundPorts,
    /// Interfaces excluded in both directions.
    pub excluded_interfaces: Vec<InterfaceName>,
    /// Interfaces of virtual machines, whose inbound traffic counts as outbound.
    pub vm_interfaces: Vec<InterfaceName>,
    /// Outbound destinations captured.
    pub outbound_cidrs: OutboundCidrs,
    /// Excluded outbound destinations.
    pub excluded_cidrs: Vec<Cidr>,
    /// Outbound ports captured whatever the destination.
    pub outbound_ports: Vec<PortRange>,
    /// Excluded outbound ports, TCP and UDP.
    pub excluded_outbound_ports: Vec<PortRange>,
    /// Whose outbound traffic is captured.
    pub owner_groups: OwnerGroups,
    /// The IPv4 network that counts as loopback; IPv6 always has `::1/128`.
    pub loopback_v4: Cidr,
    /// DNS queries captured.
    pub dns: DnsCapture,
    /// Whether packets that conntrack calls INVALID are dropped.
    pub drop_invalid: bool,
    /// Whether each rule reports its hits to NFLOG.
    pub log_hits: bool,
}

impl CaptureConfig {
    /// The families whose traffic is captured.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::captured(self.ipv6)
    }

    /// Whether any inbound port is captured.
    pub fn captures_inbound(&self) -> bool {
        self.inbound_ports != InboundPorts::Only(Vec::new())
    }
}
