//! Rules of a configuration in upstream's order, because people compare previews: table by table, and in each the base chains first.

use super::config::{CaptureConfig, DOCKER_CHAIN, Flow, OwnerPorts};
use super::ownership::{COMMENTS, OWNERSHIP};
use super::settings::Kuma;
use crate::RuleReason;
use crate::facts::{CLIENT_ZONE, DNS_PORT, DnsCapture, PROXY_ZONE, Selection};
use crate::reason::{Cause, reasons};
use crate::writing::{
    ChainPlace, Comments, OUTPUT, PREROUTING, RuleWriter, any_of, chains, from, from_interface, from_port,
    jump, not_to, not_user, port, redirect, state, tcp, to, to_loopback, udp, user,
};
use rules::Table::{Mangle, Nat, Raw};
use rules::Target::{Drop, Return, SetZone};
use rules::{Comment, ConnState, Family, LogLevel, Match, PortSet, RuleSet, Target};

reasons! {
    Kuma of Kuma;
    ApplicationLoopback "kuma-application-loopback" ApplicationLoopback [ProxyUser],
        "the pod talks to itself, and calls of the application to itself are not captured";
    Dns "kuma-dns" Dns [RedirectDns, CaptureAllDns], "{option} captures DNS queries by UDP";
    DnsOverTcp "kuma-dns-over-tcp" ExcludedDns [RedirectDns, CaptureAllDns],
        "it is a DNS query by TCP that the proxy did not send, which is not captured";
    DnsZone "kuma-dns-zone" DnsZone [RedirectDns, CaptureAllDns];
    DropInvalid "kuma-drop-invalid" Dropped [DropInvalid], "{--drop-invalid-packets} drops what belongs to no connection";
    ExcludedDestination "kuma-excluded-destination" ExcludedDestination [OutboundIpsExclude],
        of "{option} leaves {value} alone";
    ExcludedInboundPort "kuma-excluded-inbound-port" ExcludedInboundPort [InboundPortsExclude],
        of "{option} leaves port {value} alone";
    ExcludedOutboundPort "kuma-excluded-outbound-port" ExcludedOutboundPort [OutboundPortsExclude],
        of "{option} leaves port {value} alone";
    ExcludedSource "kuma-excluded-source" ExcludedSource [InboundIpsExclude], of "{option} leaves calls from {value} alone";
    ExcludedUser "kuma-excluded-user" ExcludedOwner [OutboundPortsForUids],
        of "{option} leaves such ports of {value} alone";
    Inbound "kuma-inbound" Inbound [];
    InboundOff "kuma-inbound-off" InboundOff [RedirectInbound], "{--redirect-inbound}=false captures nothing that arrives";
    InboundPort "kuma-inbound-port" InboundPort [InboundPortsInclude],
        "all other inbound TCP is captured", of "{option} lists port {value}";
    Log "kuma-log" Log [Logs];
    Loopback "kuma-loopback" Loopback [], "the destination is the loopback network";
    Outbound "kuma-outbound" Outbound [];
    OutboundOff "kuma-outbound-off" OutboundOff [RedirectOutbound],
        "{--redirect-outbound}=false captures nothing that leaves";
    OutboundPort "kuma-outbound-port" OutboundPort [OutboundPortsInclude],
        "all other outbound TCP is captured", of "{option} lists port {value}";
    ProxyCallsOwnPod "kuma-proxy-calls-own-pod" ProxyCallsOwnPod [ProxyUser],
        "the proxy calls its own pod, so that the call comes in through the mesh";
    ProxyDns "kuma-proxy-dns" ProxyDns [ProxyUser],
        "it is the proxy's own DNS query ({option}), which is never captured";
    ProxyOutbound "kuma-proxy-outbound" ProxyOutbound [ProxyUser],
        of "{value} is the proxy's ({option}), whose own calls are never captured";
    ProxyToApplication "kuma-proxy-to-application" ProxyToApplication [],
        "it comes from the address by which the proxy hands calls to the application";
    ToInboundListener "kuma-to-inbound-listener" ToInboundListener [InboundPort];
    ToOutboundListener "kuma-to-outbound-listener" ToOutboundListener [OutboundPort];
    VirtualNetwork "kuma-virtual-network" VirtualMachine [Vnet], of "{option} says that {value} calls through the mesh";
    VirtualNetworkDns "kuma-virtual-network-dns" VirtualMachineDns [Vnet],
        of "{option} sends DNS queries that come by {value} to the proxy";
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
    let [to_inbound, to_outbound] = [&config.inbound, &config.outbound].map(|flow| redirect(flow.listener));
    writer.add(Nat, TO_INBOUND_LISTENER, [tcp()], to_inbound, Reason::ToInboundListener);
    writer.add(Nat, TO_OUTBOUND_LISTENER, [tcp()], to_outbound, Reason::ToOutboundListener);
    if config.drops_invalid {
        let invalid = [state([ConnState::Invalid])];
        writer.add(Mangle, PREROUTING, invalid, Drop, Reason::DropInvalid);
    }
    writer.finish()
}

fn dns_cause(config: &CaptureConfig, reason: RuleReason) -> Cause {
    reason.by(match config.dns {
        DnsCapture::All => Kuma::CaptureAllDns,
        DnsCapture::Servers(_) | DnsCapture::Off => Kuma::RedirectDns,
    })
}

fn zones(writer: &mut KumaWriter<'_>) {
    let config = writer.config;
    let cause = dns_cause(config, Reason::DnsZone);
    let servers = config.dns.servers(writer.family());
    for server in &servers {
        let answer = server.map(from).into_iter().chain([udp(), from_port(DNS_PORT)]);
        writer.add(Raw, PREROUTING, answer, SetZone(PROXY_ZONE), cause);
    }
    let proxy = || user(config.proxy_uid);
    let query = [udp(), port(DNS_PORT), proxy()];
    writer.add(Raw, OUTPUT, query, SetZone(PROXY_ZONE), cause);
    let answer = [udp(), from_port(config.dns_listener), proxy()];
    writer.add(Raw, OUTPUT, answer, SetZone(CLIENT_ZONE), cause);
    let loopback = writer.localhost();
    for server in servers {
        let query = server.map(to).into_iter().chain([udp(), port(DNS_PORT)]);
        writer.add(Raw, OUTPUT, query, SetZone(CLIENT_ZONE), cause);
        // A resolver of this machine answers by this hook.
        if let Some(server) = server.filter(|server| server.address().is_loopback()) {
            let answer = [from(server), to(loopback), udp()];
            writer.add(Raw, OUTPUT, answer, SetZone(PROXY_ZONE), cause);
        }
    }
}

fn prerouting(writer: &mut KumaWriter<'_>) {
    let config = writer.config;
    if let Some(level) = config.log_level {
        writer.add(Nat, PREROUTING, [], kernel_log("PREROUTING:", level), Reason::Log);
    }
    let family = writer.family();
    let mut place = if config.inbound.is_inserted { PREROUTING.next() } else { PREROUTING };
    for network in config.networks.iter().filter(|network| network.network.family() == family) {
        place = PREROUTING.next();
        let came_by = || from_interface(&network.interface);
        let query = [came_by(), udp(), port(DNS_PORT)];
        writer.add(Nat, place, query, redirect(config.dns_listener), Reason::VirtualNetworkDns);
        let others = [not_to(network.network), came_by(), tcp()];
        writer.add(Nat, place, others, redirect(config.outbound.listener), Reason::VirtualNetwork);
    }
    writer.add(Nat, place, [tcp()], jump(INBOUND), Reason::Inbound);
}

fn output(writer: &mut KumaWriter<'_>) {
    let config = writer.config;
    if let Some(level) = config.log_level {
        writer.add(Nat, OUTPUT.next(), [], kernel_log("OUTPUT:", level), Reason::Log);
    }
    for owner in &config.excluded_owners {
        for owned in owned(owner) {
            writer.add(Nat, OUTPUT.next(), owned, Return, Reason::ExcludedUser);
        }
    }
    for network in writer.own_family(&config.outbound.excluded) {
        writer.add(Nat, OUTPUT.next(), [to(network)], Return, Reason::ExcludedDestination);
    }
    // Behind an inserted jump, no packet would come to rules that are appended.
    let place = if config.outbound.is_inserted { OUTPUT.next() } else { OUTPUT };
    if config.captures_dns(writer.family()) {
        let own_query = [udp(), port(DNS_PORT), user(config.proxy_uid)];
        // Docker's rules in the same chain have to see it: they send it to the server that knows the network's names.
        let target = match config.docker.contains(&writer.family()) {
            true => Target::JumpForeign(DOCKER_CHAIN.parse().expect("a name of a chain")),
            false => Return,
        };
        writer.add(Nat, OUTPUT.next(), own_query, target, Reason::ProxyDns);
        let others = [tcp(), port(DNS_PORT), not_user(config.proxy_uid)];
        let cause = dns_cause(config, Reason::DnsOverTcp);
        writer.add(Nat, place, others, Return, cause);
        let cause = dns_cause(config, Reason::Dns);
        for server in config.dns.servers(writer.family()) {
            let query = server.map(to).into_iter().chain([udp(), port(DNS_PORT)]);
            writer.add(Nat, OUTPUT.next(), query, redirect(config.dns_listener), cause);
        }
    }
    writer.add(Nat, place, [tcp()], jump(OUTBOUND), Reason::Outbound);
}

/// One rule, or more where the ports are too many for one.
fn owned(owner: &OwnerPorts) -> Vec<[Match; 3]> {
    let sets = match PortSet::new(owner.ports.iter().copied()) {
        Some(set) => vec![set],
        None => PortSet::pack(owner.ports.iter().copied()),
    };
    sets.into_iter().map(|set| [Match::Protocol(owner.protocol), any_of(set), user(owner.uids)]).collect()
}

fn inbound(writer: &mut KumaWriter<'_>) {
    let flow = &writer.config.inbound;
    if !flow.is_captured {
        writer.add(Nat, INBOUND, [tcp()], Return, Reason::InboundOff);
        return;
    }
    for network in writer.own_family(&flow.excluded) {
        writer.add(Nat, INBOUND, [from(network)], Return, Reason::ExcludedSource);
    }
    excluded_ports(writer, INBOUND, flow, Reason::ExcludedInboundPort);
    captured_ports(writer, INBOUND, flow, [tcp()], TO_INBOUND_LISTENER, Reason::InboundPort);
}

fn outbound(writer: &mut KumaWriter<'_>) {
    let flow = &writer.config.outbound;
    if !flow.is_captured {
        writer.add(Nat, OUTBOUND, [tcp()], Return, Reason::OutboundOff);
        return;
    }
    excluded_ports(writer, OUTBOUND, flow, Reason::ExcludedOutboundPort);
    own_traffic(writer);
    captured_ports(writer, OUTBOUND, flow, [], TO_OUTBOUND_LISTENER, Reason::OutboundPort);
}

fn excluded_ports(writer: &mut KumaWriter<'_>, chain: ChainPlace, flow: &Flow, reason: RuleReason) {
    if let Selection::AllBut(excluded) = &flow.ports {
        for &range in excluded {
            writer.add(Nat, chain, [tcp(), port(range)], Return, reason);
        }
    }
}

/// `all` is what is captured where no ports are listed.
fn captured_ports<const N: usize>(
    writer: &mut KumaWriter<'_>,
    chain: ChainPlace,
    flow: &Flow,
    all: [Match; N],
    listener: ChainPlace,
    reason: RuleReason,
) {
    match &flow.ports {
        Selection::Only(included) => {
            for &range in included {
                writer.add(Nat, chain, [tcp(), port(range)], jump(listener), reason);
            }
        }
        Selection::AllBut(_) => writer.add(Nat, chain, all, jump(listener), reason.by(None)),
    }
}

fn own_traffic(writer: &mut KumaWriter<'_>) {
    let (uid, loopback) = (writer.config.proxy_uid, writer.localhost());
    // Sending back to the proxy what it hands to the application would be a loop.
    let handed_on = [from(writer.passthrough()), to_loopback()];
    writer.add(Nat, OUTBOUND, handed_on, Return, Reason::ProxyToApplication);
    // The proxy calls the pod by its own address: the call must come in through the inbound listener.
    let own_pod = [tcp(), to_loopback(), not_to(loopback), user(uid)];
    writer.add(Nat, OUTBOUND, own_pod, jump(TO_INBOUND_LISTENER), Reason::ProxyCallsOwnPod);
    let to_itself = [tcp(), to_loopback(), not_user(uid)];
    writer.add(Nat, OUTBOUND, to_itself, Return, Reason::ApplicationLoopback);
    // Everything else of the proxy's is what it sends on behalf of the application.
    writer.add(Nat, OUTBOUND, [user(uid)], Return, Reason::ProxyOutbound);
    writer.add(Nat, OUTBOUND, [to(loopback)], Return, Reason::Loopback);
}

fn kernel_log(prefix: &str, level: LogLevel) -> Target {
    Target::Log { prefix: prefix.parse().expect("a prefix that the kernel takes"), level }
}

/// The prefix by which upstream knows its rules, and the reason's name.
fn comment(cause: Cause) -> Comment {
    let name = cause.reason.name().strip_prefix("kuma-").unwrap_or(cause.reason.name());
    format!("{COMMENTS}{name}").parse().expect("names of reasons fit behind the prefix")
}
