//! The reasons of rules: name, meaning, settings, and explanation.

use super::settings::Linkerd;
use crate::reason::reasons;

reasons! {
    Linkerd of Linkerd;
    IgnoredInboundPort "linkerd-ignored-inbound-port" ExcludedInboundPort [InboundPortsToIgnore],
        "{option} leaves its port alone", of "{option} leaves {value} alone";
    IgnoredOutboundPort "linkerd-ignored-outbound-port" ExcludedOutboundPort [OutboundPortsToIgnore],
        "{option} leaves its port alone", of "{option} leaves {value} alone";
    IgnoredSubnet "linkerd-ignored-subnet" ExcludedSource [SubnetsToIgnore],
        "{option} leaves calls from its network alone", of "{option} leaves calls from {value} alone";
    Inbound "linkerd-inbound" Inbound [];
    InboundPort "linkerd-inbound-port" InboundPort [PortsToRedirect],
        "{option} lists its port", of "{option} lists port {value}";
    Loopback "linkerd-loopback" Loopback [], "it leaves by lo: the pod's calls to itself are never captured";
    Outbound "linkerd-outbound" Outbound [];
    ProxyGroup "linkerd-proxy-group" ProxyOutbound [ProxyGid],
        "it is the proxy's ({option}), whose own calls are never captured",
        of "{value} is the proxy's ({option}), whose own calls are never captured";
    ProxyUser "linkerd-proxy-user" ProxyOutbound [ProxyUid],
        "it is the proxy's ({option}), whose own calls are never captured",
        of "{value} is the proxy's ({option}), whose own calls are never captured";
    ToInboundListener "linkerd-to-inbound-listener" InboundPort [IncomingProxyPort],
        "all other TCP that arrives goes to the proxy ({option})";
    ToOutboundListener "linkerd-to-outbound-listener" OutboundNetwork [OutgoingProxyPort],
        "all other TCP that leaves goes to the proxy ({option})";
}
