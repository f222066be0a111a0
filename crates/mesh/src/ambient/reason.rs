//! Why each rule is there: its name, the setting that makes it, and the sentence that tells it.

use super::settings::Ambient;
use crate::reason::reasons;

reasons! {
    Ambient of Ambient;
    Arriving "ambient-arriving" Inbound [];
    Dns "ambient-dns" Dns [DnsCapture];
    DnsZone "ambient-dns-zone" DnsZone [DnsCapture];
    Inbound "ambient-inbound" InboundPort [Ingress];
    Leaving "ambient-leaving" Outbound [];
    Machine "ambient-machine" Machine [RerouteInterfaces];
    Outbound "ambient-outbound" OutboundNetwork [];
    OwnPod "ambient-own-pod" ApplicationLoopback [];
    Probe "ambient-probe" ExcludedSource [ProbeAddress];
    ProxyToApplication "ambient-proxy-to-application" ProxyToApplication [];
}

impl Reason {
    /// Why such a rule decides, in words. `value` is the item that the rule is about, `option` the setting as its
    /// author writes it. `None` for rules that only lead on to others.
    pub fn sentence(self, value: Option<&str>, option: &str) -> Option<String> {
        Some(match (self, value) {
            (Self::Arriving | Self::Leaving, _) => return None,
            (Self::Dns, _) => {
                format!("{option} sends DNS queries to ztunnel, whichever server they ask")
            }
            (Self::DnsZone, _) => {
                "ztunnel's own DNS queries are kept apart from those of the application".to_owned()
            }
            (Self::Inbound, _) => {
                "everything that arrives by TCP goes to ztunnel, but for its tunnel and its own calls"
                    .to_owned()
            }
            (Self::Machine, Some(name)) => {
                format!("{option} says that {name} belongs to a virtual machine")
            }
            (Self::Machine, None) => {
                format!("{option} says that it comes from a virtual machine")
            }
            (Self::Outbound, _) => {
                "everything that leaves by TCP goes to ztunnel, but for what it sends itself".to_owned()
            }
            (Self::OwnPod, _) => "the pod talks to itself, which is not captured".to_owned(),
            (Self::Probe, Some(address)) => {
                format!("{address} is where the host's own calls come from ({option})")
            }
            (Self::Probe, None) => format!("the host's own calls are left alone ({option})"),
            (Self::ProxyToApplication, _) => {
                "it belongs to a connection by which ztunnel hands a call to the application".to_owned()
            }
        })
    }
}
