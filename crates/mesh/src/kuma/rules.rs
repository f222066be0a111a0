//! Rules of a configuration in upstream's order, so that previews are comparable: table by table, base chains first.

use super::config::{CaptureConfig, DOCKER_CHAIN, Flow, OwnerPorts, VirtualNetwork};
use super::{COMMENTS, OWNERSHIP, settings::Kuma};
use crate::RuleReason;
use crate::facts::{CLIENT_ZONE, DNS_PORT, DnsCapture, PROXY_ZONE};
use crate::reason::{Cause, reasons};
use crate::writing::{
    Comments, OUTPUT, PREROUTING, RuleWriter, about, add_rules, any_of, chains, from, from_interface,
    from_port, jump, not_to, not_user, port, redirect, state, tcp, to, to_loopback, udp, user,
};
use rules::Table::{Mangle, Nat, Raw};
use rules::Target::{Drop, Return, SetZone};
use rules::{Comment, ConnState, Family, LogLevel, Match, PortSet, RuleSet, Target};

reasons! {
    Kuma of Kuma;
    ApplicationLoopback "kuma-application-loopback" ApplicationLoopback [ProxyUser];
    Dns "kuma-dns" Dns [RedirectDns, CaptureAllDns], "{option} captures DNS queries over UDP";
    DnsOverTcp "kuma-dns-over-tcp" ExcludedDns [RedirectDns, CaptureAllDns],
        "DNS queries over TCP are not captured";
    DnsZone "kuma-dns-zone" DnsZone [RedirectDns, CaptureAllDns];
    DropInvalid "kuma-drop-invalid" Dropped [DropInvalid];
    ExcludedDestination "kuma-excluded-destination" ExcludedDestination [OutboundIpsExclude];
    ExcludedInboundPort "kuma-excluded-inbound-port" ExcludedInboundPort [InboundPortsExclude];
    ExcludedOutboundPort "kuma-excluded-outbound-port" ExcludedOutboundPort [OutboundPortsExclude];
    ExcludedSource "kuma-excluded-source" ExcludedSource [InboundIpsExclude];
    ExcludedUser "kuma-excluded-user" ExcludedOwner [OutboundPortsForUids], of "{option} excludes these ports for {value}";
    Inbound "kuma-inbound" Inbound [];
    InboundOff "kuma-inbound-off" InboundOff [RedirectInbound], "{--redirect-inbound}=false excludes all inbound traffic";
    InboundPort "kuma-inbound-port" InboundPort [InboundPortsInclude], "all other inbound TCP is captured";
    Log "kuma-log" Log [Logs];
    Loopback "kuma-loopback" Loopback [];
    Outbound "kuma-outbound" Outbound [];
    OutboundOff "kuma-outbound-off" OutboundOff [RedirectOutbound], "{--redirect-outbound}=false excludes all outbound traffic";
    OutboundPort "kuma-outbound-port" OutboundPort [OutboundPortsInclude], "all other outbound TCP is captured";
    ProxyCallsOwnPod "kuma-proxy-calls-own-pod" ProxyCallsOwnPod [ProxyUser];
    ProxyDns "kuma-proxy-dns" ProxyDns [ProxyUser], "the proxy's DNS queries ({option}) are never captured";
    ProxyOutbound "kuma-proxy-outbound" ProxyOutbound [ProxyUser];
    ProxyToApplication "kuma-proxy-to-application" ProxyToApplication [];
    ToInboundListener "kuma-to-inbound-listener" ToInboundListener [InboundPort];
    ToOutboundListener "kuma-to-outbound-listener" ToOutboundListener [OutboundPort];
    VirtualNetwork "kuma-virtual-network" VirtualMachine [Vnet], of "{option} captures calls from {value}";
    VirtualNetworkDns "kuma-virtual-network-dns" VirtualMachineDns [Vnet],
        of "{option} sends DNS queries from {value} to the proxy";
}

chains! {
    INBOUND "KUMA_MESH_INBOUND" Inbound;
    OUTBOUND "KUMA_MESH_OUTBOUND" Outbound;
    TO_INBOUND_LISTENER "KUMA_MESH_INBOUND_REDIRECT" ToInboundListener;
    TO_OUTBOUND_LISTENER "KUMA_MESH_OUTBOUND_REDIRECT" ToOutboundListener;
}

type KumaWriter<'a> = RuleWriter<'a, CaptureConfig>;

pub(crate) fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let comments = if config.comments { Comments::OfEach(comment) } else { Comments::First };
    let mut writer = KumaWriter::new(config, family, &OWNERSHIP, comments, None);
    if config.splits_zones(family) {
        zones(&mut writer);
    }
    prerouting(&mut writer);
    output(&mut writer);
    inbound(&mut writer);
    outbound(&mut writer);
    add_rules! { writer:
        Nat TO_INBOUND_LISTENER [tcp()] => redirect(config.inbound.listener), Reason::ToInboundListener;
        Nat TO_OUTBOUND_LISTENER [tcp()] => redirect(config.outbound.listener), Reason::ToOutboundListener;
        Mangle PREROUTING [state([ConnState::Invalid])] => Drop, Reason::DropInvalid, if config.drops_invalid;
    }
    writer.finish()
}

fn dns_cause(config: &CaptureConfig, reason: RuleReason) -> Cause {
    reason.by(if config.dns == DnsCapture::All { Kuma::CaptureAllDns } else { Kuma::RedirectDns })
}

fn zones(writer: &mut KumaWriter<'_>) {
    let (config, localhost) = (writer.config, writer.localhost());
    let (proxy, cause) = (config.proxy_uid, dns_cause(config, Reason::DnsZone));
    let servers = config.dns.servers(writer.family());
    add_rules! { writer:
        Raw PREROUTING about(server.map(from), [udp(), from_port(DNS_PORT)]) => SetZone(PROXY_ZONE), cause, for server in &servers;
        Raw OUTPUT [udp(), port(DNS_PORT), user(proxy)] => SetZone(PROXY_ZONE), cause;
        Raw OUTPUT [udp(), from_port(config.dns_listener), user(proxy)] => SetZone(CLIENT_ZONE), cause;
    }
    for server in servers {
        let own = server.filter(|server| server.address().is_loopback());
        add_rules! { writer:
            Raw OUTPUT about(server.map(to), [udp(), port(DNS_PORT)]) => SetZone(CLIENT_ZONE), cause;
            // Replies from a local resolver pass through this hook.
            Raw OUTPUT [from(*own), to(localhost), udp()] => SetZone(PROXY_ZONE), cause, for own in own.iter();
        }
    }
}

fn prerouting(writer: &mut KumaWriter<'_>) {
    let (config, family) = (writer.config, writer.family());
    let networks = || config.networks.iter().filter(|behind| behind.network.family() == family);
    let is_inserted = config.inbound.is_inserted || networks().next().is_some();
    let place = if is_inserted { PREROUTING.next() } else { PREROUTING };
    add_rules! { writer:
        Nat PREROUTING [] => kernel_log("PREROUTING:", *level), Reason::Log, for level in config.log_level.iter();
    }
    for VirtualNetwork { interface, network } in networks() {
        let came_by = || from_interface(interface);
        add_rules! { writer:
            Nat place [came_by(), udp(), port(DNS_PORT)] => redirect(config.dns_listener), Reason::VirtualNetworkDns;
            Nat place [not_to(*network), came_by(), tcp()] => redirect(config.outbound.listener), Reason::VirtualNetwork;
        }
    }
    add_rules! { writer: Nat place [tcp()] => jump(INBOUND), Reason::Inbound; }
}

fn output(writer: &mut KumaWriter<'_>) {
    let (config, family) = (writer.config, writer.family());
    let CaptureConfig { outbound, proxy_uid: proxy, .. } = config;
    // After an inserted jump, no packet would reach appended rules.
    let place = if outbound.is_inserted { OUTPUT.next() } else { OUTPUT };
    let servers = config.dns.servers(family);
    let captures_dns = !servers.is_empty();
    // Docker's rules in this chain must see the proxy's query, to send it to the server that resolves the network's names.
    let to_docker = || Target::JumpForeign(DOCKER_CHAIN.parse().expect("a name of a chain"));
    let own_query = if config.docker.contains(&family) { to_docker() } else { Return };
    let [by_tcp, by_udp] = [Reason::DnsOverTcp, Reason::Dns].map(|reason| dns_cause(config, reason));
    add_rules! { writer:
        Nat OUTPUT.next() [] => kernel_log("OUTPUT:", *level), Reason::Log, for level in config.log_level.iter();
        Nat OUTPUT.next() owned => Return, Reason::ExcludedUser, for owned in config.excluded_owners.iter().flat_map(owned);
        Nat OUTPUT.next() [to(network)] => Return, Reason::ExcludedDestination, for network in writer.own_family(&outbound.excluded);
        Nat OUTPUT.next() [udp(), port(DNS_PORT), user(*proxy)] => own_query, Reason::ProxyDns, if captures_dns;
        Nat place [tcp(), port(DNS_PORT), not_user(*proxy)] => Return, by_tcp, if captures_dns;
        Nat OUTPUT.next() about(server.map(to), [udp(), port(DNS_PORT)]) => redirect(config.dns_listener), by_udp,
            for server in servers;
        Nat place [tcp()] => jump(OUTBOUND), Reason::Outbound;
    }
}

/// Matches for one rule, or several for many ports.
fn owned(owner: &OwnerPorts) -> Vec<[Match; 3]> {
    let ports = || owner.ports.iter().copied();
    let sets = PortSet::new(ports()).map_or_else(|| PortSet::pack(ports()), |set| vec![set]);
    sets.into_iter().map(|set| [Match::Protocol(owner.protocol), any_of(set), user(owner.uids)]).collect()
}

fn inbound(writer: &mut KumaWriter<'_>) {
    let Flow { is_captured, ports, excluded, .. } = &writer.config.inbound;
    if !is_captured {
        add_rules! { writer: Nat INBOUND [tcp()] => Return, Reason::InboundOff; }
        return;
    }
    add_rules! { writer:
        Nat INBOUND [from(network)] => Return, Reason::ExcludedSource, for network in writer.own_family(excluded);
        Nat INBOUND [tcp(), port(*range)] => Return, Reason::ExcludedInboundPort, for range in ports.but();
        Nat INBOUND [tcp(), port(*range)] => jump(TO_INBOUND_LISTENER), Reason::InboundPort, for range in ports.only();
        Nat INBOUND [tcp()] => jump(TO_INBOUND_LISTENER), Reason::InboundPort.by(None), if ports.takes_all();
    }
}

fn outbound(writer: &mut KumaWriter<'_>) {
    let (Flow { is_captured, ports, .. }, proxy) = (&writer.config.outbound, writer.config.proxy_uid);
    if !is_captured {
        add_rules! { writer: Nat OUTBOUND [tcp()] => Return, Reason::OutboundOff; }
        return;
    }
    let (localhost, passthrough) = (writer.localhost(), writer.passthrough());
    add_rules! { writer:
        Nat OUTBOUND [tcp(), port(*range)] => Return, Reason::ExcludedOutboundPort, for range in ports.but();
        // Redirecting the proxy's connections to the application would be a loop.
        Nat OUTBOUND [from(passthrough), to_loopback()] => Return, Reason::ProxyToApplication;
        // The proxy calls the pod's own address; the call must reach the inbound listener.
        Nat OUTBOUND [tcp(), to_loopback(), not_to(localhost), user(proxy)] => jump(TO_INBOUND_LISTENER), Reason::ProxyCallsOwnPod;
        Nat OUTBOUND [tcp(), to_loopback(), not_user(proxy)] => Return, Reason::ApplicationLoopback;
        Nat OUTBOUND [user(proxy)] => Return, Reason::ProxyOutbound;
        Nat OUTBOUND [to(localhost)] => Return, Reason::Loopback;
        Nat OUTBOUND [tcp(), port(*range)] => jump(TO_OUTBOUND_LISTENER), Reason::OutboundPort, for range in ports.only();
        Nat OUTBOUND [] => jump(TO_OUTBOUND_LISTENER), Reason::OutboundPort.by(None), if ports.takes_all();
    }
}

fn kernel_log(prefix: &str, level: LogLevel) -> Target {
    Target::Log { prefix: prefix.parse().expect("a prefix that the kernel takes"), level }
}

/// Prefix by which upstream recognizes its rules, and the reason's name.
fn comment(cause: Cause) -> Comment {
    let name = cause.reason.name().strip_prefix("kuma-").unwrap_or(cause.reason.name());
    format!("{COMMENTS}{name}").parse().expect("reason names fit after the prefix")
}
