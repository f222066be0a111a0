//! Why each rule is there: its name, the settings that make it, and the sentence that tells it.

use crate::reason::reasons;
use crate::settings::Setting;

reasons! {
    Istio of Setting;
    ApplicationLoopback "application-loopback" ApplicationLoopback [ProxyUid, ProxyGid];
    Dns "dns" Dns [RedirectDns];
    DropInvalid "drop-invalid" Dropped [DropInvalid];
    ExcludedGroup "excluded-group" ExcludedOwner [OwnerGroupsExclude];
    ExcludedInboundPort "excluded-inbound-port" ExcludedInboundPort [InboundPortsExclude];
    ExcludedInterface "excluded-interface" ExcludedInterface [ExcludeInterfaces];
    ExcludedNetwork "excluded-network" ExcludedDestination [ServiceExcludeCidr];
    ExcludedOutboundPort "excluded-outbound-port" ExcludedOutboundPort [OutboundPortsExclude];
    InboundPort "inbound-port" InboundPort [InboundPorts];
    Loopback "loopback" Loopback [];
    OtherGroups "other-groups" OtherOwners [OwnerGroups];
    Outbound "outbound" Outbound [];
    OutboundNetwork "outbound-network" OutboundNetwork [ServiceCidr];
    OutboundPort "outbound-port" OutboundPort [OutboundPorts];
    ProxyCallsOwnPod "proxy-calls-own-pod" ProxyCallsOwnPod [ProxyUid, ProxyGid];
    ProxyOutbound "proxy-outbound" ProxyOutbound [ProxyUid, ProxyGid];
    ProxyToApplication "proxy-to-application" ProxyToApplication [];
    ToInboundListener "to-inbound-listener" ToInboundListener [InboundCapturePort];
    ToOutboundListener "to-outbound-listener" ToOutboundListener [EnvoyPort];
    TproxyMark "tproxy-mark" KnownConnection [TproxyMark];
    TunnelPort "tunnel-port" TunnelPort [InboundTunnelPort];
    VmInterface "vm-interface" MachineInterface [VmInterfaces];
}

impl Reason {
    /// Why such a rule decides, in words. `value` is the item of the setting's list that the rule is about, `option`
    /// the setting as its author writes it. `{-i}` names a setting for [`crate::sources::Dialect::render`]. `None` for rules that only lead on to others.
    pub fn sentence(self, value: Option<&str>, option: &str) -> Option<String> {
        Some(match (self, value) {
            (Self::OutboundNetwork, None) => "{-i} '*' redirects all other outbound traffic".to_owned(),
            (Self::OutboundNetwork, Some(cidr)) => format!("{{-i}} lists {cidr}"),
            (Self::OutboundPort, Some(port)) => format!("{{-q}} lists port {port}"),
            (Self::ExcludedOutboundPort, Some(port)) => format!("{{-o}} leaves port {port} alone"),
            (Self::ExcludedNetwork, Some(cidr)) => format!("{{-x}} leaves {cidr} alone"),
            (Self::InboundPort, Some(port)) => format!("{{-b}} lists port {port}"),
            (Self::InboundPort, None) => "{-b} '*' captures all other inbound ports".to_owned(),
            (Self::ExcludedInboundPort, Some(port)) => format!("{{-d}} leaves port {port} alone"),
            (Self::ExcludedInterface, Some(name)) => format!("{{-c}} leaves interface {name} alone"),
            (Self::VmInterface, Some(name)) => {
                format!("{{-k}} says that {name} belongs to a virtual machine")
            }
            (Self::TunnelPort, Some(port)) => {
                format!("port {port} is the tunnel's ({{-e}}), which is never captured")
            }
            (Self::ProxyCallsOwnPod, _) => {
                "the proxy calls its own pod, so that the call comes in through the mesh".to_owned()
            }
            (Self::ProxyOutbound, Some(owner)) => {
                format!("{owner} is the proxy's ({option}), whose own calls are never captured")
            }
            (Self::ApplicationLoopback, _) => {
                "the pod talks to itself, and calls of the application to itself are not captured".to_owned()
            }
            (Self::ProxyToApplication, _) => {
                "it comes from the address by which the proxy hands calls to the application".to_owned()
            }
            (Self::Loopback, _) => "the destination is the loopback network".to_owned(),
            (Self::ExcludedGroup, Some(group)) => format!("{option} leaves {group} alone"),
            (Self::OtherGroups, _) => format!("{option} does not list its group"),
            (Self::Dns, _) => "{--redirect-dns} captures DNS queries".to_owned(),
            (Self::DropInvalid, _) => "{--drop-invalid} drops what belongs to no connection".to_owned(),
            (Self::TproxyMark, _) => {
                "its mark says that it belongs to a connection handed over before".to_owned()
            }
            (
                Self::OutboundPort
                | Self::ExcludedOutboundPort
                | Self::ExcludedNetwork
                | Self::ExcludedInboundPort
                | Self::ExcludedInterface
                | Self::VmInterface
                | Self::TunnelPort
                | Self::ProxyOutbound
                | Self::ExcludedGroup,
                None,
            )
            | (Self::Outbound | Self::ToInboundListener | Self::ToOutboundListener, _) => return None,
        })
    }
}
