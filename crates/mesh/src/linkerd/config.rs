//! What to capture: the validated configuration that the policy turns into rules.

use rules::{Cidr, Gid, Port, PortRange, Uid};

/// Which inbound connections are captured, of those that no list excludes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkerdInboundPorts {
    /// To every port.
    All,
    /// To these ports, at least one, in the order given.
    Only(Vec<Port>),
}

/// An excluded network, as it was written: the comment on its rule has it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    pub(super) network: Cidr,
    pub(super) written: String,
}

impl Subnet {
    pub fn network(&self) -> Cidr {
        self.network
    }

    /// The text that gave it: digits and letters of an address, dots, colons and a slash.
    pub fn written(&self) -> &str {
        &self.written
    }
}

/// What to capture, for whom, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Whether IPv6 is captured too. IPv4 always is.
    pub ipv6: bool,
    /// The proxy's port for connections that arrive.
    pub inbound_listener: Port,
    /// The proxy's port for connections that leave.
    pub outbound_listener: Port,
    /// The user whose traffic is the proxy's own.
    pub proxy_uid: Option<Uid>,
    /// The group whose traffic is the proxy's own.
    pub proxy_gid: Option<Gid>,
    pub inbound_ports: LinkerdInboundPorts,
    /// Excluded inbound ports, in the order given.
    pub ignored_inbound: Vec<PortRange>,
    /// Excluded outbound ports, in the order given.
    pub ignored_outbound: Vec<PortRange>,
    /// Excluded networks that call, in the order given; of both families.
    pub ignored_subnets: Vec<Subnet>,
}
