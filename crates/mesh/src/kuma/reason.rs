//! Why each rule is there: its name, the settings that make it, and the sentence that tells it.

use super::settings::Kuma;
use crate::reason::reasons;
use rules::Origin;

reasons! {
    Kuma of Kuma;
    ApplicationLoopback "kuma-application-loopback" ApplicationLoopback [ProxyUser];
    Dns "kuma-dns" Dns [RedirectDns, CaptureAllDns];
    DnsOverTcp "kuma-dns-over-tcp" ExcludedDns [RedirectDns, CaptureAllDns];
    DnsZone "kuma-dns-zone" DnsZone [RedirectDns, CaptureAllDns];
    DropInvalid "kuma-drop-invalid" Dropped [DropInvalid];
    ExcludedDestination "kuma-excluded-destination" ExcludedDestination [OutboundIpsExclude];
    ExcludedInboundPort "kuma-excluded-inbound-port" ExcludedInboundPort [InboundPortsExclude];
    ExcludedOutboundPort "kuma-excluded-outbound-port" ExcludedOutboundPort [OutboundPortsExclude];
    ExcludedSource "kuma-excluded-source" ExcludedSource [InboundIpsExclude];
    ExcludedUser "kuma-excluded-user" ExcludedOwner [OutboundPortsForUids];
    Inbound "kuma-inbound" Inbound [];
    InboundOff "kuma-inbound-off" InboundOff [RedirectInbound];
    InboundPort "kuma-inbound-port" InboundPort [InboundPortsInclude];
    Log "kuma-log" Log [Logs];
    Loopback "kuma-loopback" Loopback [];
    Outbound "kuma-outbound" Outbound [];
    OutboundOff "kuma-outbound-off" OutboundOff [RedirectOutbound];
    OutboundPort "kuma-outbound-port" OutboundPort [OutboundPortsInclude];
    ProxyCallsOwnPod "kuma-proxy-calls-own-pod" ProxyCallsOwnPod [ProxyUser];
    ProxyDns "kuma-proxy-dns" ProxyDns [ProxyUser];
    ProxyOutbound "kuma-proxy-outbound" ProxyOutbound [ProxyUser];
    ProxyToApplication "kuma-proxy-to-application" ProxyToApplication [];
    ToInboundListener "kuma-to-inbound-listener" ToInboundListener [InboundPort];
    ToOutboundListener "kuma-to-outbound-listener" ToOutboundListener [OutboundPort];
    VirtualNetwork "kuma-virtual-network" Machine [Vnet];
    VirtualNetworkDns "kuma-virtual-network-dns" MachineDns [Vnet];
}

impl Reason {
    /// What a rule carries along that is there because nobody says otherwise.
    pub(super) fn unsaid(self) -> Origin {
        Origin { name: self.name(), option: "" }
    }

    /// Why such a rule decides, in words. `value` is the item of the setting's list that the rule is about, `option`
    /// the setting as its author writes it. `None` for rules that only lead on to others.
    pub fn sentence(self, value: Option<&str>, option: &str) -> Option<String> {
        Some(match (self, value) {
            (Self::ApplicationLoopback, _) => {
                "the pod talks to itself, and calls of the application to itself are not captured".to_owned()
            }
            (Self::Dns, _) => format!("{option} captures DNS queries by UDP"),
            (Self::DnsOverTcp, _) => {
                "it is a DNS query by TCP of somebody else than the proxy, which is left alone".to_owned()
            }
            (Self::DropInvalid, _) => {
                "{--drop-invalid-packets} drops what belongs to no connection".to_owned()
            }
            (Self::ExcludedDestination, Some(network)) => format!("{option} leaves {network} alone"),
            (Self::ExcludedInboundPort | Self::ExcludedOutboundPort, Some(port)) => {
                format!("{option} leaves port {port} alone")
            }
            (Self::ExcludedSource, Some(network)) => format!("{option} leaves calls from {network} alone"),
            (Self::ExcludedUser, Some(user)) => format!("{option} leaves such ports of {user} alone"),
            (Self::InboundOff, _) => "{--redirect-inbound}=false captures nothing that arrives".to_owned(),
            (Self::InboundPort, Some(port)) => format!("{option} lists port {port}"),
            (Self::InboundPort, None) => "all other inbound TCP is captured".to_owned(),
            (Self::Loopback, _) => "the destination is the loopback network".to_owned(),
            (Self::OutboundOff, _) => "{--redirect-outbound}=false captures nothing that leaves".to_owned(),
            (Self::OutboundPort, Some(port)) => format!("{option} lists port {port}"),
            (Self::OutboundPort, None) => "all other outbound TCP is captured".to_owned(),
            (Self::ProxyCallsOwnPod, _) => {
                "the proxy calls its own pod, so that the call comes in through the mesh".to_owned()
            }
            (Self::ProxyDns, _) => {
                format!("it is the proxy's own DNS query ({option}), which is never captured")
            }
            (Self::ProxyOutbound, Some(owner)) => {
                format!("{owner} is the proxy's ({option}), whose own calls are never captured")
            }
            (Self::ProxyToApplication, _) => {
                "it comes from the address by which the proxy hands calls to the application".to_owned()
            }
            (Self::VirtualNetwork, Some(network)) => {
                format!("{option} says that {network} calls through the mesh")
            }
            (Self::VirtualNetworkDns, Some(network)) => {
                format!("{option} sends DNS queries that come by {network} to the proxy")
            }
            (
                Self::ExcludedDestination
                | Self::ExcludedInboundPort
                | Self::ExcludedOutboundPort
                | Self::ExcludedSource
                | Self::ExcludedUser
                | Self::ProxyOutbound
                | Self::VirtualNetwork
                | Self::VirtualNetworkDns,
                None,
            )
            | (
                Self::DnsZone
                | Self::Inbound
                | Self::Log
                | Self::Outbound
                | Self::ToInboundListener
                | Self::ToOutboundListener,
                _,
            ) => return None,
        })
    }
}
