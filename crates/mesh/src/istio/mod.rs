//! Istio's sidecar: the capture of `istio-iptables`.

pub mod annotations;
mod config;
pub mod defaults;
mod ownership;
mod rules;
mod settings;

pub use crate::facts::DnsCapture;
pub use config::{CaptureConfig, Interception};
pub use ownership::{OWNERSHIP, PREFIX};
pub use rules::Reason;

pub(crate) use config::configure;
pub(crate) use rules::write;

use crate::Setting;
use crate::facts::{ConfigKeys, Ipv6Advice, ListItem, Listeners, Lists, Proxy, ProxyProgram, Selector};
use crate::limit::Caution;
use crate::policy::PolicyFacts;
use crate::registry::{Capture, MeshEntry};
use crate::sources::Raw;
use ::rules::{ByFamily, Cidr, Family, Protocol, finding::Code};

/// Pods that no other mesh recognizes are Istio's, read by [`crate::settings::mapping`].
pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[
        (Setting::InboundPorts, "*", &[]),
        (Setting::InboundPortsExclude, "15090,15021,15020", &[Setting::InboundPorts]),
        (Setting::ServiceCidr, "*", &[]),
        (Setting::DualStack, "true", &[]),
    ],
    pods: None,
    annotations: annotations::ALL,
    proxy_program: ProxyProgram {
        name: "Envoy",
        resolver: Some("agent"),
        tunnel: Some("HBONE"),
        ports: &defaults::SERVED_PORTS,
    },
    reasons: rules::REASONS,
    chains: rules::CHAINS,
    keys: ConfigKeys {
        off: Some((
            Setting::InterceptionMode,
            "give REDIRECT or TPROXY, or drop the options that select traffic",
        )),
        on: (
            Some(Setting::ServiceCidr),
            "give options that capture traffic, such as {-i} '*' and {-b} '*', or {-m} NONE",
        ),
        ipv6: (Setting::DualStack, "give {--dual-stack}"),
        proxy: Some(Setting::ProxyUid),
        listeners: Some([Setting::EnvoyPort, Setting::InboundCapturePort]),
    },
    without_ipv6: Some(without_ipv6),
    limits: &[],
    cautions: &[
        Caution::of_invalid_packets(Setting::DropInvalid, "give {--drop-invalid}"),
        Caution {
            code: Code::VmWithTproxy,
            is_warning: true,
            setting: Setting::VmInterfaces,
            applies: |facts| facts.captures_inbound && facts.is_transparent() && facts.has_machines(),
            text: "with TPROXY, traffic of virtual machines is captured as inbound, and answers to their \
                   excluded connections are mistaken for the proxy's, so that these never open",
            remedy: "use {-m} REDIRECT",
        },
        Caution {
            code: Code::PortsCollide,
            is_warning: false,
            setting: Setting::InboundCapturePort,
            applies: |facts| facts.joins_ports() && !facts.is_transparent(),
            text: "several ports are redirected to one, where two connections of a client from the same source port collide",
            remedy: "give a range of ports, if the proxy can listen on one, or use TPROXY",
        },
        Caution::unused(
            Setting::InboundPortsExclude,
            |facts| !facts.is(Setting::InboundPorts, "*"),
            "it excludes ports from {-b} '*', which is not given",
            "drop the option, or give {-b} '*' to capture all other ports",
        ),
        Caution::unused(
            Setting::OutboundPorts,
            |facts| facts.is(Setting::ServiceCidr, "*"),
            "it lists ports that {-i} '*' captures anyway",
            "drop the option",
        ),
        Caution::unused(
            Setting::OwnerGroupsExclude,
            |facts| facts.raw.get(Setting::OwnerGroups).is_some() && !facts.is(Setting::OwnerGroups, "*"),
            "it excludes groups from all groups, but a list of groups is captured",
            "drop the variable",
        ),
        Caution::unused(
            Setting::TproxyMark,
            |facts| !facts.is(Setting::InterceptionMode, "TPROXY"),
            "it marks packets in TPROXY mode, which is off",
            "drop the option, or give {-m} TPROXY",
        ),
        Caution::unused(
            Setting::TproxyRouteTable,
            |facts| !facts.is(Setting::InterceptionMode, "TPROXY"),
            "it routes packets in TPROXY mode, which is off",
            "drop the option, or give {-m} TPROXY",
        ),
        Caution::unused(
            Setting::DnsServers,
            |facts| !facts.raw.is_on(Setting::RedirectDns),
            "it names servers, but DNS is not captured",
            "drop the option, or give {--redirect-dns}",
        ),
        Caution::unused(
            Setting::DnsServers,
            |facts| facts.raw.is_on(Setting::RedirectDns) && facts.raw.is_on(Setting::CaptureAllDns),
            "it names servers, but queries to any server are captured",
            "drop the option, or {--capture-all-dns}",
        ),
        Caution::unused(
            Setting::ServiceExcludeCidr,
            |facts| !facts.has(Setting::ServiceCidr) && !facts.has(Setting::OutboundPorts),
            "it excludes networks, but no outbound network is captured",
            "drop the option, or give {-i}",
        ),
    ],
    remedy_of_gap: ByFamily {
        v4: "name the pod's IPv4 address in --pod-ips when the rules are set",
        v6: "set the rules with --dual-stack, and with the address in --pod-ips if it is given",
    },
    recognition: ownership::RECOGNITION,
};

pub fn of(capture: &Capture) -> Option<&CaptureConfig> {
    match capture {
        Capture::Istio(config) => Some(config),
        _ => None,
    }
}

pub(crate) fn facts(config: &CaptureConfig) -> PolicyFacts {
    let proxy = Proxy {
        uids: config.proxy_uids.clone(),
        gids: config.proxy_gids.clone(),
        has_passthrough: true,
        ..Proxy::default()
    };
    if config.interception == Interception::None {
        return PolicyFacts { ipv6: config.ipv6, captures_nothing: true, proxy, ..PolicyFacts::default() };
    }
    let listeners = Listeners {
        outbound: Some(config.outbound_listener),
        // The proxy's calls to its own pod go there, independent of captured ports.
        inbound: Some(config.inbound_listener),
        dns: (config.dns != DnsCapture::Off).then_some(defaults::AGENT_PORT),
        tunnel: Some(config.tunnel_port),
        transparent: match config.interception {
            Interception::Tproxy { mark, .. } => Some(mark),
            Interception::Redirect | Interception::None => None,
        },
    };
    PolicyFacts {
        ipv6: config.ipv6,
        captures_nothing: false,
        routing: rules::routing(config),
        stale_flows: config.dns.stale_flows(config.ipv6),
        proxy: Proxy { listeners, ..proxy },
    }
}

pub(crate) fn without_dns(config: CaptureConfig) -> CaptureConfig {
    CaptureConfig { dns: DnsCapture::Off, ..config }
}

fn without_ipv6(raw: &Raw, names_it: bool) -> Ipv6Advice {
    let is_requested = raw.is_on(Setting::DualStack);
    let why = match is_requested {
        false => "IPv6 is not captured in this pod: its first address is not IPv6",
        true => "IPv6 is not captured in this pod: none of its declared addresses is IPv6",
    };
    let (setting, remedy) = match (names_it, raw.get(Setting::PodIps).is_some(), is_requested) {
        (true, ..) => (Setting::PodIps, "give {--dual-stack}"),
        (false, true, true) => (Setting::PodIps, "name it in --pod-ips"),
        (false, true, false) => (Setting::PodIps, "name it in --pod-ips, and give {--dual-stack}"),
        (false, false, false) => (Setting::DualStack, "give {--dual-stack}"),
        (false, false, true) => (Setting::DualStack, "run this again: the address has just appeared"),
    };
    Ipv6Advice { why, setting, remedy }
}

/// Lists without networks of a family that is not captured: reading the settings has warned of those.
pub(crate) fn lists(config: &CaptureConfig) -> Vec<ListItem> {
    const BOTH: &[Protocol] = &[Protocol::Tcp, Protocol::Udp];
    let mut lists = Lists::default();
    let of_inbound = [Setting::InboundPorts, Setting::InboundPortsExclude];
    lists.select(of_inbound, &config.inbound_ports, Selector::InboundPort);
    if config.interception != Interception::None {
        lists.add(Setting::InboundTunnelPort, false, &[config.tunnel_port], Selector::Tunnel);
    }
    let is_captured = |cidr: &&Cidr| cidr.family() == Family::V4 || config.ipv6;
    let included = config.outbound_cidrs.iter().flatten().filter(is_captured);
    lists.add(Setting::ServiceCidr, true, included, Selector::Destination);
    let excluded = config.excluded_cidrs.iter().filter(is_captured);
    lists.add(Setting::ServiceExcludeCidr, false, excluded, Selector::Destination);
    lists.add(Setting::OutboundPorts, true, &config.outbound_ports, Selector::outbound_tcp);
    let both = |ports| Selector::OutboundPort(ports, BOTH);
    lists.add(Setting::OutboundPortsExclude, false, &config.excluded_outbound_ports, both);
    if let DnsCapture::Servers(servers) = &config.dns {
        lists.add(Setting::RedirectDns, true, servers, Selector::Server);
    }
    lists.add(Setting::ExcludeInterfaces, false, &config.excluded_interfaces, Selector::Interface);
    lists.add(Setting::VmInterfaces, true, &config.vm_interfaces, Selector::VmInterface);
    let of_groups = [Setting::OwnerGroups, Setting::OwnerGroupsExclude];
    lists.select(of_groups, &config.owner_groups, Selector::Group);
    lists.0
}
