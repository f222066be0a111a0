//! The rules for one family, their reasons, and their routing. The order is upstream's, because people compare previews.

use super::config::{CaptureConfig, Interception};
use super::defaults::{AGENT_PORT, DNS_PORT, LOG_GROUP, PASSTHROUGH_V6, PROXY_MARK};
use super::ownership::OWNERSHIP;
use crate::facts::{CLIENT_ZONE, DnsCapture, PROXY_ZONE, Selection};
use crate::reason::reasons;
use crate::settings::Setting;
use crate::sources::Wildcard;
use crate::writing::{
    Comments, OUTPUT, PREROUTING, RuleWriter, any_of, chains, connmark, from, from_interface, from_loopback,
    from_port, group, jump, mark, not_group, not_mark, not_port, not_to, not_user, port, redirect, state,
    tcp, to, to_interface, to_loopback, udp, user,
};
use rules::Table::{Mangle, Nat, Raw};
use rules::Target::{Accept, Drop, RestoreMark, Return, SaveMark, SetMark, SetZone, Tproxy};
use rules::routing::Object;
use rules::{Cidr, ConnState, Family, Mark, Match, Negatable, PortRange, PortSet, RuleSet, Table};
use std::collections::BTreeSet;

reasons! {
    Istio of Setting;
    ApplicationLoopback "application-loopback" ApplicationLoopback [ProxyUid, ProxyGid],
        "the pod talks to itself, and calls of the application to itself are not captured";
    Dns "dns" Dns [RedirectDns], "{--redirect-dns} captures DNS queries";
    DropInvalid "drop-invalid" Dropped [DropInvalid], "{--drop-invalid} drops what belongs to no connection";
    ExcludedGroup "excluded-group" ExcludedOwner [OwnerGroupsExclude], of "{option} leaves {value} alone";
    ExcludedInboundPort "excluded-inbound-port" ExcludedInboundPort [InboundPortsExclude], of "{-d} leaves port {value} alone";
    ExcludedInterface "excluded-interface" ExcludedInterface [ExcludeInterfaces], of "{-c} leaves interface {value} alone";
    ExcludedNetwork "excluded-network" ExcludedDestination [ServiceExcludeCidr], of "{-x} leaves {value} alone";
    ExcludedOutboundPort "excluded-outbound-port" ExcludedOutboundPort [OutboundPortsExclude],
        of "{-o} leaves port {value} alone";
    InboundPort "inbound-port" InboundPort [InboundPorts],
        "{-b} '*' captures all other inbound ports", of "{-b} lists port {value}";
    Loopback "loopback" Loopback [], "the destination is the loopback network";
    OtherGroups "other-groups" OtherOwners [OwnerGroups], "{option} does not list its group";
    Outbound "outbound" Outbound [];
    OutboundNetwork "outbound-network" OutboundNetwork [ServiceCidr],
        "{-i} '*' redirects all other outbound traffic", of "{-i} lists {value}";
    OutboundPort "outbound-port" OutboundPort [OutboundPorts], of "{-q} lists port {value}";
    ProxyCallsOwnPod "proxy-calls-own-pod" ProxyCallsOwnPod [ProxyUid, ProxyGid],
        "the proxy calls its own pod, so that the call comes in through the mesh";
    ProxyOutbound "proxy-outbound" ProxyOutbound [ProxyUid, ProxyGid],
        of "{value} is the proxy's ({option}), whose own calls are never captured";
    ProxyToApplication "proxy-to-application" ProxyToApplication [],
        "it comes from the address by which the proxy hands calls to the application";
    ToInboundListener "to-inbound-listener" ToInboundListener [InboundCapturePort];
    ToOutboundListener "to-outbound-listener" ToOutboundListener [EnvoyPort];
    TproxyMark "tproxy-mark" KnownConnection [TproxyMark],
        "its mark says that it belongs to a connection handed over before";
    TunnelPort "tunnel-port" TunnelPort [InboundTunnelPort],
        of "port {value} is the tunnel's ({-e}), which is never captured";
    VmInterface "vm-interface" VirtualMachineInterface [VmInterfaces], of "{-k} says that {value} belongs to a virtual machine";
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
    if config.drop_invalid {
        drop_invalid(&mut writer);
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

/// Excluded interfaces see none of the rules that follow; virtual ones none of the inbound rules.
fn interfaces(writer: &mut Writer<'_>) {
    let config = writer.config;
    let tables: &[Table] = match config.interception {
        Interception::Tproxy { .. } => &[Nat, Mangle],
        Interception::Redirect | Interception::None => &[Nat],
    };
    for interface in &config.excluded_interfaces {
        for &table in tables {
            let (comes, leaves) = (from_interface(interface), to_interface(interface));
            writer.add(table, PREROUTING, [comes], Return, Reason::ExcludedInterface);
            writer.add(table, OUTPUT, [leaves], Return, Reason::ExcludedInterface);
        }
    }
    for interface in &config.vm_interfaces {
        writer.add(Nat, PREROUTING.at(1), [from_interface(interface)], Return, Reason::VmInterface);
    }
}

/// NAT skips a packet outside its connection's window, which so reaches the pod at the port that its sender called. The
/// kernel knows no such connection there and answers with a reset, which ends the redirected one.
fn drop_invalid(writer: &mut Writer<'_>) {
    writer.add(Mangle, PREROUTING, [state([ConnState::Invalid])], jump(DROP), Reason::DropInvalid);
    writer.add(Mangle, DROP, [], Drop, Reason::DropInvalid);
}

/// Connections that arrive from outside.
fn inbound(writer: &mut Writer<'_>) {
    let config = writer.config;
    writer.add(Nat, INBOUND, [tcp(), port(config.tunnel_port)], Return, Reason::TunnelPort);
    let [to_outbound, to_inbound] = [config.outbound_listener, config.inbound_listener].map(redirect);
    writer.add(Nat, TO_OUTBOUND_LISTENER, [tcp()], to_outbound, Reason::ToOutboundListener);
    writer.add(Nat, TO_INBOUND_LISTENER, [tcp()], to_inbound, Reason::ToInboundListener);
    if !config.captures_inbound() {
        return;
    }
    let table = match config.interception {
        Interception::Redirect | Interception::None => Nat,
        Interception::Tproxy { mark, .. } => {
            writer.add(Mangle, DIVERT, [], SetMark(mark), Reason::TproxyMark);
            writer.add(Mangle, DIVERT, [], Accept, Reason::TproxyMark);
            let target = Tproxy { port: config.inbound_listener.first(), mark };
            let away = [not_to(loopback(writer)), tcp()];
            writer.add(Mangle, TO_TRANSPARENT_LISTENER, away, target, Reason::ToInboundListener);
            Mangle
        }
    };
    writer.add(table, PREROUTING, [tcp()], jump(INBOUND), Reason::InboundPort);
    match &config.inbound_ports {
        Selection::AllBut(excluded) => {
            for port in each_port(excluded) {
                writer.add(table, INBOUND, [tcp(), port], Return, Reason::ExcludedInboundPort);
            }
            capture_inbound(writer, table, None);
        }
        Selection::Only(included) => {
            for port in each_port(included) {
                capture_inbound(writer, table, Some(&port));
            }
        }
    }
}

fn capture_inbound(writer: &mut Writer<'_>, table: Table, port: Option<&Match>) {
    let matches = || [tcp()].into_iter().chain(port.cloned());
    if table == Nat {
        writer.add(Nat, INBOUND, matches(), jump(TO_INBOUND_LISTENER), Reason::InboundPort);
        return;
    }
    // Packets of a connection that the proxy has accepted find its socket, but need the mark to be routed locally.
    let known = matches().chain([state([ConnState::Related, ConnState::Established])]);
    writer.add(Mangle, INBOUND, known, jump(DIVERT), Reason::InboundPort);
    writer.add(Mangle, INBOUND, matches(), jump(TO_TRANSPARENT_LISTENER), Reason::InboundPort);
}

/// Connections that processes of the pod make: exclusions that precede the owner of the connection.
fn before_owners(writer: &mut Writer<'_>) {
    writer.add(Nat, OUTPUT, [], jump(OUTBOUND), Reason::Outbound);
    for port in each_port(&writer.config.excluded_outbound_ports) {
        for protocol in [tcp(), udp()] {
            writer.add(Nat, OUTBOUND, [protocol, port.clone()], Return, Reason::ExcludedOutboundPort);
        }
    }
    // The proxy hands connections to the application from this address; sending them back would be a loop.
    let handed_on = [to_loopback(), from(writer.passthrough())];
    writer.add(Nat, OUTBOUND, handed_on, Return, Reason::ProxyToApplication);
}

/// A user or a group of the proxy. Rules treat them alike.
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
    let config = writer.config;
    let captures_dns = config.dns != DnsCapture::Off;
    // The proxy calls the pod by its own address: the application calls itself through the mesh, so the
    // call must come in through the inbound listener. Upstream spares DNS for users but not for groups.
    let others = if captures_dns && owner.setting == Setting::ProxyUid {
        let both = PortSet::new([DNS_PORT, config.tunnel_port].map(PortRange::from));
        Match::DestinationPorts(Negatable::Not(both.expect("two ports fit into one match")))
    } else {
        not_port(config.tunnel_port)
    };
    let own_pod = [to_loopback(), not_to(loopback(writer)), tcp(), others, owner.is.clone()];
    let cause = Reason::ProxyCallsOwnPod.by(owner.setting);
    writer.add(Nat, OUTBOUND, own_pod, jump(TO_INBOUND_LISTENER), cause);
    // The application talks to itself over loopback.
    if !captures_loopback(&config.outbound_cidrs) {
        let cause = Reason::ApplicationLoopback.by(owner.setting);
        if captures_dns {
            let matches = [to_loopback(), tcp(), not_port(DNS_PORT), owner.is_not.clone()];
            writer.add(Nat, OUTBOUND, matches, Return, cause);
        } else {
            writer.add(Nat, OUTBOUND, [to_loopback(), owner.is_not.clone()], Return, cause);
        }
    }
    // Everything else of the proxy's is what it sends on behalf of the application.
    writer.add(Nat, OUTBOUND, [owner.is.clone()], Return, Reason::ProxyOutbound.by(owner.setting));
}

/// Upstream checks both families at once, and looks at the network's first address only: `0.0.0.0/0` does not count.
fn captures_loopback(cidrs: &Wildcard<Cidr>) -> bool {
    match cidrs {
        Wildcard::All => false,
        Wildcard::Items(cidrs) => cidrs.iter().any(|cidr| cidr.address().is_loopback()),
    }
}

fn groups(writer: &mut Writer<'_>) {
    match &writer.config.owner_groups {
        Selection::AllBut(excluded) => {
            for &gid in excluded {
                writer.add(Nat, OUTBOUND, [group(gid)], Return, Reason::ExcludedGroup);
            }
        }
        Selection::Only(included) => {
            let others = included.iter().copied().map(not_group);
            writer.add(Nat, OUTBOUND, others, Return, Reason::OtherGroups);
        }
    }
}

/// DNS queries, sent to the agent beside the proxy.
fn dns(writer: &mut Writer<'_>) {
    if writer.config.dns == DnsCapture::Off {
        return;
    }
    let servers = writer.config.dns.servers(writer.family());
    writer.add(Raw, OUTPUT, [], jump(DNS), Reason::Dns);
    if !servers.is_empty() {
        writer.add(Nat, OUTBOUND, [], jump(DNS), Reason::Dns);
    }
    for protocol in [tcp(), udp()] {
        for server in &servers {
            let query = [protocol.clone(), port(DNS_PORT)].into_iter().chain(server.map(to));
            writer.add(Nat, DNS, query, redirect(AGENT_PORT), Reason::Dns);
        }
    }
    for owner in owners(writer.config) {
        let query = [udp(), port(DNS_PORT), owner.is.clone()];
        writer.add(Raw, DNS, query, SetZone(PROXY_ZONE), Reason::Dns);
        let answer = [udp(), from_port(AGENT_PORT), owner.is];
        writer.add(Raw, DNS, answer, SetZone(CLIENT_ZONE), Reason::Dns);
    }
    if !servers.is_empty() {
        writer.add(Raw, PREROUTING, [], jump(INBOUND), Reason::Dns);
    }
    for server in servers {
        let query = [udp(), port(DNS_PORT)].into_iter().chain(server.map(to));
        writer.add(Raw, DNS, query, SetZone(CLIENT_ZONE), Reason::Dns);
        let answer = [udp(), from_port(DNS_PORT)].into_iter().chain(server.map(from));
        writer.add(Raw, INBOUND, answer, SetZone(PROXY_ZONE), Reason::Dns);
    }
}

/// Connections that no rule for their owner has decided about, and those of virtual machines.
fn outbound(writer: &mut Writer<'_>) {
    let config = writer.config;
    let (to_proxy, cause) = (|| jump(TO_OUTBOUND_LISTENER), Reason::OutboundNetwork);
    writer.add(Nat, OUTBOUND, [to(loopback(writer))], Return, Reason::Loopback);
    for cidr in writer.own_family(&config.excluded_cidrs) {
        writer.add(Nat, OUTBOUND, [to(cidr)], Return, Reason::ExcludedNetwork);
    }
    for port in each_port(&config.outbound_ports) {
        writer.add(Nat, OUTBOUND, [tcp(), port], to_proxy(), Reason::OutboundPort);
    }
    match &config.outbound_cidrs {
        Wildcard::All => {
            writer.add(Nat, OUTBOUND, [], to_proxy(), cause);
            for interface in &config.vm_interfaces {
                writer.add(Nat, PREROUTING.at(1), [from_interface(interface)], to_proxy(), cause);
            }
        }
        Wildcard::Items(cidrs) => {
            for cidr in writer.own_family(cidrs) {
                for interface in &config.vm_interfaces {
                    let of_machine = [from_interface(interface), to(cidr)];
                    writer.add(Nat, PREROUTING.at(1), of_machine, to_proxy(), cause);
                }
                writer.add(Nat, OUTBOUND, [to(cidr)], to_proxy(), cause);
            }
        }
    }
}

/// The marks by which transparent connections keep their way, after all other rules, with or without inbound ports.
fn transparent(writer: &mut Writer<'_>, inbound_mark: Mark) {
    let marked = || [tcp(), mark(inbound_mark)];
    // Answers to a transparent connection must be routed as its packets were: the connection remembers.
    writer.add(Mangle, PREROUTING, marked(), SaveMark, Reason::TproxyMark);
    // The proxy answers itself over loopback with the mark still on; it is not captured again.
    let to_self = [tcp(), to_loopback(), mark(inbound_mark)];
    writer.add(Mangle, OUTPUT, to_self, Return, Reason::TproxyMark);
    for owner in owners(writer.config) {
        let own_pod = [not_to(loopback(writer)), tcp(), to_loopback(), owner.is];
        let cause = Reason::ProxyCallsOwnPod.by(owner.setting);
        writer.add(Mangle, OUTPUT, own_pod, SetMark(PROXY_MARK), cause);
    }
    writer.add(Mangle, OUTPUT, [tcp(), connmark(inbound_mark)], RestoreMark, Reason::TproxyMark);
    writer.add(Mangle, INBOUND.at(1), marked(), Return, Reason::TproxyMark);
    let handed_on = [tcp(), from(writer.passthrough()), from_loopback()];
    writer.add(Mangle, INBOUND.at(2), handed_on, Return, Reason::ProxyToApplication);
    let from_application = [tcp(), from_loopback(), not_mark(PROXY_MARK)];
    writer.add(Mangle, INBOUND.at(3), from_application, Return, Reason::ApplicationLoopback);
}

fn loopback(writer: &Writer<'_>) -> Cidr {
    match writer.family() {
        Family::V4 => writer.config.loopback_v4,
        Family::V6 => writer.localhost(),
    }
}

/// The matches that together cover a list of ports: one an item up to 15, as upstream writes them, or as few as the kernel allows.
fn each_port(list: &[PortRange]) -> Vec<Match> {
    if list.len() <= 15 {
        list.iter().copied().map(port).collect()
    } else {
        PortSet::pack(list.iter().copied()).into_iter().map(any_of).collect()
    }
}

pub(super) fn routing(config: &CaptureConfig) -> BTreeSet<Object> {
    let mut objects = BTreeSet::new();
    // Transparent packets are addressed to other machines: marked, they go to a table that delivers everything locally.
    if let Interception::Tproxy { mark, table } = config.interception
        && config.captures_inbound()
    {
        let table = table.number();
        for family in Family::captured(config.ipv6) {
            let rule = Object::Rule { family, mark, table, preference: None };
            objects.extend([rule, Object::Route { family, table }]);
        }
    }
    // The proxy calls the application over IPv6 from this address, which `lo` has to carry. It has all of 127.0.0.0/8.
    if config.ipv6 {
        objects.insert(Object::Address(PASSTHROUGH_V6));
    }
    objects
}
