//! Why each rule is there: its name, the settings that make it, and the sentence that tells it.

use super::settings::Kuma;
use crate::settings::Setting;
use rules::Origin;

macro_rules! reasons {
    ($($reason:ident $name:literal [$($setting:ident),*];)*) => {
        /// A rule of the policy. Rules that do the same for the same reason share one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($reason,)*
        }

        impl Reason {
            /// Every reason, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// The short name in kebab case: comment in nf_tables, and behind `kuma-` the end of the comment in iptables.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }

            /// The settings of which one makes the rule; none for what is always there.
            pub fn settings(self) -> &'static [Setting] {
                match self {
                    $(Self::$reason => &[$(Kuma::$setting,)*],)*
                }
            }
        }
    };
}

reasons! {
    ApplicationLoopback "kuma-application-loopback" [ProxyUser];
    Dns "kuma-dns" [RedirectDns, CaptureAllDns];
    DnsOverTcp "kuma-dns-over-tcp" [RedirectDns, CaptureAllDns];
    DnsZone "kuma-dns-zone" [RedirectDns, CaptureAllDns];
    DropInvalid "kuma-drop-invalid" [DropInvalid];
    ExcludedDestination "kuma-excluded-destination" [OutboundIpsExclude];
    ExcludedInboundPort "kuma-excluded-inbound-port" [InboundPortsExclude];
    ExcludedOutboundPort "kuma-excluded-outbound-port" [OutboundPortsExclude];
    ExcludedSource "kuma-excluded-source" [InboundIpsExclude];
    ExcludedUser "kuma-excluded-user" [OutboundPortsForUids];
    Inbound "kuma-inbound" [];
    InboundOff "kuma-inbound-off" [RedirectInbound];
    InboundPort "kuma-inbound-port" [InboundPortsInclude];
    Log "kuma-log" [Logs];
    Loopback "kuma-loopback" [];
    Outbound "kuma-outbound" [];
    OutboundOff "kuma-outbound-off" [RedirectOutbound];
    OutboundPort "kuma-outbound-port" [OutboundPortsInclude];
    ProxyCallsOwnPod "kuma-proxy-calls-own-pod" [ProxyUser];
    ProxyDns "kuma-proxy-dns" [ProxyUser];
    ProxyOutbound "kuma-proxy-outbound" [ProxyUser];
    ProxyToApplication "kuma-proxy-to-application" [];
    ToInboundListener "kuma-to-inbound-listener" [InboundPort];
    ToOutboundListener "kuma-to-outbound-listener" [OutboundPort];
    VirtualNetwork "kuma-virtual-network" [Vnet];
    VirtualNetworkDns "kuma-virtual-network-dns" [Vnet];
}

impl Reason {
    /// The reason of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }

    /// What the rule carries along: its name, and the setting that made it where only one can.
    pub(super) fn origin(self) -> Origin {
        match self.settings() {
            [setting] => self.made_by(*setting),
            _ => self.unsaid(),
        }
    }

    /// The same of a rule that is there because nobody says otherwise.
    pub(super) fn unsaid(self) -> Origin {
        Origin { name: self.name(), option: "" }
    }

    /// The same, where several settings make such rules.
    pub(super) fn made_by(self, setting: Setting) -> Origin {
        Origin { name: self.name(), option: setting.row().name() }
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
            (Self::DropInvalid, _) => "--drop-invalid-packets drops what belongs to no connection".to_owned(),
            (Self::ExcludedDestination, Some(network)) => format!("{option} leaves {network} alone"),
            (Self::ExcludedInboundPort | Self::ExcludedOutboundPort, Some(port)) => {
                format!("{option} leaves port {port} alone")
            }
            (Self::ExcludedSource, Some(network)) => format!("{option} leaves calls from {network} alone"),
            (Self::ExcludedUser, Some(user)) => format!("{option} leaves such ports of {user} alone"),
            (Self::InboundOff, _) => "--redirect-inbound=false captures nothing that arrives".to_owned(),
            (Self::InboundPort, Some(port)) => format!("{option} lists port {port}"),
            (Self::InboundPort, None) => "all other inbound TCP is captured".to_owned(),
            (Self::Loopback, _) => "the destination is the loopback network".to_owned(),
            (Self::OutboundOff, _) => "--redirect-outbound=false captures nothing that leaves".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kebab_case_in_order_begin_with_the_mesh_and_find_their_reason() {
        assert!(Reason::ALL.is_sorted_by_key(|reason| reason.name()));
        for &reason in Reason::ALL {
            let name = reason.name();
            assert!(name.starts_with("kuma-") && name.len() < 36, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
            assert_eq!(Reason::named(name), Some(reason));
        }
        assert_eq!(Reason::named("nobody"), None);
    }
}
