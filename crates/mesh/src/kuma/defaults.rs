//! The numbers, names and addresses that upstream has chosen, each once. Settings change most of them.

pub use crate::facts::DNS_PORT;
use crate::facts::port;
pub use crate::istio::defaults::{PASSTHROUGH_V4, PASSTHROUGH_V6};
use rules::{LogLevel, Port, Zone};

/// Where the proxy listens for outbound connections.
pub const OUTBOUND_LISTENER: Port = port(15001);
/// Where the proxy listens for inbound connections.
pub const INBOUND_LISTENER: Port = port(15006);
/// Where it answers DNS queries.
pub const DNS_LISTENER: Port = port(15053);

/// The user of the proxy where none is given: that of upstream's images.
pub const PROXY_ID: u32 = 5678;
/// The name of the proxy's user, where no user has the number.
pub const PROXY_USER: &str = "kuma-dp";

/// Level at which the kernel logs if enabled: debug.
pub const LOG_LEVEL: LogLevel = LogLevel::Debug;

/// The file that names the DNS servers.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The chain of the table `nat` by which Docker answers DNS in networks that users have made.
pub const DOCKER_CHAIN: &str = "DOCKER_OUTPUT";

/// Zone of the proxy's own queries.
pub const PROXY_ZONE: Zone = Zone::new(1).expect("not 0");
/// Zone of the queries that are sent to the proxy.
pub const CLIENT_ZONE: Zone = Zone::new(2).expect("not 0");
