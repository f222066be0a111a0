//! The numbers that linkerd's charts have chosen, each once, and those that its injector always says.

use crate::mesh::port;
use rules::Port;

/// Where the proxy listens for connections that arrive (`proxy.ports.inbound`).
pub const INBOUND_LISTENER: Port = port(4143);
/// Where the proxy listens for connections that leave (`proxy.ports.outbound`).
pub const OUTBOUND_LISTENER: Port = port(4140);
/// Where the proxy taps its traffic for the control plane, never captured (`proxy.ports.control`).
pub const CONTROL_PORT: Port = port(4190);
/// Where the proxy answers probes and metrics, never captured (`proxy.ports.admin`).
pub const ADMIN_PORT: Port = port(4191);
/// The user of the proxy (`proxy.uid`).
pub const PROXY_ID: u32 = 2102;
/// Ports left alone on either side where nobody names others: those of Galera's replication, which the proxy can't take
/// part in (`proxyInit.ignoreInboundPorts`, `..OutboundPorts`).
pub const SKIPPED_PORTS: &str = "4567,4568";
/// The same for outbound connections of the control plane's own pods: the API server.
pub const SKIPPED_BY_CONTROL_PLANE: &str = "443,6443";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkerd::Linkerd;
    use crate::settings::Setting;

    #[test]
    fn the_help_names_the_defaults() {
        let check = |setting: Setting, value: &dyn std::fmt::Display| {
            let help = setting.row().help;
            assert!(help.contains(&format!("[default: {value};")), "{setting:?}: {help}");
        };
        check(Linkerd::IncomingProxyPort, &INBOUND_LISTENER);
        check(Linkerd::OutgoingProxyPort, &OUTBOUND_LISTENER);
        check(Linkerd::ProxyUid, &PROXY_ID);
    }

    #[test]
    fn what_is_usual_leaves_the_proxys_other_ports_alone() {
        let usual = |setting: Setting| {
            let row = crate::linkerd::USUAL.iter().find(|(usual, ..)| *usual == setting);
            row.map(|(_, value, _)| (*value).to_owned())
        };
        let inbound = format!("{CONTROL_PORT},{ADMIN_PORT},{SKIPPED_PORTS}");
        assert_eq!(usual(Linkerd::InboundPortsToIgnore), Some(inbound));
        assert_eq!(usual(Linkerd::OutboundPortsToIgnore).as_deref(), Some(SKIPPED_PORTS));
    }
}
