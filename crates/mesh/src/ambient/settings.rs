//! Capture settings of ambient mode, with the variables and annotations of Istio's node agent.

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
            "Capture DNS queries to every server; ztunnel answers on port 15053 [default: true]";
        RerouteInterfaces: "reroute-virtual-interfaces" _ [] @ ["istio.io/reroute-virtual-interfaces"]
            example "vm0,br+" features [Machines], Value("NAME,.."),
            "Virtual machine interfaces; their TCP counts as outbound";
        Ipv6: "ipv6" _ ["AMBIENT_IPV6"] features [Ipv6], Switch,
            "Capture IPv6 too [default: true]";
        ProbeAddress: "probe-address" _ []
            example "169.254.7.127,fd16:9254:7127:1337:ffff:ffff:ffff:ffff" features [Probes], Value("IP,.."),
            "Excluded source addresses of the host's own calls, such as probes; at most one per family \
             [default: 169.254.7.127,fd16:9254:7127:1337:ffff:ffff:ffff:ffff]";
        ProbeAddressV4: "" _ ["HOST_PROBE_SNAT_IP"] example "169.254.7.127" features [Probes], Value("IP"),
            "IPv4 probe address, if --probe-address names none";
        ProbeAddressV6: "" _ ["HOST_PROBE_SNAT_IPV6"]
            example "fd16:9254:7127:1337:ffff:ffff:ffff:ffff" features [Probes], Value("IP"),
            "IPv6 probe address, if --probe-address names none";
    }
}
