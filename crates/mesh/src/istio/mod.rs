//! Istio's sidecar: what `istio-iptables` captures.
//!
//! Pure: a [`CaptureConfig`] goes in, rules for one family come out. The order of the rules is upstream's, because people
//! compare previews; each step has its reason beside it.

pub mod annotations;
mod config;
pub mod defaults;
mod dns;
mod inbound;
mod limits;
mod names;
mod outbound;
mod owner;
mod ownership;
mod provenance;
mod reading;
mod reason;
mod resolve;
mod routing;
mod settings;
mod tproxy;
mod words;
mod writer;

pub use config::{
    CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs, OwnerGroups, RouteTable,
};
pub use ownership::{OWNERSHIP, PREDECESSOR, PREFIX};
pub use reason::Reason;
pub use resolve::configure;

use crate::Setting;
use crate::facts::{ConfigKeys, Ipv6Advice, ListItem, Listeners, Lists, Proxy, ProxyProgram, Selector};
use crate::mesh::Mesh;
use crate::policy::CapturePolicy;
use crate::recognition::Role;
use crate::registry::{Capture, MeshEntry};
use crate::sources::Raw;
use rules::{ByFamily, Cidr, Family, Protocol, RuleSet, Table, Target, desired::StaleFlows, routing::Object};
use std::collections::BTreeSet;
use words::{OUTPUT, PREROUTING, own};
use writer::Writer;

impl CapturePolicy for CaptureConfig {
    fn mesh(&self) -> Mesh {
        Mesh::Istio
    }

    fn ipv6(&self) -> bool {
        self.ipv6
    }

    fn captures_nothing(&self) -> bool {
        self.interception == Interception::None
    }

    /// With interception `NONE` there are none.
    fn write(&self, family: Family) -> RuleSet {
        if self.captures_nothing() { RuleSet::empty(family) } else { write(self, family) }
    }

    fn routing(&self) -> BTreeSet<Object> {
        if self.captures_nothing() { BTreeSet::new() } else { routing::objects(self) }
    }

    fn stale_flows(&self) -> Option<StaleFlows> {
        if self.captures_nothing() { None } else { dns::stale_flows(self) }
    }

    fn without_dns(&self) -> Capture {
        Self { dns: DnsCapture::Off, ..self.clone() }.into()
    }

    fn ipv4_alone(&self) -> Capture {
        Self { ipv6: false, ..self.clone() }.into()
    }

    fn proxy(&self) -> Proxy {
        let captures = !self.captures_nothing();
        Proxy {
            listeners: Listeners {
                outbound: captures.then_some(self.outbound_listener),
                // The proxy's calls to its own pod go there whatever ports are captured.
                inbound: captures.then_some(self.inbound_listener),
                dns: (captures && self.dns != DnsCapture::Off).then_some(defaults::AGENT_PORT),
                tunnel: captures.then_some(self.tunnel_port),
                transparent: match self.interception {
                    Interception::Tproxy { mark, .. } => Some(mark),
                    Interception::Redirect | Interception::None => None,
                },
            },
            uids: self.proxy_uids.clone(),
            gids: self.proxy_gids.clone(),
            mark: None,
            passthrough: Some((defaults::PASSTHROUGH_V4, defaults::PASSTHROUGH_V6)),
        }
    }

    fn lists(&self) -> Vec<ListItem> {
        lists(self)
    }

    fn without_ipv6(&self, raw: &Raw, names_it: bool) -> Ipv6Advice {
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
            (false, false, true) => (Setting::DualStack, "run this again, as the address has just come"),
        };
        Ipv6Advice { why, setting, remedy }
    }
}

/// Its pods, read by [`crate::settings::mapping`], are those that no other mesh recognizes.
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
    ownership: OWNERSHIP,
    reasons: reason::ROWS,
    chains: &[
        ("ISTIO_INBOUND", Role::Inbound),
        ("ISTIO_OUTPUT", Role::Outbound),
        ("ISTIO_REDIRECT", Role::ToOutboundListener),
        ("ISTIO_IN_REDIRECT", Role::ToInboundListener),
        ("ISTIO_TPROXY", Role::ToInboundListener),
        ("ISTIO_OUTPUT_DNS", Role::Dns),
        ("ISTIO_DIVERT", Role::Divert),
        ("ISTIO_DROP", Role::Drop),
    ],
    keys: ConfigKeys {
        off: Some((
            Setting::InterceptionMode,
            "give REDIRECT or TPROXY, or drop the options that say what to capture",
        )),
        on: (
            Some(Setting::ServiceCidr),
            "say what to capture, such as {-i} '*' and {-b} '*', or give {-m} NONE",
        ),
        ipv6: (Setting::DualStack, "give {--dual-stack}"),
        proxy: Some(Setting::ProxyUid),
        listeners: Some([Setting::EnvoyPort, Setting::InboundCapturePort]),
    },
    limits: &[],
    cautions: limits::CAUTIONS,
    remedy_of_gap: ByFamily {
        v4: "name the pod's IPv4 address in --pod-ips when the rules are set",
        v6: "set the rules with --dual-stack, and with the address in --pod-ips if it is given",
    },
    recognition: reading::RECOGNITION,
};

pub fn of(capture: &Capture) -> Option<&CaptureConfig> {
    match capture {
        Capture::Istio(config) => Some(config),
        _ => None,
    }
}

/// Networks of a family that is not captured are left out: reading the settings has warned of those.
fn lists(config: &CaptureConfig) -> Vec<ListItem> {
    const TCP: &[Protocol] = &[Protocol::Tcp];
    const BOTH: &[Protocol] = &[Protocol::Tcp, Protocol::Udp];
    let mut lists = Lists::default();
    let (inbound, destination) = (Selector::InboundPort, Selector::Destination);
    match &config.inbound_ports {
        InboundPorts::Only(ports) => lists.add(Setting::InboundPorts, true, ports.clone(), inbound),
        InboundPorts::AllBut(ports) => lists.add(Setting::InboundPortsExclude, false, ports.clone(), inbound),
    }
    if !config.captures_nothing() {
        lists.add(Setting::InboundTunnelPort, false, [config.tunnel_port], Selector::Tunnel);
    }
    let is_captured = |cidr: &&Cidr| cidr.family() == Family::V4 || config.ipv6;
    if let OutboundCidrs::Only(cidrs) = &config.outbound_cidrs {
        let included = cidrs.iter().filter(is_captured).copied();
        lists.add(Setting::ServiceCidr, true, included, destination);
    }
    let excluded = config.excluded_cidrs.iter().filter(is_captured).copied();
    lists.add(Setting::ServiceExcludeCidr, false, excluded, destination);
    lists.add(Setting::OutboundPorts, true, config.outbound_ports.clone(), |ports| {
        Selector::OutboundPort(ports, TCP)
    });
    lists.add(Setting::OutboundPortsExclude, false, config.excluded_outbound_ports.clone(), |ports| {
        Selector::OutboundPort(ports, BOTH)
    });
    if let DnsCapture::Servers(servers) = &config.dns {
        lists.add(Setting::RedirectDns, true, servers.clone(), Selector::Server);
    }
    lists.add(Setting::ExcludeInterfaces, false, config.excluded_interfaces.clone(), Selector::Interface);
    lists.add(Setting::VmInterfaces, true, config.vm_interfaces.clone(), Selector::VmInterface);
    match &config.owner_groups {
        OwnerGroups::Only(groups) => lists.add(Setting::OwnerGroups, true, groups.clone(), Selector::Group),
        OwnerGroups::AllBut(groups) => {
            lists.add(Setting::OwnerGroupsExclude, false, groups.clone(), Selector::Group);
        }
    }
    lists.0
}

fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let mut writer = Writer::of(config, family);
    interfaces(&mut writer);
    if config.drop_invalid {
        drop_invalid(&mut writer);
    }
    inbound::write(&mut writer);
    outbound::start(&mut writer);
    owner::write(&mut writer);
    dns::write(&mut writer);
    outbound::finish(&mut writer);
    if let Interception::Tproxy { mark, .. } = config.interception {
        tproxy::write(&mut writer, mark);
    }
    writer.finish()
}

/// Excluded interfaces see none of the rules that follow; virtual ones none of the inbound rules.
fn interfaces(writer: &mut Writer<'_>) {
    let config = writer.config;
    let cause = Reason::ExcludedInterface.cause();
    let tables: &[Table] = match config.interception {
        Interception::Tproxy { .. } => &[Table::Nat, Table::Mangle],
        Interception::Redirect | Interception::None => &[Table::Nat],
    };
    for interface in &config.excluded_interfaces {
        for &table in tables {
            writer.append(table, PREROUTING, [words::from_interface(interface)], Target::Return, cause);
            writer.append(table, OUTPUT, [words::to_interface(interface)], Target::Return, cause);
        }
    }
    let cause = Reason::VmInterface.cause();
    for interface in &config.vm_interfaces {
        writer.insert(Table::Nat, PREROUTING, 1, [words::from_interface(interface)], Target::Return, cause);
    }
}

/// NAT skips a packet outside its connection's window, which so reaches the pod at the port that its sender called. The
/// kernel knows no such connection there and answers with a reset, which ends the redirected one.
fn drop_invalid(writer: &mut Writer<'_>) {
    let cause = Reason::DropInvalid.cause();
    let invalid = [words::state([rules::ConnState::Invalid])];
    let drop = own("ISTIO_DROP");
    writer.append(Table::Mangle, PREROUTING, invalid, words::jump(drop), cause);
    writer.append(Table::Mangle, drop, [], Target::Drop, cause);
}
