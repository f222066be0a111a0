//! The reasons of rules: name, meaning, settings, and explanation.

use crate::reason::reasons;
use crate::settings::Setting;

reasons! {
    Istio of Setting;
    ApplicationLoopback "application-loopback" ApplicationLoopback [ProxyUid, ProxyGid],
        "the pod talks to itself, and calls of the application to itself are not captured";
    Dns "dns" Dns [RedirectDns], "{--redirect-dns} captures DNS queries";
    DropInvalid "drop-invalid" Dropped [DropInvalid], "{--drop-invalid} drops what belongs to no connection";
    ExcludedGroup "excluded-group" ExcludedOwner [OwnerGroupsExclude], of "{option} leaves {value} alone";
    ExcludedInboundPort "excluded-inbound-port" ExcludedInboundPort [InboundPortsExclude], of "{-d} leaves port {value} alone";
    ExcludedInterface "excluded-interface" ExcludedInterface [ExcludeInterfaces], of "{-c} leaves interface {value} alone";
    ExcludedNetwork "excluded-network" ExcludedDestination [ServiceExcludeCidr], of "{-x} leaves {value} alone";
    ExcludedOutboundPort "excluded-outbound-port" ExcludedOutboundPort [OutboundPortsExclude],
        of "{-o} leaves port {value} alone";
    InboundPort "inbound-port" InboundPort [InboundPorts],
        "{-b} '*' captures all other inbound ports", of "{-b} lists port {value}";
    Loopback "loopback" Loopback [], "the destination is the loopback network";
    OtherGroups "other-groups" OtherOwners [OwnerGroups], "{option} does not list its group";
    Outbound "outbound" Outbound [];
    OutboundNetwork "outbound-network" OutboundNetwork [ServiceCidr],
        "{-i} '*' redirects all other outbound traffic", of "{-i} lists {value}";
    OutboundPort "outbound-port" OutboundPort [OutboundPorts], of "{-q} lists port {value}";
    ProxyCallsOwnPod "proxy-calls-own-pod" ProxyCallsOwnPod [ProxyUid, ProxyGid],
        "the proxy calls its own pod, so that the call comes in through the mesh";
    ProxyOutbound "proxy-outbound" ProxyOutbound [ProxyUid, ProxyGid],
        of "{value} is the proxy's ({option}), whose own calls are never captured";
    ProxyToApplication "proxy-to-application" ProxyToApplication [],
        "it comes from the address by which the proxy hands calls to the application";
    ToInboundListener "to-inbound-listener" ToInboundListener [InboundCapturePort];
    ToOutboundListener "to-outbound-listener" ToOutboundListener [EnvoyPort];
    TproxyMark "tproxy-mark" KnownConnection [TproxyMark],
        "its mark says that it belongs to a connection handed over before";
    TunnelPort "tunnel-port" TunnelPort [InboundTunnelPort],
        of "port {value} is the tunnel's ({-e}), which is never captured";
    VmInterface "vm-interface" VirtualMachineInterface [VmInterfaces], of "{-k} says that {value} belongs to a virtual machine";
}
