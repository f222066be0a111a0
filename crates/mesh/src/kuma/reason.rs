//! The reasons of rules: name, meaning, settings, and explanation.

use super::settings::Kuma;
use crate::reason::reasons;

reasons! {
    Kuma of Kuma;
    ApplicationLoopback "kuma-application-loopback" ApplicationLoopback [ProxyUser],
        "the pod talks to itself, and calls of the application to itself are not captured";
    Dns "kuma-dns" Dns [RedirectDns, CaptureAllDns], "{option} captures DNS queries by UDP";
    DnsOverTcp "kuma-dns-over-tcp" ExcludedDns [RedirectDns, CaptureAllDns],
        "it is a DNS query by TCP that the proxy did not send, which is not captured";
    DnsZone "kuma-dns-zone" DnsZone [RedirectDns, CaptureAllDns];
    DropInvalid "kuma-drop-invalid" Dropped [DropInvalid], "{--drop-invalid-packets} drops what belongs to no connection";
    ExcludedDestination "kuma-excluded-destination" ExcludedDestination [OutboundIpsExclude],
        of "{option} leaves {value} alone";
    ExcludedInboundPort "kuma-excluded-inbound-port" ExcludedInboundPort [InboundPortsExclude],
        of "{option} leaves port {value} alone";
    ExcludedOutboundPort "kuma-excluded-outbound-port" ExcludedOutboundPort [OutboundPortsExclude],
        of "{option} leaves port {value} alone";
    ExcludedSource "kuma-excluded-source" ExcludedSource [InboundIpsExclude], of "{option} leaves calls from {value} alone";
    ExcludedUser "kuma-excluded-user" ExcludedOwner [OutboundPortsForUids],
        of "{option} leaves such ports of {value} alone";
    Inbound "kuma-inbound" Inbound [];
    InboundOff "kuma-inbound-off" InboundOff [RedirectInbound], "{--redirect-inbound}=false captures nothing that arrives";
    InboundPort "kuma-inbound-port" InboundPort [InboundPortsInclude],
        "all other inbound TCP is captured", of "{option} lists port {value}";
    Log "kuma-log" Log [Logs];
    Loopback "kuma-loopback" Loopback [], "the destination is the loopback network";
    Outbound "kuma-outbound" Outbound [];
    OutboundOff "kuma-outbound-off" OutboundOff [RedirectOutbound],
        "{--redirect-outbound}=false captures nothing that leaves";
    OutboundPort "kuma-outbound-port" OutboundPort [OutboundPortsInclude],
        "all other outbound TCP is captured", of "{option} lists port {value}";
    ProxyCallsOwnPod "kuma-proxy-calls-own-pod" ProxyCallsOwnPod [ProxyUser],
        "the proxy calls its own pod, so that the call comes in through the mesh";
    ProxyDns "kuma-proxy-dns" ProxyDns [ProxyUser],
        "it is the proxy's own DNS query ({option}), which is never captured";
    ProxyOutbound "kuma-proxy-outbound" ProxyOutbound [ProxyUser],
        of "{value} is the proxy's ({option}), whose own calls are never captured";
    ProxyToApplication "kuma-proxy-to-application" ProxyToApplication [],
        "it comes from the address by which the proxy hands calls to the application";
    ToInboundListener "kuma-to-inbound-listener" ToInboundListener [InboundPort];
    ToOutboundListener "kuma-to-outbound-listener" ToOutboundListener [OutboundPort];
    VirtualNetwork "kuma-virtual-network" VirtualMachine [Vnet], of "{option} says that {value} calls through the mesh";
    VirtualNetworkDns "kuma-virtual-network-dns" VirtualMachineDns [Vnet],
        of "{option} sends DNS queries that come by {value} to the proxy";
}
