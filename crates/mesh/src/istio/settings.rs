//! Capture settings of Istio's sidecar: upstream's flags, and ours.

use crate::mesh::Mesh;
use crate::settings::SettingKind::{Switch, Value};
use crate::settings::{Setting, SettingTable, settings};

settings! {
    Setting of SettingTable::Of(Mesh::Istio);
    Capture {
        EnvoyPort: "envoy-port" 'p' [] example "15001" features [Listeners], Value("PORT"),
            "Proxy port, or port range, for outbound TCP [default: 15001]";
        InboundCapturePort: "inbound-capture-port" 'z' ["INBOUND_CAPTURE_PORT"]
            example "15006" features [Listeners], Value("PORT"),
            "Proxy port, or port range, for inbound TCP [default: 15006]";
        InboundTunnelPort: "inbound-tunnel-port" 'e' ["INBOUND_TUNNEL_PORT"]
            example "15008" features [Listeners], Value("PORT"),
            "HBONE tunnel port, never captured [default: 15008]";
        ProxyUid: "proxy-uid" 'u' ["PROXY_UID"] example "1337" features [Identity], Value("USER,.."),
            "Users, by number or name, whose traffic is the proxy's own [default: user istio-proxy, or 1337]";
        ProxyGid: "proxy-gid" 'g' ["PROXY_GID"] example "1337" features [Identity], Value("GROUP,.."),
            "Groups, by number or name, whose traffic is the proxy's own [default: the numbers of --proxy-uid]";
        InterceptionMode: "istio-inbound-interception-mode" 'm' ["ISTIO_INBOUND_INTERCEPTION_MODE"]
            @ ["sidecar.istio.io/interceptionMode"]
            example "TPROXY" of ["REDIRECT", "TPROXY", "NONE"] features [Tproxy], Value("MODE"),
            "REDIRECT, TPROXY, or NONE to capture nothing [default: REDIRECT]";
        InboundPorts: "istio-inbound-ports" 'b' ["ISTIO_INBOUND_PORTS"]
            @ ["traffic.sidecar.istio.io/includeInboundPorts"]
            example "80,8000-8999" features [Directions, InboundOnly, Ranges], Value("PORT,.."),
            "Inbound ports to capture, or '*' for all [default: none; in manifests and the sandbox, all]";
        InboundPortsExclude: "istio-local-exclude-ports" 'd' ["ISTIO_LOCAL_EXCLUDE_PORTS"]
            @ ["traffic.sidecar.istio.io/excludeInboundPorts"]
            example "15020,15021,15090" features [InboundExcept, Ranges], Value("PORT,.."),
            "Inbound ports to exclude; only with -b '*'";
        ExcludeInterfaces: "istio-exclude-interfaces" 'c' ["ISTIO_EXCLUDE_INTERFACES"]
            @ ["traffic.sidecar.istio.io/excludeInterfaces"]
            example "eth1,br+" features [Interfaces], Value("NAME,.."),
            "Interfaces to exclude in both directions; 'br+' matches every name that starts with br";
        ServiceCidr: "istio-service-cidr" 'i' ["ISTIO_SERVICE_CIDR"]
            @ ["traffic.sidecar.istio.io/includeOutboundIPRanges"]
            example "10.0.0.0/8,fd00::/8" features [Directions, OutboundNetworks], Value("CIDR,.."),
            "Outbound networks to capture, or '*' for all [default: none; in manifests and the sandbox, all]";
        ServiceExcludeCidr: "istio-service-exclude-cidr" 'x' ["ISTIO_SERVICE_EXCLUDE_CIDR"]
            @ ["traffic.sidecar.istio.io/excludeOutboundIPRanges"]
            example "10.96.0.1/32" features [OutboundNetworksExcept], Value("CIDR,.."),
            "Outbound networks to exclude";
        OutboundPorts: "istio-outbound-ports" 'q' ["ISTIO_OUTBOUND_PORTS"]
            @ ["traffic.sidecar.istio.io/includeOutboundPorts"]
            example "443,9000-9099" features [OutboundOnly, Ranges], Value("PORT,.."),
            "Outbound ports to capture in all networks";
        OutboundPortsExclude: "istio-local-outbound-ports-exclude" 'o' ["ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE"]
            @ ["traffic.sidecar.istio.io/excludeOutboundPorts"]
            example "5432" features [OutboundExcept, Ranges], Value("PORT,.."),
            "Outbound ports to exclude, TCP and UDP";
        VmInterfaces: "kube-virt-interfaces" 'k' ["KUBE_VIRT_INTERFACES"]
            @ ["istio.io/reroute-virtual-interfaces", "traffic.sidecar.istio.io/kubevirtInterfaces"]
            example "vm0" features [Machines], Value("NAME,.."),
            "Virtual machine interfaces; their inbound traffic counts as outbound";
        TproxyMark: "istio-inbound-tproxy-mark" 't' ["ISTIO_INBOUND_TPROXY_MARK"]
            example "1337" features [Tproxy], Value("MARK"),
            "Mark of packets handed to the proxy in TPROXY mode [default: 1337]";
        TproxyRouteTable: "istio-inbound-tproxy-route-table" 'r' ["ISTIO_INBOUND_TPROXY_ROUTE_TABLE"]
            example "133" features [Tproxy], Value("TABLE"),
            "Routing table that delivers marked packets in TPROXY mode [default: 133]";
        RedirectDns: "redirect-dns" _ ["REDIRECT_DNS", "ISTIO_META_DNS_CAPTURE"] features [Dns], Switch,
            "Capture DNS queries to resolv.conf's servers; the agent answers on port 15053";
        CaptureAllDns: "capture-all-dns" _ ["CAPTURE_ALL_DNS"] features [DnsAll], Switch,
            "With --redirect-dns: capture every packet to port 53";
        DropInvalid: "drop-invalid" _ ["DROP_INVALID", "INVALID_DROP"] features [Invalid], Switch,
            "Drop packets in conntrack state INVALID";
        DualStack: "dual-stack" _ ["DUAL_STACK", "ISTIO_DUAL_STACK"] features [Ipv6], Switch,
            "Capture IPv6 even if the pod's first address is IPv4";
        TraceLogging: "iptables-trace-logging" _ ["IPTABLES_TRACE_LOGGING"] features [Logs], Switch,
            "Report each rule's hits to NFLOG group 1337, under the rule's name";
        OwnerGroups: "" _ ["ISTIO_OUTBOUND_OWNER_GROUPS"] example "1000,2000" features [Groups], Value("GROUP,.."),
            "Groups whose outbound traffic is captured, or '*' for all [default: *]";
        OwnerGroupsExclude: "" _ ["ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE"] example "2000" features [Groups], Value("GROUP,.."),
            "Groups whose outbound traffic is excluded; only with all groups captured";
        LoopbackCidr: "" _ ["ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR"] example "127.0.0.0/8" features [Loopback], Value("CIDR"),
            "IPv4 network that counts as loopback [default: 127.0.0.1/32]";
        EnvoyUser: "" _ ["ENVOY_USER"] example "root" features [Identity], Value("NAME"),
            "User whose number is the default of --proxy-uid [default: istio-proxy]";
    }
}
