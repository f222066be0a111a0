//! The validated configuration that the policy turns into rules. Its source (flags, environment, annotations) is forgotten.

pub use crate::facts::DnsCapture;
use rules::{Cidr, Family, Gid, InterfaceName, Mark, Port, PortRange, Uid};
use std::num::NonZeroU32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interception {
    /// NAT to the proxy's port. The proxy sees its own address as the destination and asks the kernel
    /// (`SO_ORIGINAL_DST`) for the real one.
    Redirect,
    /// Hand-over to a transparent socket: source and destination stay as they were.
    Tproxy {
        mark: Mark,
        /// The routing table that delivers marked packets locally.
        table: RouteTable,
    },
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
    /// The tunnel port is never captured.
    AllBut(Vec<PortRange>),
    /// No port if the list is empty.
    Only(Vec<PortRange>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboundCidrs {
    All,
    /// In the order given.
    Only(Vec<Cidr>),
}

/// The groups of processes whose outbound traffic is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerGroups {
    AllBut(Vec<Gid>),
    /// No group if the list is empty.
    Only(Vec<Gid>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// IPv4 is always captured.
    pub ipv6: bool,
    pub interception: Interception,
    pub outbound_listener: PortRange,
    /// A single one with TPROXY.
    pub inbound_listener: PortRange,
    /// Never captured.
    pub tunnel_port: Port,
    pub proxy_uids: Vec<Uid>,
    pub proxy_gids: Vec<Gid>,
    pub inbound_ports: InboundPorts,
    /// In both directions.
    pub excluded_interfaces: Vec<InterfaceName>,
    /// Their inbound traffic counts as outbound.
    pub vm_interfaces: Vec<InterfaceName>,
    pub outbound_cidrs: OutboundCidrs,
    pub excluded_cidrs: Vec<Cidr>,
    /// Captured whatever the destination.
    pub outbound_ports: Vec<PortRange>,
    /// TCP and UDP.
    pub excluded_outbound_ports: Vec<PortRange>,
    pub owner_groups: OwnerGroups,
    /// IPv6 always has `::1/128`.
    pub loopback_v4: Cidr,
    pub dns: DnsCapture,
    /// True if packets that conntrack calls INVALID are dropped.
    pub drop_invalid: bool,
    /// True if each rule reports its hits to NFLOG.
    pub log_hits: bool,
}

impl CaptureConfig {
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::captured(self.ipv6)
    }

    pub fn captures_inbound(&self) -> bool {
        self.inbound_ports != InboundPorts::Only(Vec::new())
    }
}
