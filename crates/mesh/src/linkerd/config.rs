//! What to capture: the validated configuration that the policy turns into rules.

use rules::{Cidr, Gid, Port, PortRange, Uid};

/// Inbound connections captured, of those that no list excludes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkerdInboundPorts {
    All,
    /// At least one, in the order given.
    Only(Vec<Port>),
}

/// The comment on its rule has it as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    pub(super) network: Cidr,
    pub(super) written: String,
}

impl Subnet {
    pub fn network(&self) -> Cidr {
        self.network
    }

    /// Digits and letters of an address, dots, colons and a slash.
    pub fn written(&self) -> &str {
        &self.written
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// IPv4 is always captured.
    pub ipv6: bool,
    pub inbound_listener: Port,
    pub outbound_listener: Port,
    pub proxy_uid: Option<Uid>,
    pub proxy_gid: Option<Gid>,
    pub inbound_ports: LinkerdInboundPorts,
    /// In the order given.
    pub ignored_inbound: Vec<PortRange>,
    /// In the order given.
    pub ignored_outbound: Vec<PortRange>,
    /// Networks that call, in the order given; of both families.
    pub ignored_subnets: Vec<Subnet>,
}
