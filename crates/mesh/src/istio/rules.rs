//! Rules for one family, their reasons and their routing. The order is upstream's, so that previews are comparable.

use super::OWNERSHIP;
use super::config::{CaptureConfig, Interception};
use super::defaults::{AGENT_PORT, DNS_PORT, LOG_GROUP, PASSTHROUGH_V6, PROXY_MARK};
use crate::facts::{CLIENT_ZONE, DnsCapture, PROXY_ZONE};
use crate::writing::{
    Comments, OUTPUT, PREROUTING, RuleWriter, add_rules, any_of, chains, connmark, from, from_interface,
    from_loopback, from_port, group, jump, mark, not_group, not_mark, not_port, not_to, not_user, port,
    redirect, state, tcp, to, to_interface, to_loopback, udp, user,
};
use crate::{RuleReason, reason::reasons, settings::Setting};
use rules::Table::{Mangle, Nat, Raw};
use rules::Target::{Accept, Drop, RestoreMark, Return, SaveMark, SetMark, SetZone, Tproxy};
use rules::{Cidr, ConnState, Family, Mark, Match, Negatable, PortRange, PortSet, RuleSet, routing::Object};
use std::collections::BTreeSet;

reasons! {
    Istio of Setting;
    ApplicationLoopback "application-loopback" ApplicationLoopback [ProxyUid, ProxyGid];
    Dns "dns" Dns [RedirectDns], "{--redirect-dns} captures DNS queries";
    DropInvalid "drop-invalid" Dropped [DropInvalid];
    ExcludedGroup "excluded-group" ExcludedOwner [OwnerGroupsExclude], of "{option} excludes {value}";
    ExcludedInboundPort "excluded-inbound-port" ExcludedInboundPort [InboundPortsExclude], of "{-d} excludes port {value}";
    ExcludedInterface "excluded-interface" ExcludedInterface [ExcludeInterfaces], of "{-c} excludes interface {value}";
    ExcludedNetwork "excluded-network" ExcludedDestination [ServiceExcludeCidr], of "{-x} excludes {value}";
    ExcludedOutboundPort "excluded-outbound-port" ExcludedOutboundPort [OutboundPortsExclude],
        of "{-o} excludes port {value}";
    InboundPort "inbound-port" InboundPort [InboundPorts],
        "{-b} '*' captures all other inbound ports", of "{-b} lists port {value}";
    Loopback "loopback" Loopback [];
    OtherGroups "other-groups" OtherOwners [OwnerGroups], "{option} does not list its group";
    Outbound "outbound" Outbound [];
    OutboundNetwork "outbound-network" OutboundNetwork [ServiceCidr],
        "{-i} '*' redirects all other outbound traffic", of "{-i} lists {value}";
    OutboundPort "outbound-port" OutboundPort [OutboundPorts], of "{-q} lists port {value}";
    ProxyCallsOwnPod "proxy-calls-own-pod" ProxyCallsOwnPod [ProxyUid, ProxyGid];
    ProxyOutbound "proxy-outbound" ProxyOutbound [ProxyUid, ProxyGid];
    ProxyToApplication "proxy-to-application" ProxyToApplication [];
    ToInboundListener "to-inbound-listener" ToInboundListener [InboundCapturePort];
    ToOutboundListener "to-outbound-listener" ToOutboundListener [EnvoyPort];
    TproxyMark "tproxy-mark" KnownConnection [TproxyMark],
        "its mark shows a connection already handed over";
    TunnelPort "tunnel-port" TunnelPort [InboundTunnelPort],
        of "the tunnel port {value} ({-e}) is never captured";
    VmInterface "vm-interface" VirtualMachineInterface [VmInterfaces], of "{-k} lists {value} as a virtual machine's";
}

chains! {
    INBOUND "ISTIO_INBOUND" Inbound;
    OUTBOUND "ISTIO_OUTPUT" Outbound;
    TO_OUTBOUND_LISTENER "ISTIO_REDIRECT" ToOutboundListener;
    TO_INBOUND_LISTENER "ISTIO_IN_REDIRECT" ToInboundListener;
    TO_TRANSPARENT_LISTENER "ISTIO_TPROXY" ToInboundListener;
    DIVERT "ISTIO_DIVERT" Divert;
    DROP "ISTIO_DROP" Drop;
    DNS "ISTIO_OUTPUT_DNS" Dns;
}

type Writer<'a> = RuleWriter<'a, CaptureConfig>;

pub(crate) fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    if config.interception == Interception::None {
        return RuleSet::empty(family);
    }
    let log_group = config.log_hits.then_some(LOG_GROUP);
    let mut writer = Writer::new(config, family, &OWNERSHIP, Comments::Last, log_group);
    interfaces(&mut writer);
    add_rules! { writer:
        // NAT skips a packet outside its connection's window, so it reaches the pod at the original port. The kernel has no
        // such connection there and sends a reset, which ends the redirected connection.
        Mangle PREROUTING [state([ConnState::Invalid])] => jump(DROP), Reason::DropInvalid, if config.drop_invalid;
        Mangle DROP [] => Drop, Reason::DropInvalid, if config.drop_invalid;
    }
    inbound(&mut writer);
    before_owners(&mut writer);
    for owner in owners(config) {
        of_owner(&mut writer, &owner);
    }
    groups(&mut writer);
    dns(&mut writer);
    outbound(&mut writer);
    if let Interception::Tproxy { mark, .. } = config.interception {
        transparent(&mut writer, mark);
    }
    writer.finish()
}

/// Excludes interfaces from all later rules, virtual machine interfaces from inbound rules.
fn interfaces(writer: &mut Writer<'_>) {
    let config = writer.config;
    let is_transparent = matches!(config.interception, Interception::Tproxy { .. });
    for interface in &config.excluded_interfaces {
        let (comes, leaves) = (|| from_interface(interface), || to_interface(interface));
        add_rules! { writer:
            Nat PREROUTING [comes()] => Return, Reason::ExcludedInterface;
            Nat OUTPUT [leaves()] => Return, Reason::ExcludedInterface;
            Mangle PREROUTING [comes()] => Return, Reason::ExcludedInterface, if is_transparent;
            Mangle OUTPUT [leaves()] => Return, Reason::ExcludedInterface, if is_transparent;
        }
    }
    add_rules! { writer:
        Nat PREROUTING.at(1) [from_interface(virtual_one)] => Return, Reason::VmInterface, for virtual_one in &config.vm_interfaces;
    }
}

fn inbound(writer: &mut Writer<'_>) {
    let config = writer.config;
    add_rules! { writer:
        Nat INBOUND [tcp(), port(config.tunnel_port)] => Return, Reason::TunnelPort;
        Nat TO_OUTBOUND_LISTENER [tcp()] => redirect(config.outbound_listener), Reason::ToOutboundListener;
        Nat TO_INBOUND_LISTENER [tcp()] => redirect(config.inbound_listener), Reason::ToInboundListener;
    }
    if !config.captures_inbound() {
        return;
    }
    let table = match config.interception {
        Interception::Redirect | Interception::None => Nat,
        Interception::Tproxy { mark, .. } => {
            let (away, target) =
                (not_to(loopback(writer)), Tproxy { port: config.inbound_listener.first(), mark });
            add_rules! { writer:
                Mangle DIVERT [] => SetMark(mark), Reason::TproxyMark;
                Mangle DIVERT [] => Accept, Reason::TproxyMark;
                Mangle TO_TRANSPARENT_LISTENER [away, tcp()] => target, Reason::ToInboundListener;
            }
            Mangle
        }
    };
    let ports = &config.inbound_ports;
    add_rules! { writer:
        table PREROUTING [tcp()] => jump(INBOUND), Reason::InboundPort;
        table INBOUND [tcp(), port] => Return, Reason::ExcludedInboundPort, for port in each_port(ports.but());
    }
    let all = ports.takes_all().then_some(None);
    for port in all.into_iter().chain(each_port(ports.only()).into_iter().map(Some)) {
        let matches = || [tcp()].into_iter().chain(port.clone());
        // Packets of a connection that the proxy has accepted find the socket, but need the mark to be routed locally.
        let known = matches().chain([state([ConnState::Related, ConnState::Established])]);
        let to_listener = jump(if table == Nat { TO_INBOUND_LISTENER } else { TO_TRANSPARENT_LISTENER });
        add_rules! { writer:
            table INBOUND known => jump(DIVERT), Reason::InboundPort, if table == Mangle;
            table INBOUND matches() => to_listener, Reason::InboundPort;
        }
    }
}

fn before_owners(writer: &mut Writer<'_>) {
    add_rules! { writer: Nat OUTPUT [] => jump(OUTBOUND), Reason::Outbound; }
    for port in each_port(&writer.config.excluded_outbound_ports) {
        add_rules! { writer:
            Nat OUTBOUND [tcp(), port.clone()] => Return, Reason::ExcludedOutboundPort;
            Nat OUTBOUND [udp(), port] => Return, Reason::ExcludedOutboundPort;
        }
    }
    add_rules! { writer:
        // Source of the proxy's connections to the application; redirecting them would be a loop.
        Nat OUTBOUND [to_loopback(), from(writer.passthrough())] => Return, Reason::ProxyToApplication;
    }
}

struct ProxyOwner {
    is: Match,
    is_not: Match,
    setting: Setting,
}

fn owners(config: &CaptureConfig) -> impl Iterator<Item = ProxyOwner> {
    let users = config.proxy_uids.iter().map(|&uid| ProxyOwner {
        is: user(uid),
        is_not: not_user(uid),
        setting: Setting::ProxyUid,
    });
    users.chain(config.proxy_gids.iter().map(|&gid| ProxyOwner {
        is: group(gid),
        is_not: not_group(gid),
        setting: Setting::ProxyGid,
    }))
}

fn of_owner(writer: &mut Writer<'_>, owner: &ProxyOwner) {
    let (config, localhost) = (writer.config, loopback(writer));
    let captures_dns = config.dns != DnsCapture::Off;
    // When the application calls itself through the mesh, the proxy calls the pod's own address; this call must reach the inbound
    // listener. Upstream excludes DNS for users but not for groups.
    let others = if captures_dns && owner.setting == Setting::ProxyUid {
        let both = PortSet::new([DNS_PORT, config.tunnel_port].map(PortRange::from));
        Match::DestinationPorts(Negatable::Not(both.expect("two ports fit into one match")))
    } else {
        not_port(config.tunnel_port)
    };
    let (is, is_not) = (|| owner.is.clone(), || owner.is_not.clone());
    let of = |reason: RuleReason| reason.by(owner.setting);
    let keeps_loopback = !captures_loopback(config);
    add_rules! { writer:
        Nat OUTBOUND [to_loopback(), not_to(localhost), tcp(), others, is()] => jump(TO_INBOUND_LISTENER), of(Reason::ProxyCallsOwnPod);
        Nat OUTBOUND [to_loopback(), tcp(), not_port(DNS_PORT), is_not()] => Return, of(Reason::ApplicationLoopback),
            if keeps_loopback && captures_dns;
        Nat OUTBOUND [to_loopback(), is_not()] => Return, of(Reason::ApplicationLoopback), if keeps_loopback && !captures_dns;
        // The proxy's other traffic is on the application's behalf.
        Nat OUTBOUND [is()] => Return, of(Reason::ProxyOutbound);
    }
}

/// Upstream checks both families at once, and only each network's first address: `0.0.0.0/0` does not count.
fn captures_loopback(config: &CaptureConfig) -> bool {
    config.outbound_cidrs.iter().flatten().any(|cidr| cidr.address().is_loopback())
}

fn groups(writer: &mut Writer<'_>) {
    let groups = &writer.config.owner_groups;
    if !groups.takes_all() {
        let others = groups.only().iter().copied().map(not_group);
        add_rules! { writer: Nat OUTBOUND others => Return, Reason::OtherGroups; }
    }
    add_rules! { writer: Nat OUTBOUND [group(*gid)] => Return, Reason::ExcludedGroup, for gid in groups.but(); }
}

fn dns(writer: &mut Writer<'_>) {
    if writer.config.dns == DnsCapture::Off {
        return;
    }
    let servers = writer.config.dns.servers(writer.family());
    add_rules! { writer:
        Raw OUTPUT [] => jump(DNS), Reason::Dns;
        Nat OUTBOUND [] => jump(DNS), Reason::Dns, if !servers.is_empty();
        Nat DNS query(tcp(), *server) => redirect(AGENT_PORT), Reason::Dns, for server in &servers;
        Nat DNS query(udp(), *server) => redirect(AGENT_PORT), Reason::Dns, for server in &servers;
    }
    for ProxyOwner { is, .. } in owners(writer.config) {
        add_rules! { writer:
            Raw DNS [udp(), port(DNS_PORT), is.clone()] => SetZone(PROXY_ZONE), Reason::Dns;
            Raw DNS [udp(), from_port(AGENT_PORT), is] => SetZone(CLIENT_ZONE), Reason::Dns;
        }
    }
    add_rules! { writer: Raw PREROUTING [] => jump(INBOUND), Reason::Dns, if !servers.is_empty(); }
    for server in servers {
        let answer = [udp(), from_port(DNS_PORT)].into_iter().chain(server.map(from));
        add_rules! { writer:
            Raw DNS query(udp(), server) => SetZone(CLIENT_ZONE), Reason::Dns;
            Raw INBOUND answer => SetZone(PROXY_ZONE), Reason::Dns;
        }
    }
}

fn query(protocol: Match, server: Option<Cidr>) -> impl Iterator<Item = Match> {
    [protocol, port(DNS_PORT)].into_iter().chain(server.map(to))
}

/// Connections that no owner rule decided, and virtual machines' connections.
fn outbound(writer: &mut Writer<'_>) {
    let config = writer.config;
    let (to_proxy, cause, machines) =
        (|| jump(TO_OUTBOUND_LISTENER), Reason::OutboundNetwork, &config.vm_interfaces);
    add_rules! { writer:
        Nat OUTBOUND [to(loopback(writer))] => Return, Reason::Loopback;
        Nat OUTBOUND [to(cidr)] => Return, Reason::ExcludedNetwork, for cidr in writer.own_family(&config.excluded_cidrs);
        Nat OUTBOUND [tcp(), port] => to_proxy(), Reason::OutboundPort, for port in each_port(&config.outbound_ports);
    }
    match &config.outbound_cidrs {
        None => {
            add_rules! { writer:
                Nat OUTBOUND [] => to_proxy(), cause;
                Nat PREROUTING.at(1) [from_interface(machine)] => to_proxy(), cause, for machine in machines;
            }
        }
        Some(cidrs) => {
            for cidr in writer.own_family(cidrs) {
                add_rules! { writer:
                    Nat PREROUTING.at(1) [from_interface(machine), to(cidr)] => to_proxy(), cause, for machine in machines;
                    Nat OUTBOUND [to(cidr)] => to_proxy(), cause;
                }
            }
        }
    }
}

/// Adds marks that keep transparent connections on their path, after all other rules, even without inbound ports.
fn transparent(writer: &mut Writer<'_>, inbound_mark: Mark) {
    let (localhost, marked) = (loopback(writer), mark(inbound_mark));
    add_rules! { writer:
        // Replies on a transparent connection must be routed like its packets, so the connection keeps the mark.
        Mangle PREROUTING [tcp(), marked.clone()] => SaveMark, Reason::TproxyMark;
        // The proxy's replies to itself over loopback still have the mark; they are not captured again.
        Mangle OUTPUT [tcp(), to_loopback(), marked.clone()] => Return, Reason::TproxyMark;
        Mangle OUTPUT [not_to(localhost), tcp(), to_loopback(), owner.is] => SetMark(PROXY_MARK),
            Reason::ProxyCallsOwnPod.by(owner.setting), for owner in owners(writer.config);
        Mangle OUTPUT [tcp(), connmark(inbound_mark)] => RestoreMark, Reason::TproxyMark;
        Mangle INBOUND.at(1) [tcp(), marked] => Return, Reason::TproxyMark;
        Mangle INBOUND.at(2) [tcp(), from(writer.passthrough()), from_loopback()] => Return, Reason::ProxyToApplication;
        Mangle INBOUND.at(3) [tcp(), from_loopback(), not_mark(PROXY_MARK)] => Return, Reason::ApplicationLoopback;
    }
}

fn loopback(writer: &Writer<'_>) -> Cidr {
    match writer.family() {
        Family::V4 => writer.config.loopback_v4,
        Family::V6 => writer.localhost(),
    }
}

/// Matches that together cover a port list: one per item up to 15, as in upstream; beyond that, as few as the kernel allows.
fn each_port(list: &[PortRange]) -> Vec<Match> {
    if list.len() <= 15 {
        list.iter().copied().map(port).collect()
    } else {
        PortSet::pack(list.iter().copied()).into_iter().map(any_of).collect()
    }
}

pub(super) fn routing(config: &CaptureConfig) -> BTreeSet<Object> {
    let mut objects = BTreeSet::new();
    // Transparent packets are addressed to other machines; the mark selects a table that delivers everything locally.
    if let Interception::Tproxy { mark, table } = config.interception
        && config.captures_inbound()
    {
        for family in Family::captured(config.ipv6) {
            let rule = Object::Rule { family, mark, table, preference: None };
            objects.extend([rule, Object::Route { family, table }]);
        }
    }
    // The proxy calls the application over IPv6 from this address; unlike 127.0.0.0/8, `lo` lacks it by default.
    if config.ipv6 {
        objects.insert(Object::Address(PASSTHROUGH_V6));
    }
    objects
}
