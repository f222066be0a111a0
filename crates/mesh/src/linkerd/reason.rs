//! Why each rule is there: its name, the settings that make it, and the sentence that tells it.

use super::settings::Linkerd;
use crate::reason::reasons;

reasons! {
    Linkerd of Linkerd;
    IgnoredInboundPort "linkerd-ignored-inbound-port" ExcludedInboundPort [InboundPortsToIgnore];
    IgnoredOutboundPort "linkerd-ignored-outbound-port" ExcludedOutboundPort [OutboundPortsToIgnore];
    IgnoredSubnet "linkerd-ignored-subnet" ExcludedSource [SubnetsToIgnore];
    Inbound "linkerd-inbound" Inbound [];
    InboundPort "linkerd-inbound-port" InboundPort [PortsToRedirect];
    Loopback "linkerd-loopback" Loopback [];
    Outbound "linkerd-outbound" Outbound [];
    ProxyGroup "linkerd-proxy-group" ProxyOutbound [ProxyGid];
    ProxyUser "linkerd-proxy-user" ProxyOutbound [ProxyUid];
    ToInboundListener "linkerd-to-inbound-listener" InboundPort [IncomingProxyPort];
    ToOutboundListener "linkerd-to-outbound-listener" OutboundNetwork [OutgoingProxyPort];
}

impl Reason {
    /// Why such a rule decides, in words. `value` is the item of the setting's list that the rule is about, `option`
    /// the setting as its author writes it. `None` for rules that only lead on to others.
    pub fn sentence(self, value: Option<&str>, option: &str) -> Option<String> {
        Some(match (self, value) {
            (Self::IgnoredInboundPort | Self::IgnoredOutboundPort, Some(ports)) => {
                format!("{option} leaves {ports} alone")
            }
            (Self::IgnoredInboundPort | Self::IgnoredOutboundPort, None) => {
                format!("{option} leaves its port alone")
            }
            (Self::IgnoredSubnet, Some(network)) => format!("{option} leaves calls from {network} alone"),
            (Self::IgnoredSubnet, None) => format!("{option} leaves calls from its network alone"),
            (Self::InboundPort, Some(port)) => format!("{option} lists port {port}"),
            (Self::InboundPort, None) => format!("{option} lists its port"),
            (Self::Loopback, _) => "it leaves by lo: the pod's calls to itself are never captured".to_owned(),
            (Self::ProxyUser | Self::ProxyGroup, Some(owner)) => {
                format!("{owner} is the proxy's ({option}), whose own calls are never captured")
            }
            (Self::ProxyUser | Self::ProxyGroup, None) => {
                format!("it is the proxy's ({option}), whose own calls are never captured")
            }
            (Self::ToInboundListener, _) => {
                format!("all other TCP that arrives goes to the proxy ({option})")
            }
            (Self::ToOutboundListener, _) => {
                format!("all other TCP that leaves goes to the proxy ({option})")
            }
            (Self::Inbound | Self::Outbound, _) => return None,
        })
    }
}
