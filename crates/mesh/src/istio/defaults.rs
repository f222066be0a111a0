//! Upstream's numbers and addresses. Settings override most of them.

use crate::facts::port;
pub use crate::facts::{DNS_PORT, PASSTHROUGH_V4, PASSTHROUGH_V6};
use rules::{Mark, Port};

/// Ports served by the proxy's container: debugging, merged metrics, health, and Envoy's metrics.
pub(crate) const SERVED_PORTS: [Port; 4] = [port(15004), port(15020), port(15021), port(15090)];
pub const OUTBOUND_LISTENER: Port = port(15001);
pub const INBOUND_LISTENER: Port = port(15006);
pub const TUNNEL_PORT: Port = port(15008);
/// Port dialled by the validation; no process listens there.
pub const PROBE_PORT: Port = port(15002);
/// The agent's DNS port, over UDP and TCP (upstream's `IstioAgentDNSListenerPort`).
pub const AGENT_PORT: Port = port(15053);

/// Default user and group of the proxy (upstream's `DefaultProxyUID`).
pub const PROXY_ID: u32 = 1337;
pub const PROXY_USER: &str = "istio-proxy";

/// Marks packets that TPROXY hands to the proxy.
pub const TPROXY_MARK: Mark = Mark::whole(1337);
/// In TPROXY mode, marks the proxy's loopback packets, which are captured as inbound.
pub const PROXY_MARK: Mark = Mark::whole(1338);

pub const LOG_GROUP: u16 = 1337;
