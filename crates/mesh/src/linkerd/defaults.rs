//! The numbers of linkerd's charts, each once, and those that its injector always adds.

use crate::facts::port;
use rules::Port;

/// `proxy.ports.inbound`
pub const INBOUND_LISTENER: Port = port(4143);
/// `proxy.ports.outbound`
pub const OUTBOUND_LISTENER: Port = port(4140);
/// Where the proxy taps its traffic for the control plane, never captured (`proxy.ports.control`).
pub const CONTROL_PORT: Port = port(4190);
/// Where the proxy answers probes and metrics, never captured (`proxy.ports.admin`).
pub const ADMIN_PORT: Port = port(4191);
/// The user of the proxy (`proxy.uid`).
pub const PROXY_ID: u32 = 2102;

/// The values of the charts, as flags and annotations have them.
pub mod text {
    /// [`super::INBOUND_LISTENER`].
    pub const INBOUND_LISTENER: &str = "4143";
    /// [`super::OUTBOUND_LISTENER`].
    pub const OUTBOUND_LISTENER: &str = "4140";
    /// [`super::PROXY_ID`].
    pub const PROXY_ID: &str = "2102";
    /// Ports excluded on either side where none are named: those of Galera's replication, which the proxy can't
    /// take part in (`proxyInit.ignoreInboundPorts`, `..OutboundPorts`).
    pub const SKIPPED_PORTS: &str = "4567,4568";
    /// [`SKIPPED_PORTS`] and the proxy's control and admin ports.
    pub const SKIPPED_INBOUND: &str = "4190,4191,4567,4568";
    /// Excluded for outbound connections of the control plane's own pods: the API server.
    pub const SKIPPED_BY_CONTROL_PLANE: &str = "443,6443";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_say_the_numbers() {
        assert_eq!(text::INBOUND_LISTENER, INBOUND_LISTENER.to_string());
        assert_eq!(text::OUTBOUND_LISTENER, OUTBOUND_LISTENER.to_string());
        assert_eq!(text::PROXY_ID, PROXY_ID.to_string());
        let inbound = format!("{CONTROL_PORT},{ADMIN_PORT},{}", text::SKIPPED_PORTS);
        assert_eq!(text::SKIPPED_INBOUND, inbound);
    }
}
