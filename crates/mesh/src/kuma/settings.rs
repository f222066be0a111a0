//! Capture settings of Kuma's proxy: upstream's flags and variables, and flags where upstream has only variables.

use crate::mesh::Mesh;
use crate::settings::SettingKind::{Switch, Value};
use crate::settings::{SettingTable, settings};

#[derive(Clone, Copy, Debug)]
pub struct Kuma;

settings! {
    Kuma of SettingTable::Of(Mesh::Kuma);
    Capture {
        ProxyUser: "kuma-dp-user" _ ["KUMA_TRANSPARENT_PROXY_KUMA_DP_USER"] @ ["kuma.io/sidecar-uid"] key "kumaDPUser"
            example "5678" features [Identity], Value("USER"),
            "User, by number or name, whose traffic is the proxy's own [default: 5678, or user kuma-dp]";
        IpFamilyMode: "ip-family-mode" _ ["KUMA_TRANSPARENT_PROXY_IP_FAMILY_MODE"]
            @ ["kuma.io/transparent-proxying-ip-family-mode"] key "ipFamilyMode" example "ipv4"
            of ["dualstack", "ipv4"] features [Ipv6], Value("MODE"),
            "dualstack (IPv6 too if the pod has it) or ipv4 [default: dualstack]";
        RedirectInbound: "redirect-inbound" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_INBOUND_ENABLED"]
            key "redirect.inbound.enabled" features [Directions], Switch,
            "Capture inbound TCP [default: true]";
        RedirectOutbound: "redirect-outbound" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_OUTBOUND_ENABLED"]
            key "redirect.outbound.enabled" features [Directions], Switch,
            "Capture outbound TCP [default: true]";
        InboundPort: "redirect-inbound-port" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_INBOUND_PORT"]
            @ ["kuma.io/transparent-proxying-inbound-port"] key "redirect.inbound.port" example "15006"
            features [Listeners], Value("PORT"),
            "Proxy port for inbound TCP [default: 15006]";
        OutboundPort: "redirect-outbound-port" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_OUTBOUND_PORT"]
            @ ["kuma.io/transparent-proxying-outbound-port"] key "redirect.outbound.port" example "15001"
            features [Listeners], Value("PORT"),
            "Proxy port for outbound TCP [default: 15001]";
        InboundPortsInclude: "include-inbound-ports" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_INBOUND_INCLUDE_PORTS"]
            key "redirect.inbound.includePorts" example "80,8080" features [InboundOnly], Value("PORT,.."),
            "Inbound ports to capture, and no others; empty captures all";
        OutboundPortsInclude: "include-outbound-ports" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_OUTBOUND_INCLUDE_PORTS"]
            key "redirect.outbound.includePorts" example "80,443" features [OutboundOnly], Value("PORT,.."),
            "Outbound ports to capture, and no others; empty captures all";
        InboundPortsExclude: "exclude-inbound-ports" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_INBOUND_EXCLUDE_PORTS"]
            @ ["traffic.kuma.io/exclude-inbound-ports"] key "redirect.inbound.excludePorts" example "9901"
            features [InboundExcept], Value("PORT,.."),
            "Inbound ports to exclude";
        OutboundPortsExclude: "exclude-outbound-ports" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_OUTBOUND_EXCLUDE_PORTS"]
            @ ["traffic.kuma.io/exclude-outbound-ports"] key "redirect.outbound.excludePorts" example "5432"
            features [OutboundExcept], Value("PORT,.."),
            "Outbound ports to exclude";
        InboundIpsExclude: "exclude-inbound-ips" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_INBOUND_EXCLUDE_PORTS_FOR_IPS"]
            @ ["traffic.kuma.io/exclude-inbound-ips"] key "redirect.inbound.excludePortsForIPs" joined ","
            example "10.0.0.1,fd00::/8" features [SourcesExcept], Value("CIDR,.."),
            "Addresses or networks whose calls to the pod are excluded; repeatable";
        OutboundIpsExclude: "exclude-outbound-ips" _
            ["KUMA_TRANSPARENT_PROXY_REDIRECT_OUTBOUND_EXCLUDE_PORTS_FOR_IPS"]
            @ ["traffic.kuma.io/exclude-outbound-ips"] key "redirect.outbound.excludePortsForIPs" joined ","
            example "10.96.0.1,fd00::/8" features [OutboundNetworksExcept], Value("CIDR,.."),
            "Addresses or networks to exclude from outbound capture; repeatable";
        OutboundPortsForUids: "exclude-outbound-ports-for-uids" _
            ["KUMA_TRANSPARENT_PROXY_REDIRECT_OUTBOUND_EXCLUDE_PORTS_FOR_UIDS"]
            @ ["traffic.kuma.io/exclude-outbound-ports-for-uids"] key "redirect.outbound.excludePortsForUIDs"
            joined ";" example "tcp:1900,1000-2000:106-108" features [PortsByUser], Value("[[PROTO:]PORTS:]UID;.."),
            "Outbound ports to exclude for a user or user range, over tcp, udp or both; repeatable";
        InboundInsert: "redirect-inbound-insert-instead-of-append" _
            ["KUMA_TRANSPARENT_PROXY_REDIRECT_INBOUND_INSERT_REDIRECT_INSTEAD_OF_APPEND"]
            key "redirect.inbound.insertRedirectInsteadOfAppend" features [Form], Switch,
            "Insert the inbound TCP jump into PREROUTING instead of appending it";
        OutboundInsert: "redirect-outbound-insert-instead-of-append" _
            ["KUMA_TRANSPARENT_PROXY_REDIRECT_OUTBOUND_INSERT_REDIRECT_INSTEAD_OF_APPEND"]
            key "redirect.outbound.insertRedirectInsteadOfAppend" features [Form], Switch,
            "Insert the outbound TCP jump into OUTPUT instead of appending it";
        RedirectDns: "redirect-dns" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_DNS_ENABLED"] @ ["kuma.io/builtin-dns"]
            key "redirect.dns.enabled" features [Dns], Switch,
            "Capture DNS queries over UDP to the servers of resolv.conf";
        CaptureAllDns: "redirect-all-dns-traffic" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_DNS_CAPTURE_ALL"]
            @ ["kuma.io/builtin-dns"] key "redirect.dns.captureAll" features [DnsAll], Switch,
            "Capture DNS queries over UDP to any server; not together with --redirect-dns";
        DnsPort: "redirect-dns-port" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_DNS_PORT"] @ ["kuma.io/builtin-dns-port"]
            key "redirect.dns.port" example "15053" features [Listeners], Value("PORT"),
            "Proxy port for DNS queries [default: 15053]";
        SkipZoneSplit: "skip-dns-conntrack-zone-split" _
            ["KUMA_TRANSPARENT_PROXY_REDIRECT_DNS_SKIP_CONNTRACK_ZONE_SPLIT"]
            key "redirect.dns.skipConntrackZoneSplit" features [Dns], Switch,
            "Keep the proxy's and applications' DNS queries in one conntrack zone";
        ResolvConf: "resolv-config-path" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_DNS_RESOLV_CONFIG_PATH"]
            key "redirect.dns.resolvConfigPath" example "/etc/resolv.conf" features [Dns], Value("PATH"),
            "File with the DNS servers [default: /etc/resolv.conf]";
        Vnet: "vnet" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_VNET_NETWORKS"] key "redirect.vnet.networks" joined ","
            example "docker0:172.17.0.0/16,br+:172.18.0.0/16" features [Machines], Value("NAME:CIDR,.."),
            "Virtual networks: interfaces with their CIDRs; 'br+' matches every name that starts with br; \
             repeatable";
        DropInvalid: "drop-invalid-packets" _ ["KUMA_TRANSPARENT_PROXY_DROP_INVALID_PACKETS"]
            @ ["traffic.kuma.io/drop-invalid-packets"] key "dropInvalidPackets" features [Invalid], Switch,
            "Drop packets in conntrack state INVALID";
        Logs: "iptables-logs" _ ["KUMA_TRANSPARENT_PROXY_LOG_ENABLED"] @ ["traffic.kuma.io/iptables-logs"]
            key "log.enabled" features [Logs], Switch,
            "Make the kernel log packets in nat PREROUTING and OUTPUT";
        LogLevel: "iptables-log-level" _ ["KUMA_TRANSPARENT_PROXY_LOG_LEVEL"] key "log.level" example "7"
            features [Logs], Value("LEVEL"),
            "With --iptables-logs: kernel log level, 0 to 7 [default: 7]";
        DisableComments: "disable-comments" _ ["KUMA_TRANSPARENT_PROXY_COMMENTS_DISABLED"] key "comments.disabled"
            features [Form], Switch,
            "Omit comments that are not needed to recognize the rules";
        InboundPortsForUids: "" _ ["KUMA_TRANSPARENT_PROXY_REDIRECT_INBOUND_EXCLUDE_PORTS_FOR_UIDS"]
            key "redirect.inbound.excludePortsForUIDs" joined ";" example "" features [PortsByUser]
            refused ["is not possible: inbound packets have no user, so the ports would be excluded for all callers",
                "use {--exclude-inbound-ports}"], Value("[[PROTO:]PORTS:]UID;.."),
            "Must be empty: inbound packets have no user";
    }
    DropIn {
        Verb: "verb" _ [] example "install" of ["install", "uninstall"], Value("WHAT"),
            "Action: install or uninstall";
        Component: "component" _ [] example "transparent-proxy" of ["transparent-proxy"], Value("WHAT"),
            "Component: transparent-proxy";
        Config: "config" _ [] joined "," example "tproxy.yaml", Value("FILE,.."),
            "YAML or JSON configuration files, - for standard input, or one file's content; later files win; \
             repeatable";
        ConfigFile: "config-file" _ [] joined "," example "tproxy.yaml", Value("FILE,.."),
            "Name of --config before Kuma 3.0";
        DpUid: "kuma-dp-uid" _ [] example "5678", Value("UID"),
            "Former name of --kuma-dp-user";
        DryRun: "dry-run" _ ["KUMA_TRANSPARENT_PROXY_DRY_RUN"] key "dryRun", Switch,
            "Print both families' rules, or the rules to remove; change nothing";
        Verbose: "verbose" _ ["KUMA_TRANSPARENT_PROXY_VERBOSE"] key "verbose", Switch,
            "With --dry-run: long options, and a heading before each chain";
        LockWait: "wait" _ ["KUMA_TRANSPARENT_PROXY_WAIT"] key "wait" example "5", Value("SECONDS"),
            "How long to wait for the iptables lock, in seconds [default: 5]";
        LockWaitInterval: "wait-interval" _ ["KUMA_TRANSPARENT_PROXY_WAIT_INTERVAL"] key "waitInterval" example "0",
            Value("MICROSECONDS"),
            "No effect: the lock is not polled";
        MaxRetries: "max-retries" _ ["KUMA_TRANSPARENT_PROXY_RETRY_MAX_RETRIES"] key "retry.maxRetries" example "4",
            Value("COUNT"),
            "No effect: a change is planned again, up to five times, if another program changes the rules meanwhile";
        RetrySleep: "sleep-between-retries" _ ["KUMA_TRANSPARENT_PROXY_RETRY_SLEEP_BETWEEN_RETRIES"]
            key "retry.sleepBetweenRetries" example "2s", Value("TIME"),
            "No effect, like --max-retries";
        Executables: "iptables-executables" _ ["KUMA_TRANSPARENT_PROXY_IPTABLES_EXECUTABLES"]
            key "iptablesExecutables"
            example "iptables:/sbin/iptables-nft,iptables-save:/sbin/iptables-nft-save,iptables-restore:/sbin/iptables-nft-restore",
            Value("NAME:PATH,.."),
            "iptables programs that select the variant, nft or legacy; the programs on PATH are run";
        StoreFirewalld: "store-firewalld" _ ["KUMA_TRANSPARENT_PROXY_STORE_FIREWALLD"] key "storeFirewalld", Switch,
            "No effect: firewalld is given no rules";
        Ebpf: "ebpf-enabled" _ ["KUMA_TRANSPARENT_PROXY_EBPF_ENABLED"] @ ["kuma.io/transparent-proxying-ebpf"]
            key "ebpf.enabled" refused ["requests eBPF, which is not supported: nf_tables or iptables \
                                         rules capture the same traffic",
                "remove it"], Switch,
            "Refused: capture uses nf_tables or iptables rules";
        CniMode: "" _ ["KUMA_TRANSPARENT_PROXY_CNI_MODE"] key "cniMode", Switch,
            "Run on a node for a pod: users by number only";
    }
}
