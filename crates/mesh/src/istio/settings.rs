//! What Istio's sidecar can be told about capture: upstream's flags, and ours.

use crate::mesh::{Feature, Mesh};
use crate::settings::Kind::{Switch, Value};
use crate::settings::examples::{self, closed, open};
use crate::settings::{Setting, Table, table_macro::settings};

settings! {
    Setting of Table::Of(Mesh::Istio);
    Capture {
        EnvoyPort: "envoy-port" 'p' [], Value("PORT"),
            "Proxy port that outbound TCP goes to, or a range of them [default: 15001]";
        InboundCapturePort: "inbound-capture-port" 'z' ["INBOUND_CAPTURE_PORT"], Value("PORT"),
            "Proxy port that inbound TCP goes to, or a range of them [default: 15006]";
        InboundTunnelPort: "inbound-tunnel-port" 'e' ["INBOUND_TUNNEL_PORT"], Value("PORT"),
            "Port of the HBONE tunnel, never captured [default: 15008]";
        ProxyUid: "proxy-uid" 'u' ["PROXY_UID"], Value("USER,.."),
            "Users, by number or name, whose traffic is the proxy's own [default: user istio-proxy, or 1337]";
        ProxyGid: "proxy-gid" 'g' ["PROXY_GID"], Value("GROUP,.."),
            "Groups, by number or name, whose traffic is the proxy's own [default: the numbers of --proxy-uid]";
        InterceptionMode: "istio-inbound-interception-mode" 'm' ["ISTIO_INBOUND_INTERCEPTION_MODE"], Value("MODE"),
            "REDIRECT, TPROXY, or NONE to capture nothing [default: REDIRECT]";
        InboundPorts: "istio-inbound-ports" 'b' ["ISTIO_INBOUND_PORTS"], Value("PORT,.."),
            "Inbound ports to capture, or '*' for all; empty captures none";
        InboundPortsExclude: "istio-local-exclude-ports" 'd' ["ISTIO_LOCAL_EXCLUDE_PORTS"], Value("PORT,.."),
            "Inbound ports to leave alone; only with -b '*'";
        ExcludeInterfaces: "istio-exclude-interfaces" 'c' ["ISTIO_EXCLUDE_INTERFACES"], Value("NAME,.."),
            "Interfaces to leave alone in both directions; 'br+' means all that start with br";
        ServiceCidr: "istio-service-cidr" 'i' ["ISTIO_SERVICE_CIDR"], Value("CIDR,.."),
            "Outbound networks to capture, or '*' for all; empty captures none";
        ServiceExcludeCidr: "istio-service-exclude-cidr" 'x' ["ISTIO_SERVICE_EXCLUDE_CIDR"], Value("CIDR,.."),
            "Outbound networks to leave alone";
        OutboundPorts: "istio-outbound-ports" 'q' ["ISTIO_OUTBOUND_PORTS"], Value("PORT,.."),
            "Outbound ports to capture whatever the network";
        OutboundPortsExclude: "istio-local-outbound-ports-exclude" 'o' ["ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE"],
            Value("PORT,.."), "Outbound ports to leave alone, TCP and UDP";
        VmInterfaces: "kube-virt-interfaces" 'k' ["KUBE_VIRT_INTERFACES"], Value("NAME,.."),
            "Interfaces of virtual machines, whose inbound traffic counts as outbound";
        TproxyMark: "istio-inbound-tproxy-mark" 't' ["ISTIO_INBOUND_TPROXY_MARK"], Value("MARK"),
            "Mark of packets handed to the proxy in TPROXY mode [default: 1337]";
        TproxyRouteTable: "istio-inbound-tproxy-route-table" 'r' ["ISTIO_INBOUND_TPROXY_ROUTE_TABLE"],
            Value("TABLE"), "Routing table that delivers marked packets in TPROXY mode [default: 133]";
        RedirectDns: "redirect-dns" _ ["REDIRECT_DNS", "ISTIO_META_DNS_CAPTURE"], Switch,
            "Capture DNS to the servers of resolv.conf, to the agent at port 15053";
        CaptureAllDns: "capture-all-dns" _ ["CAPTURE_ALL_DNS"], Switch,
            "With --redirect-dns: capture every packet to port 53";
        DropInvalid: "drop-invalid" _ ["DROP_INVALID", "INVALID_DROP"], Switch,
            "Drop packets that conntrack calls INVALID";
        DualStack: "dual-stack" _ ["DUAL_STACK", "ISTIO_DUAL_STACK"], Switch,
            "Capture both families; without it, the first address decides about IPv6";
        TraceLogging: "iptables-trace-logging" _ ["IPTABLES_TRACE_LOGGING"], Switch,
            "Report each rule's hits to NFLOG group 1337, under the rule's name";
        OwnerGroups: "" _ ["ISTIO_OUTBOUND_OWNER_GROUPS"], Value("GROUP,.."),
            "Groups whose outbound traffic is captured, or '*' for all [default: *]";
        OwnerGroupsExclude: "" _ ["ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE"], Value("GROUP,.."),
            "Groups whose outbound traffic is left alone; only with all groups captured";
        LoopbackCidr: "" _ ["ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR"], Value("CIDR"),
            "IPv4 network that counts as loopback [default: 127.0.0.1/32]";
        EnvoyUser: "" _ ["ENVOY_USER"], Value("NAME"),
            "User whose number is the default of --proxy-uid [default: istio-proxy]";
    }
}

/// What may be given to them, in their order.
pub(crate) const EXAMPLES: &[examples::Row] = &[
    open(Setting::EnvoyPort, "15001"),
    open(Setting::InboundCapturePort, "15006"),
    open(Setting::InboundTunnelPort, "15008"),
    open(Setting::ProxyUid, "1337"),
    open(Setting::ProxyGid, "1337"),
    closed(Setting::InterceptionMode, "TPROXY", &["REDIRECT", "TPROXY", "NONE"]),
    open(Setting::InboundPorts, "80,8000-8999"),
    open(Setting::InboundPortsExclude, "15020,15021,15090"),
    open(Setting::ExcludeInterfaces, "eth1,br+"),
    open(Setting::ServiceCidr, "10.0.0.0/8,fd00::/8"),
    open(Setting::ServiceExcludeCidr, "10.96.0.1/32"),
    open(Setting::OutboundPorts, "443,9000-9099"),
    open(Setting::OutboundPortsExclude, "5432"),
    open(Setting::VmInterfaces, "vm0"),
    open(Setting::TproxyMark, "1337"),
    open(Setting::TproxyRouteTable, "133"),
    open(Setting::OwnerGroups, "1000,2000"),
    open(Setting::OwnerGroupsExclude, "2000"),
    open(Setting::LoopbackCidr, "127.0.0.0/8"),
    open(Setting::EnvoyUser, "root"),
];

/// What they let people say.
pub(crate) const FEATURES: &[(Feature, Setting)] = &[
    (Feature::Listeners, Setting::EnvoyPort),
    (Feature::Listeners, Setting::InboundCapturePort),
    (Feature::Listeners, Setting::InboundTunnelPort),
    (Feature::Identity, Setting::ProxyUid),
    (Feature::Identity, Setting::ProxyGid),
    (Feature::Identity, Setting::EnvoyUser),
    (Feature::Directions, Setting::InboundPorts),
    (Feature::Directions, Setting::ServiceCidr),
    (Feature::InboundOnly, Setting::InboundPorts),
    (Feature::InboundExcept, Setting::InboundPortsExclude),
    (Feature::OutboundNetworks, Setting::ServiceCidr),
    (Feature::OutboundNetworksExcept, Setting::ServiceExcludeCidr),
    (Feature::OutboundOnly, Setting::OutboundPorts),
    (Feature::OutboundExcept, Setting::OutboundPortsExclude),
    (Feature::Ranges, Setting::InboundPorts),
    (Feature::Ranges, Setting::InboundPortsExclude),
    (Feature::Ranges, Setting::OutboundPorts),
    (Feature::Ranges, Setting::OutboundPortsExclude),
    (Feature::Groups, Setting::OwnerGroups),
    (Feature::Groups, Setting::OwnerGroupsExclude),
    (Feature::Interfaces, Setting::ExcludeInterfaces),
    (Feature::Machines, Setting::VmInterfaces),
    (Feature::Loopback, Setting::LoopbackCidr),
    (Feature::Dns, Setting::RedirectDns),
    (Feature::DnsAll, Setting::CaptureAllDns),
    (Feature::Tproxy, Setting::InterceptionMode),
    (Feature::Tproxy, Setting::TproxyMark),
    (Feature::Tproxy, Setting::TproxyRouteTable),
    (Feature::Ipv6, Setting::DualStack),
    (Feature::Invalid, Setting::DropInvalid),
    (Feature::Logs, Setting::TraceLogging),
];
