//! What can be said of capture in the ambient mesh. The variables are those of Istio's node agent, the annotations those
//! that it reads of a pod.

use crate::mesh::{Feature, Mesh};
use crate::settings::Kind::{Switch, Value};
use crate::settings::examples::{self, open};
use crate::settings::{Setting, Table, table_macro::settings};

/// Holds the settings.
#[derive(Clone, Copy, Debug)]
pub struct Ambient;

settings! {
    Ambient of Table::Of(Mesh::Ambient);
    Capture {
        Ingress: "ingress" _ [] @ ["ambient.istio.io/bypass-inbound-capture"], Switch,
            "Leave connections alone that arrive, for a gateway that takes them itself";
        DnsCapture: "dns-capture" _ ["AMBIENT_DNS_CAPTURE"] @ ["ambient.istio.io/dns-capture"], Switch,
            "Capture DNS queries to every server, to ztunnel at port 15053 [default: true]";
        RerouteInterfaces: "reroute-virtual-interfaces" _ [] @ ["istio.io/reroute-virtual-interfaces"],
            Value("NAME,.."), "Interfaces of virtual machines, whose TCP counts as outbound";
        Ipv6: "ipv6" _ ["AMBIENT_IPV6"], Switch,
            "Capture IPv6 beside IPv4 [default: true]";
        ProbeAddress: "probe-address" _ [], Value("IP,.."),
            "From where the host's own calls come, which are left alone, such as probes: at most one address a family [default: 169.254.7.127,fd16:9254:7127:1337:ffff:ffff:ffff:ffff]";
        ProbeAddressV4: "" _ ["HOST_PROBE_SNAT_IP"], Value("IP"),
            "That address over IPv4, where the flag names none";
        ProbeAddressV6: "" _ ["HOST_PROBE_SNAT_IPV6"], Value("IP"),
            "That address over IPv6, where the flag names none";
    }
}

/// What may be given to them, in their order.
pub(crate) const EXAMPLES: &[examples::Row] = &[
    open(Ambient::RerouteInterfaces, "vm0,br+"),
    open(Ambient::ProbeAddress, "169.254.7.127,fd16:9254:7127:1337:ffff:ffff:ffff:ffff"),
    open(Ambient::ProbeAddressV4, "169.254.7.127"),
    open(Ambient::ProbeAddressV6, "fd16:9254:7127:1337:ffff:ffff:ffff:ffff"),
];

/// What they let people say.
pub(crate) const FEATURES: &[(Feature, Setting)] = &[
    (Feature::Directions, Ambient::Ingress),
    (Feature::Machines, Ambient::RerouteInterfaces),
    (Feature::DnsAll, Ambient::DnsCapture),
    (Feature::Ipv6, Ambient::Ipv6),
    (Feature::Probes, Ambient::ProbeAddress),
    (Feature::Probes, Ambient::ProbeAddressV4),
    (Feature::Probes, Ambient::ProbeAddressV6),
];
