//! Why each rule is there: its name, the settings that make it, and the sentence that tells it.

use crate::reason_macro::reasons;
use crate::settings::Setting;

reasons! {
    Setting;
    ApplicationLoopback "application-loopback" [ProxyUid, ProxyGid];
    Dns "dns" [RedirectDns];
    DropInvalid "drop-invalid" [DropInvalid];
    ExcludedGroup "excluded-group" [OwnerGroupsExclude];
    ExcludedInboundPort "excluded-inbound-port" [InboundPortsExclude];
    ExcludedInterface "excluded-interface" [ExcludeInterfaces];
    ExcludedNetwork "excluded-network" [ServiceExcludeCidr];
    ExcludedOutboundPort "excluded-outbound-port" [OutboundPortsExclude];
    InboundPort "inbound-port" [InboundPorts];
    Loopback "loopback" [];
    OtherGroups "other-groups" [OwnerGroups];
    Outbound "outbound" [];
    OutboundNetwork "outbound-network" [ServiceCidr];
    OutboundPort "outbound-port" [OutboundPorts];
    ProxyCallsOwnPod "proxy-calls-own-pod" [ProxyUid, ProxyGid];
    ProxyOutbound "proxy-outbound" [ProxyUid, ProxyGid];
    ProxyToApplication "proxy-to-application" [];
    ToInboundListener "to-inbound-listener" [InboundCapturePort];
    ToOutboundListener "to-outbound-listener" [EnvoyPort];
    TproxyMark "tproxy-mark" [TproxyMark];
    TunnelPort "tunnel-port" [InboundTunnelPort];
    VmInterface "vm-interface" [VmInterfaces];
}

impl Reason {
    /// What a chain is for, of those that do one thing under a name that upstream gave them: for listings, which
    /// do not say why their rules are there.
    pub fn of_chain(chain: &str) -> Option<Self> {
        match chain {
            "ISTIO_REDIRECT" => Some(Self::ToOutboundListener),
            "ISTIO_IN_REDIRECT" | "ISTIO_TPROXY" => Some(Self::ToInboundListener),
            "ISTIO_OUTPUT_DNS" => Some(Self::Dns),
            _ => None,
        }
    }

    /// Why such a rule decides, in words. `value` is the item of the setting's list that the rule is about, `option`
    /// the setting as its author writes it. `None` for rules that only lead on to others.
    pub fn sentence(self, value: Option<&str>, option: &str) -> Option<String> {
        Some(match (self, value) {
            (Self::OutboundNetwork, None) => "-i '*' redirects all other outbound traffic".to_owned(),
            (Self::OutboundNetwork, Some(cidr)) => format!("-i lists {cidr}"),
            (Self::OutboundPort, Some(port)) => format!("-q lists port {port}"),
            (Self::ExcludedOutboundPort, Some(port)) => format!("-o leaves port {port} alone"),
            (Self::ExcludedNetwork, Some(cidr)) => format!("-x leaves {cidr} alone"),
            (Self::InboundPort, Some(port)) => format!("-b lists port {port}"),
            (Self::InboundPort, None) => "-b '*' captures all other inbound ports".to_owned(),
            (Self::ExcludedInboundPort, Some(port)) => format!("-d leaves port {port} alone"),
            (Self::ExcludedInterface, Some(name)) => format!("-c leaves interface {name} alone"),
            (Self::VmInterface, Some(name)) => format!("-k says that {name} belongs to a virtual machine"),
            (Self::TunnelPort, Some(port)) => {
                format!("port {port} is the tunnel's (-e), which is never captured")
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
            (Self::Dns, _) => "--redirect-dns captures DNS queries".to_owned(),
            (Self::DropInvalid, _) => "--drop-invalid drops what belongs to no connection".to_owned(),
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
