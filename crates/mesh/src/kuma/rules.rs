//! Rules of a configuration in upstream's order: table by table, and in each the base chains first.

use super::config::{CaptureConfig, Flow, OwnerPorts, Ports};
use super::defaults::{CLIENT_ZONE, DNS_PORT, DOCKER_CHAIN, PROXY_ZONE};
use super::reason::Reason;
use super::settings::Kuma;
use super::writer::KumaWriter;
use crate::facts::DnsCapture;
use crate::reason::Cause;
use crate::writing::{
    ChainPlace, OUTPUT, PREROUTING, any_of, from, from_interface, from_port, jump, not_to, not_user, own,
    port, ports, state, tcp, to, to_loopback, udp, user,
};
use rules::{ConnState, Family, LogLevel, Match, Negatable, PortSet, Protocol, RuleSet, Table, Target};

const INBOUND: ChainPlace = own("KUMA_MESH_INBOUND");
const OUTBOUND: ChainPlace = own("KUMA_MESH_OUTBOUND");
const TO_INBOUND_LISTENER: ChainPlace = own("KUMA_MESH_INBOUND_REDIRECT");
const TO_OUTBOUND_LISTENER: ChainPlace = own("KUMA_MESH_OUTBOUND_REDIRECT");

pub(super) fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let mut writer = KumaWriter::of(config, family);
    if config.splits_zones(family) {
        zones(&mut writer);
    }
    prerouting(&mut writer);
    output(&mut writer);
    inbound(&mut writer);
    outbound(&mut writer);
    listener(&mut writer, TO_INBOUND_LISTENER, &config.inbound, Reason::ToInboundListener);
    listener(&mut writer, TO_OUTBOUND_LISTENER, &config.outbound, Reason::ToOutboundListener);
    if config.drops_invalid {
        let invalid = [state([ConnState::Invalid])];
        writer.append(Table::Mangle, PREROUTING, invalid, Target::Drop, Reason::DropInvalid.cause());
    }
    writer.finish()
}

fn dns_cause(config: &CaptureConfig, reason: Reason) -> Cause {
    reason.cause().by(match config.dns.capture {
        DnsCapture::All => Kuma::CaptureAllDns,
        DnsCapture::Servers(_) | DnsCapture::Off => Kuma::RedirectDns,
    })
}

/// The proxy queries the resolver from a port of its own choosing, which may be one that an application uses for a captured
/// query to the same resolver. In one zone the two would be one connection to conntrack, and an answer would go to the
/// wrong one.
fn zones(writer: &mut KumaWriter<'_>) {
    let config = writer.config;
    let cause = dns_cause(config, Reason::DnsZone);
    let servers = writer.config.dns.capture.servers(writer.family());
    for server in &servers {
        let answer = server.map(from).into_iter().chain([udp(), from_port(DNS_PORT)]);
        writer.append(Table::Raw, PREROUTING, answer, Target::SetZone(PROXY_ZONE), cause);
    }
    let proxy = || user(config.proxy_uid);
    let query = [udp(), port(DNS_PORT), proxy()];
    writer.append(Table::Raw, OUTPUT, query, Target::SetZone(PROXY_ZONE), cause);
    let answer = [udp(), from_port(config.dns.port), proxy()];
    writer.append(Table::Raw, OUTPUT, answer, Target::SetZone(CLIENT_ZONE), cause);
    let loopback = writer.loopback();
    for server in servers {
        let query = server.map(to).into_iter().chain([udp(), port(DNS_PORT)]);
        writer.append(Table::Raw, OUTPUT, query, Target::SetZone(CLIENT_ZONE), cause);
        // A resolver of this machine answers by this hook.
        if let Some(server) = server.filter(|server| server.address().is_loopback()) {
            let answer = [from(server), to(loopback), udp()];
            writer.append(Table::Raw, OUTPUT, answer, Target::SetZone(PROXY_ZONE), cause);
        }
    }
}

fn prerouting(writer: &mut KumaWriter<'_>) {
    let config = writer.config;
    if let Some(level) = config.log_level {
        let target = kernel_log("PREROUTING:", level);
        writer.append(Table::Nat, PREROUTING, [], target, Reason::Log.cause());
    }
    let networks = config.networks.iter().filter(|network| network.network.family() == writer.family());
    let networks: Vec<_> = networks.collect();
    for network in &networks {
        let came_by = || from_interface(&network.interface);
        let dns = Target::Redirect(config.dns.port.into());
        let cause = Reason::VirtualNetworkDns.cause();
        writer.insert_next(Table::Nat, PREROUTING, [came_by(), udp(), port(DNS_PORT)], dns, cause);
        let mesh = Target::Redirect(config.outbound.listener.into());
        let matches = [not_to(network.network), came_by(), tcp()];
        writer.insert_next(Table::Nat, PREROUTING, matches, mesh, Reason::VirtualNetwork.cause());
    }
    let inserts = config.inbound.is_inserted || !networks.is_empty();
    writer.add(inserts, PREROUTING, [tcp()], jump(INBOUND), Reason::Inbound.cause());
}

fn output(writer: &mut KumaWriter<'_>) {
    let config = writer.config;
    if let Some(level) = config.log_level {
        writer.insert_next(Table::Nat, OUTPUT, [], kernel_log("OUTPUT:", level), Reason::Log.cause());
    }
    let cause = Reason::ExcludedUser.cause();
    for owner in &config.excluded_owners {
        for rule in owned(owner) {
            writer.insert_next(Table::Nat, OUTPUT, rule, Target::Return, cause);
        }
    }
    let cause = Reason::ExcludedDestination.cause();
    for network in writer.own_family(&config.outbound.excluded) {
        writer.insert_next(Table::Nat, OUTPUT, [to(network)], Target::Return, cause);
    }
    let inserts = config.outbound.is_inserted;
    if config.captures_dns(writer.family()) {
        let own_query = [udp(), port(DNS_PORT), user(config.proxy_uid)];
        // Docker's rules in the same chain have to see it: they send it to the server that knows the network's names.
        let target = match config.docker.contains(&writer.family()) {
            true => Target::JumpForeign(DOCKER_CHAIN.parse().expect("a name of a chain")),
            false => Target::Return,
        };
        writer.insert_next(Table::Nat, OUTPUT, own_query, target, Reason::ProxyDns.cause());
        // Behind an inserted jump, no packet would come to it.
        let others = [tcp(), port(DNS_PORT), not_user(config.proxy_uid)];
        let cause = dns_cause(config, Reason::DnsOverTcp);
        writer.add(inserts, OUTPUT, others, Target::Return, cause);
        let cause = dns_cause(config, Reason::Dns);
        for server in config.dns.capture.servers(writer.family()) {
            let query = server.map(to).into_iter().chain([udp(), port(DNS_PORT)]);
            let target = Target::Redirect(config.dns.port.into());
            writer.insert_next(Table::Nat, OUTPUT, query, target, cause);
        }
    }
    writer.add(inserts, OUTPUT, [tcp()], jump(OUTBOUND), Reason::Outbound.cause());
}

/// One rule, or more where the ports are too many for one.
fn owned(owner: &OwnerPorts) -> Vec<[Match; 3]> {
    let sets = match PortSet::new(owner.ports.iter().copied()) {
        Some(set) => vec![set],
        None => PortSet::pack(owner.ports.iter().copied()),
    };
    let protocol = || match owner.protocol {
        Protocol::Tcp => tcp(),
        Protocol::Udp => udp(),
    };
    let users = Match::UidOwner(Negatable::Is(owner.uids));
    sets.into_iter().map(|set| [protocol(), any_of(set), users.clone()]).collect()
}

fn inbound(writer: &mut KumaWriter<'_>) {
    let flow = &writer.config.inbound;
    if !flow.is_captured {
        writer.append(Table::Nat, INBOUND, [tcp()], Target::Return, Reason::InboundOff.cause());
        return;
    }
    for network in writer.own_family(&flow.excluded) {
        let cause = Reason::ExcludedSource.cause();
        writer.append(Table::Nat, INBOUND, [from(network)], Target::Return, cause);
    }
    let (capture, cause) = (|| jump(TO_INBOUND_LISTENER), Reason::InboundPort.cause());
    match &flow.ports {
        Ports::Only(included) => {
            for &range in included {
                writer.append(Table::Nat, INBOUND, [tcp(), ports(range)], capture(), cause);
            }
        }
        Ports::AllBut(excluded) => {
            for &range in excluded {
                let cause = Reason::ExcludedInboundPort.cause();
                writer.append(Table::Nat, INBOUND, [tcp(), ports(range)], Target::Return, cause);
            }
            writer.append(Table::Nat, INBOUND, [tcp()], capture(), Reason::InboundPort.cause().by(None));
        }
    }
}

fn outbound(writer: &mut KumaWriter<'_>) {
    let flow = &writer.config.outbound;
    if !flow.is_captured {
        writer.append(Table::Nat, OUTBOUND, [tcp()], Target::Return, Reason::OutboundOff.cause());
        return;
    }
    if let Ports::AllBut(excluded) = &flow.ports {
        for &range in excluded {
            let cause = Reason::ExcludedOutboundPort.cause();
            writer.append(Table::Nat, OUTBOUND, [tcp(), ports(range)], Target::Return, cause);
        }
    }
    own_traffic(writer);
    let (capture, cause) = (|| jump(TO_OUTBOUND_LISTENER), Reason::OutboundPort.cause());
    match &flow.ports {
        Ports::Only(included) => {
            for &range in included {
                writer.append(Table::Nat, OUTBOUND, [tcp(), ports(range)], capture(), cause);
            }
        }
        Ports::AllBut(_) => {
            writer.append(Table::Nat, OUTBOUND, [], capture(), Reason::OutboundPort.cause().by(None));
        }
    }
}

fn own_traffic(writer: &mut KumaWriter<'_>) {
    let uid = writer.config.proxy_uid;
    let (loopback, passthrough) = (writer.loopback(), writer.passthrough());
    // Sending back to the proxy what it hands to the application would be a loop.
    let handed_on = [from(passthrough), to_loopback()];
    let cause = Reason::ProxyToApplication.cause();
    writer.append(Table::Nat, OUTBOUND, handed_on, Target::Return, cause);
    // The proxy calls the pod by its own address: the call must come in through the inbound listener.
    let own_pod = [tcp(), to_loopback(), not_to(loopback), user(uid)];
    let cause = Reason::ProxyCallsOwnPod.cause();
    writer.append(Table::Nat, OUTBOUND, own_pod, jump(TO_INBOUND_LISTENER), cause);
    let to_itself = [tcp(), to_loopback(), not_user(uid)];
    let cause = Reason::ApplicationLoopback.cause();
    writer.append(Table::Nat, OUTBOUND, to_itself, Target::Return, cause);
    // Everything else of the proxy's is what it sends on behalf of the application.
    writer.append(Table::Nat, OUTBOUND, [user(uid)], Target::Return, Reason::ProxyOutbound.cause());
    writer.append(Table::Nat, OUTBOUND, [to(loopback)], Target::Return, Reason::Loopback.cause());
}

fn listener(writer: &mut KumaWriter<'_>, place: ChainPlace, flow: &Flow, reason: Reason) {
    writer.append(Table::Nat, place, [tcp()], Target::Redirect(flow.listener.into()), reason.cause());
}

fn kernel_log(prefix: &str, level: LogLevel) -> Target {
    Target::Log { prefix: prefix.parse().expect("a prefix that the kernel takes"), level }
}
