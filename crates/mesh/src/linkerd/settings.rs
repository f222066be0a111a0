//! What linkerd's proxy can be told about capture: the flags of its `proxy-init`, and the annotations of pods that say the
//! same.

use crate::mesh::{Feature, Mesh};
use crate::settings::Kind::{Switch, Value};
use crate::settings::examples::{self, closed, open};
use crate::settings::{Setting, Table, table_macro::settings};

/// The holder of linkerd's settings, whose names other meshes have too.
pub struct Linkerd;

settings! {
    Linkerd of Table::Of(Mesh::Linkerd);
    Capture {
        IncomingProxyPort: "incoming-proxy-port" 'p' [] @ ["config.linkerd.io/inbound-port"], Value("PORT"),
            "Proxy port that inbound TCP goes to [default: 4143; none as proxy-init]";
        OutgoingProxyPort: "outgoing-proxy-port" 'o' [] @ ["config.linkerd.io/outbound-port"], Value("PORT"),
            "Proxy port that outbound TCP goes to [default: 4140; none as proxy-init]";
        ProxyUid: "proxy-uid" 'u' [] @ ["config.linkerd.io/proxy-uid"], Value("UID"),
            "User whose traffic is the proxy's own, or -1 for none [default: 2102; none as proxy-init]";
        ProxyGid: "proxy-gid" 'g' [] @ ["config.linkerd.io/proxy-gid"], Value("GID"),
            "Group whose traffic is the proxy's own, or -1 for none [default: none]";
        PortsToRedirect: "ports-to-redirect" 'r' [] joined ",", Value("PORT,.."),
            "Inbound ports to capture, and no others [default: all]";
        InboundPortsToIgnore: "inbound-ports-to-ignore" _ [] @ ["config.linkerd.io/skip-inbound-ports"] joined ",",
            Value("PORT,.."), "Inbound ports to leave alone";
        OutboundPortsToIgnore: "outbound-ports-to-ignore" _ [] @ ["config.linkerd.io/skip-outbound-ports"] joined ",",
            Value("PORT,.."), "Outbound ports to leave alone";
        SubnetsToIgnore: "subnets-to-ignore" _ [] @ ["config.linkerd.io/skip-subnets"] joined ",", Value("CIDR,.."),
            "Networks whose calls to the pod are left alone";
        Ipv6: "ipv6" _ [], Switch,
            "Capture IPv6 too; =false leaves it alone [default: true]";
    }
    DropIn {
        Simulate: "simulate" _ [], Switch,
            "Tell the commands that would set the rules, and touch nothing";
        NetworkNamespace: "netns" _ [], Value("PATH"),
            "Work in this network namespace";
        UseWaitFlag: "use-wait-flag" 'w' [], Switch,
            "With --simulate: end each command that changes something with -w; the lock is waited for in any case";
        CloseWaitTimeout: "timeout-close-wait-secs" _ [], Value("SECONDS"),
            "How long conntrack remembers connections that one side has closed; 0 leaves that as it is [default: 0]";
        LogFormat: "log-format" _ [], Value("FORMAT"),
            "How log lines are written: plain or json [default: plain]";
        LogLevel: "log-level" _ [], Value("LEVEL"),
            "Which log lines are written: panic, fatal, error, warn, warning, info, debug or trace [default: info]";
        IptablesMode: "iptables-mode" _ [], Value("MODE"),
            "Which programs of iptables to use: legacy, nft, or plain for those without a suffix; wins over \
             --firewall-bin-path [default: legacy]";
        FirewallBinPath: "firewall-bin-path" _ [], Value("NAME"),
            "The same by a program's name: iptables-legacy, iptables-nft or iptables";
        FirewallSaveBinPath: "firewall-save-bin-path" _ [], Value("NAME"),
            "No effect: it follows from the program that sets rules";
    }
}

/// What may be given to them, in their order.
pub(crate) const EXAMPLES: &[examples::Row] = &[
    open(Linkerd::IncomingProxyPort, "4143"),
    open(Linkerd::OutgoingProxyPort, "4140"),
    open(Linkerd::ProxyUid, "2102"),
    open(Linkerd::ProxyGid, "2102"),
    open(Linkerd::PortsToRedirect, "80,443"),
    open(Linkerd::InboundPortsToIgnore, "4190,4191,9000-9099"),
    open(Linkerd::OutboundPortsToIgnore, "443,6443"),
    open(Linkerd::SubnetsToIgnore, "172.17.0.0/16"),
    open(Linkerd::NetworkNamespace, "/run/netns/pod"),
    open(Linkerd::CloseWaitTimeout, "3600"),
    closed(Linkerd::LogFormat, "json", &["plain", "json"]),
    closed(
        Linkerd::LogLevel,
        "debug",
        &["panic", "fatal", "error", "warn", "warning", "info", "debug", "trace"],
    ),
    closed(Linkerd::IptablesMode, "nft", &["legacy", "nft", "plain"]),
    closed(Linkerd::FirewallBinPath, "iptables-nft", &["iptables-legacy", "iptables-nft", "iptables"]),
    open(Linkerd::FirewallSaveBinPath, "iptables-nft-save"),
];

/// What they let people say.
pub(crate) const FEATURES: &[(Feature, Setting)] = &[
    (Feature::Listeners, Linkerd::IncomingProxyPort),
    (Feature::Listeners, Linkerd::OutgoingProxyPort),
    (Feature::Identity, Linkerd::ProxyUid),
    (Feature::Identity, Linkerd::ProxyGid),
    (Feature::InboundOnly, Linkerd::PortsToRedirect),
    (Feature::InboundExcept, Linkerd::InboundPortsToIgnore),
    (Feature::SourcesExcept, Linkerd::SubnetsToIgnore),
    (Feature::OutboundExcept, Linkerd::OutboundPortsToIgnore),
    (Feature::Ranges, Linkerd::InboundPortsToIgnore),
    (Feature::Ranges, Linkerd::OutboundPortsToIgnore),
    (Feature::Ipv6, Linkerd::Ipv6),
];
