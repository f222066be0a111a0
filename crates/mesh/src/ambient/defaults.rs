//! Numbers and addresses shared by ztunnel and Istio's node agent. Only the addresses are configurable.

use crate::facts::port;
pub use crate::facts::{DNS_PORT, PROXY_ZONE};
use rules::{Mark, Port};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Outbound connections (`ZtunnelOutboundPort`).
pub const OUTBOUND_LISTENER: Port = port(15001);
/// Inbound connections outside a tunnel (`ZtunnelInboundPlaintextPort`).
pub const INBOUND_LISTENER: Port = port(15006);
/// HBONE tunnel port, never captured (`ZtunnelInboundPort`).
pub const TUNNEL_PORT: Port = port(15008);
pub const DNS_LISTENER: Port = port(15053);

const MASK: u32 = 0xfff;
/// Mark of ztunnel's own sockets (`InpodMark`, 1337).
pub const PROXY_MARK: Mark = Mark { value: 0x539, mask: MASK };
/// Mark of ztunnel's connections to the application, and of their replies (`InpodTProxyMark`).
pub const CONNECTION_MARK: Mark = Mark { value: 0x111, mask: MASK };
/// Routing table that delivers such replies to ztunnel (`RouteTableInbound`).
pub const TABLE: u32 = 100;
/// Preference of that table's policy rule, before the kernel's rule for `main` (32766).
pub const PREFERENCE: u32 = 32764;

/// `inet` table on the host that rewrites the source of host calls.
pub const HOST_TABLE: &str = "sidecar_init_ambient_host";

/// Source of the host's own calls (`DefaultHostProbeSNATIP`): a link-local address assigned to no machine.
pub const PROBE_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 7, 127);
/// `DefaultHostProbeSNATIPV6`: a unique local address; link-local addresses need an interface.
pub const PROBE_V6: Ipv6Addr = Ipv6Addr::new(0xfd16, 0x9254, 0x7127, 0x1337, 0xffff, 0xffff, 0xffff, 0xffff);
