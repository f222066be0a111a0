//! Settings of capture in the ambient mesh. Variables and annotations are those of Istio's node agent.

use crate::mesh::Mesh;
use crate::settings::SettingKind::{Switch, Value};
use crate::settings::{SettingTable, settings};

#[derive(Clone, Copy, Debug)]
pub struct Ambient;

settings! {
    Ambient of SettingTable::Of(Mesh::Ambient);
    Capture {
        Ingress: "ingress" _ [] @ ["ambient.istio.io/bypass-inbound-capture"] features [Directions], Switch,
            "Exclude inbound connections, for a gateway that accepts them itself";
        DnsCapture: "dns-capture" _ ["AMBIENT_DNS_CAPTURE"] @ ["ambient.istio.io/dns-capture"] features [DnsAll], Switch,
            "Capture DNS queries to every server, to ztunnel at port 15053 [default: true]";
        RerouteInterfaces: "reroute-virtual-interfaces" _ [] @ ["istio.io/reroute-virtual-interfaces"]
            example "vm0,br+" features [Machines], Value("NAME,.."),
            "Interfaces of virtual machines, whose TCP counts as outbound";
        Ipv6: "ipv6" _ ["AMBIENT_IPV6"] features [Ipv6], Switch,
            "Capture IPv6 beside IPv4 [default: true]";
        ProbeAddress: "probe-address" _ []
            example "169.254.7.127,fd16:9254:7127:1337:ffff:ffff:ffff:ffff" features [Probes], Value("IP,.."),
            "Source addresses of the host's own calls, such as probes, which are not captured: at most one \
             address per family [default: 169.254.7.127,fd16:9254:7127:1337:ffff:ffff:ffff:ffff]";
        ProbeAddressV4: "" _ ["HOST_PROBE_SNAT_IP"] example "169.254.7.127" features [Probes], Value("IP"),
            "That address over IPv4, where the flag names none";
        ProbeAddressV6: "" _ ["HOST_PROBE_SNAT_IPV6"]
            example "fd16:9254:7127:1337:ffff:ffff:ffff:ffff" features [Probes], Value("IP"),
            "That address over IPv6, where the flag names none";
    }
}
