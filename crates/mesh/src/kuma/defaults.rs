//! The numbers, names and addresses that upstream has chosen, each once. Settings change most of them.

pub use crate::facts::DNS_PORT;
use crate::facts::port;
pub use crate::istio::defaults::{PASSTHROUGH_V4, PASSTHROUGH_V6};
use rules::{LogLevel, Port, Zone};

pub const OUTBOUND_LISTENER: Port = port(15001);
pub const INBOUND_LISTENER: Port = port(15006);
pub const DNS_LISTENER: Port = port(15053);

/// The user of the proxy where none is given: that of upstream's images.
pub const PROXY_ID: u32 = 5678;
/// Counts where no user has the number.
pub const PROXY_USER: &str = "kuma-dp";

/// Only used if logging is enabled.
pub const LOG_LEVEL: LogLevel = LogLevel::Debug;

pub const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The chain of the table `nat` by which Docker answers DNS in networks that users have made.
pub const DOCKER_CHAIN: &str = "DOCKER_OUTPUT";

pub const PROXY_ZONE: Zone = Zone::new(1).expect("not 0");
pub const CLIENT_ZONE: Zone = Zone::new(2).expect("not 0");
