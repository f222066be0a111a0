//! Capture settings of linkerd's proxy: flags of its `proxy-init`, and pod annotations with the same meaning.

use crate::mesh::Mesh;
use crate::settings::SettingKind::{Switch, Value};
use crate::settings::{SettingTable, settings};

pub struct Linkerd;

settings! {
    Linkerd of SettingTable::Of(Mesh::Linkerd);
    Capture {
        IncomingProxyPort: "incoming-proxy-port" 'p' [] @ ["config.linkerd.io/inbound-port"]
            example "4143" features [Listeners], Value("PORT"),
            "Proxy port for inbound TCP [default: 4143; linkerd-init requires it]";
        OutgoingProxyPort: "outgoing-proxy-port" 'o' [] @ ["config.linkerd.io/outbound-port"]
            example "4140" features [Listeners], Value("PORT"),
            "Proxy port for outbound TCP [default: 4140; linkerd-init requires it]";
        ProxyUid: "proxy-uid" 'u' [] @ ["config.linkerd.io/proxy-uid"] example "2102" features [Identity], Value("UID"),
            "User whose traffic is the proxy's own, or -1 for none [default: 2102; none in linkerd-init]";
        ProxyGid: "proxy-gid" 'g' [] @ ["config.linkerd.io/proxy-gid"] example "2102" features [Identity], Value("GID"),
            "Group whose traffic is the proxy's own, or -1 for none [default: none]";
        PortsToRedirect: "ports-to-redirect" 'r' [] joined "," example "80,443" features [InboundOnly], Value("PORT,.."),
            "Inbound ports to capture, and no others [default: all]";
        InboundPortsToIgnore: "inbound-ports-to-ignore" _ [] @ ["config.linkerd.io/skip-inbound-ports"] joined ","
            example "4190,4191,9000-9099" features [InboundExcept, Ranges], Value("PORT,.."),
            "Inbound ports to exclude";
        OutboundPortsToIgnore: "outbound-ports-to-ignore" _ [] @ ["config.linkerd.io/skip-outbound-ports"] joined ","
            example "443,6443" features [OutboundExcept, Ranges], Value("PORT,.."),
            "Outbound ports to exclude";
        SubnetsToIgnore: "subnets-to-ignore" _ [] @ ["config.linkerd.io/skip-subnets"] joined ","
            example "172.17.0.0/16" features [SourcesExcept], Value("CIDR,.."),
            "Networks whose calls to the pod are excluded";
        Ipv6: "ipv6" _ [] features [Ipv6], Switch,
            "Capture IPv6 too [default: true]";
    }
    DropIn {
        Simulate: "simulate" _ [], Switch,
            "Print the commands that would set the rules, and change nothing";
        NetworkNamespace: "netns" _ [] example "/run/netns/pod", Value("PATH"),
            "Work in this network namespace";
        UseWaitFlag: "use-wait-flag" 'w' [], Switch,
            "With --simulate: append -w to each command that changes something; linkerd-init always waits for the lock";
        CloseWaitTimeout: "timeout-close-wait-secs" _ [] example "3600", Value("SECONDS"),
            "How long conntrack remembers half-closed connections, in seconds; 0 keeps the kernel's value [default: 0]";
        LogFormat: "log-format" _ [] example "json" of ["plain", "json"], Value("FORMAT"),
            "Log format: plain or json [default: plain]";
        LogLevel: "log-level" _ []
            example "debug" of ["panic", "fatal", "error", "warn", "warning", "info", "debug", "trace"], Value("LEVEL"),
            "Log level: panic, fatal, error, warn, warning, info, debug or trace [default: info]";
        IptablesMode: "iptables-mode" _ [] example "nft" of ["legacy", "nft", "plain"], Value("MODE"),
            "Overrides --firewall-bin-path with these iptables programs: legacy, nft, or plain (no suffix) [default: legacy]";
        FirewallBinPath: "firewall-bin-path" _ []
            example "iptables-nft" of ["iptables-legacy", "iptables-nft", "iptables"], Value("NAME"),
            "Like --iptables-mode, by program name: iptables-legacy, iptables-nft or iptables";
        FirewallSaveBinPath: "firewall-save-bin-path" _ [] example "iptables-nft-save", Value("NAME"),
            "No effect: derived from the program that sets rules";
    }
}
