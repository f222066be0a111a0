//! The reasons of rules: name, meaning, setting, and explanation.

use super::settings::Ambient;
use crate::reason::reasons;

reasons! {
    Ambient of Ambient;
    Arriving "ambient-arriving" Inbound [];
    Dns "ambient-dns" Dns [DnsCapture], "{option} sends DNS queries to ztunnel, whichever server they ask";
    DnsZone "ambient-dns-zone" DnsZone [DnsCapture],
        "ztunnel's own DNS queries are kept apart from those of the application";
    Inbound "ambient-inbound" InboundPort [Ingress],
        "everything that arrives by TCP goes to ztunnel, but for its tunnel and its own calls";
    Leaving "ambient-leaving" Outbound [];
    Machine "ambient-machine" VirtualMachine [RerouteInterfaces],
        "{option} says that it comes from a virtual machine", of "{option} says that {value} belongs to a virtual machine";
    Outbound "ambient-outbound" OutboundNetwork [],
        "everything that leaves by TCP goes to ztunnel, but for what it sends itself";
    OwnPod "ambient-own-pod" ApplicationLoopback [], "the pod talks to itself, which is not captured";
    Probe "ambient-probe" ExcludedSource [ProbeAddress],
        "the host's own calls are not captured ({option})", of "{value} is where the host's own calls come from ({option})";
    ProxyToApplication "ambient-proxy-to-application" ProxyToApplication [],
        "it belongs to a connection by which ztunnel hands a call to the application";
}
