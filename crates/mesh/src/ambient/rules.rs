//! The rules for one family, in upstream's order (`cni/pkg/iptables/iptables.go`), their reasons, and the routing that they need.

use super::config::{CaptureConfig, INBOUND, OUTBOUND, OWNERSHIP};
use super::defaults::{
    CONNECTION_MARK, DNS_LISTENER, DNS_PORT, INBOUND_LISTENER, OUTBOUND_LISTENER, PREFERENCE, PROXY_MARK,
    PROXY_ZONE, TABLE, TUNNEL_PORT,
};
use super::settings::Ambient;
use crate::reason::reasons;
use crate::writing::{
    ChainPlace, Comments, OUTPUT, PREROUTING, RuleWriter, connmark, from, from_interface, from_port, jump,
    mark, not_mark, not_port, not_to, own, port, redirect, tcp, tcp_module, to, to_loopback, udp,
};
use rules::Table::{Mangle, Nat, Raw};
use rules::Target::{Accept, RestoreMark, Return, SetConnmark, SetZone};
use rules::{Cidr, Family, InterfaceName, Match, Negatable, RuleSet, routing::Object};
use std::collections::BTreeSet;

reasons! {
    Ambient of Ambient;
    Arriving "ambient-arriving" Inbound [];
    Dns "ambient-dns" Dns [DnsCapture], "{option} sends DNS queries to ztunnel, whichever server they ask";
    DnsZone "ambient-dns-zone" DnsZone [DnsCapture],
        "ztunnel's own DNS queries are kept apart from those of the application";
    Inbound "ambient-inbound" InboundPort [Ingress],
        "everything that arrives by TCP goes to ztunnel, but for its tunnel and its own calls";
    Leaving "ambient-leaving" Outbound [];
    Machine "ambient-machine" VirtualMachine [RerouteInterfaces],
        "{option} says that it comes from a virtual machine", of "{option} says that {value} belongs to a virtual machine";
    Outbound "ambient-outbound" OutboundNetwork [],
        "everything that leaves by TCP goes to ztunnel, but for what it sends itself";
    OwnPod "ambient-own-pod" ApplicationLoopback [], "the pod talks to itself, which is not captured";
    Probe "ambient-probe" ExcludedSource [ProbeAddress],
        "the host's own calls are not captured ({option})", of "{value} is where the host's own calls come from ({option})";
    ProxyToApplication "ambient-proxy-to-application" ProxyToApplication [],
        "it belongs to a connection by which ztunnel hands a call to the application";
}

const ARRIVES: ChainPlace = own(INBOUND);
const LEAVES: ChainPlace = own(OUTBOUND);

type AmbientWriter<'a> = RuleWriter<'a, CaptureConfig>;

pub(crate) fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let mut writer = AmbientWriter::new(config, family, &OWNERSHIP, Comments::Last, None);
    connections(&mut writer);
    // The order of jumps is upstream's; each is alone in its base chain.
    writer.add(Nat, OUTPUT, [], jump(LEAVES), Reason::Leaving);
    writer.add(Nat, PREROUTING, [], jump(ARRIVES), Reason::Arriving);
    machines(&mut writer);
    probes(&mut writer);
    if !config.ingress {
        arriving(&mut writer);
    }
    if config.dns {
        queries(&mut writer);
    }
    leaving(&mut writer);
    if config.dns {
        zones(&mut writer);
    }
    writer.finish()
}

/// The answers of connections that ztunnel makes to the application are addressed to the client. Table 100 brings them back.
fn connections(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::ProxyToApplication;
    writer.add(Mangle, PREROUTING, [], jump(ARRIVES), cause);
    writer.add(Mangle, OUTPUT, [], jump(LEAVES), cause);
    writer.add(Mangle, ARRIVES, [mark(PROXY_MARK)], SetConnmark(CONNECTION_MARK), cause);
    writer.add(Mangle, LEAVES, [connmark(CONNECTION_MARK)], RestoreMark, cause);
}

/// Traffic of a machine behind the pod counts as outbound. The second rule is upstream's, and never reached.
fn machines(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::Machine;
    for interface in &writer.config.interfaces {
        let from_machine = || [from_interface(interface), tcp()];
        writer.add(Nat, ARRIVES, from_machine(), redirect(OUTBOUND_LISTENER), cause);
        writer.add(Nat, ARRIVES, from_machine(), Return, cause);
    }
}

/// Calls of the host itself come from a separate address, and do not concern the mesh.
fn probes(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::Probe;
    let address = Cidr::host(writer.config.probe_address(writer.family()));
    if !writer.config.ingress {
        writer.add(Nat, ARRIVES, [from(address), tcp(), tcp_module()], Accept, cause);
    }
    writer.add(Nat, LEAVES, [to(address), tcp(), tcp_module()], Accept, cause);
}

fn arriving(writer: &mut AmbientWriter<'_>) {
    let others = [not_to(writer.localhost()), tcp(), not_port(TUNNEL_PORT), not_mark(PROXY_MARK)];
    writer.add(Nat, ARRIVES, others, redirect(INBOUND_LISTENER), Reason::Inbound);
}

/// DNS, to any server. What stays in the pod is excluded over UDP, and over TCP only what goes to the loopback network.
fn queries(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::Dns;
    let leaves = Match::OutInterface(Negatable::Not(InterfaceName::loopback()));
    let by_udp = [leaves, udp(), not_mark(PROXY_MARK), port(DNS_PORT)];
    writer.add(Nat, LEAVES, by_udp, redirect(DNS_LISTENER), cause);
    let by_tcp = [not_to(writer.localhost()), tcp(), port(DNS_PORT), not_mark(PROXY_MARK)];
    writer.add(Nat, LEAVES, by_tcp, redirect(DNS_LISTENER), cause);
}

fn leaving(writer: &mut AmbientWriter<'_>) {
    let handed_on = [tcp(), mark(CONNECTION_MARK)];
    writer.add(Nat, LEAVES, handed_on, Accept, Reason::ProxyToApplication);
    let away = not_to(writer.localhost());
    writer.add(Nat, LEAVES, [away.clone(), to_loopback()], Accept, Reason::OwnPod);
    let others = [away, tcp(), not_mark(PROXY_MARK)];
    writer.add(Nat, LEAVES, others, redirect(OUTBOUND_LISTENER), Reason::Outbound);
}

fn zones(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::DnsZone;
    writer.add(Raw, PREROUTING, [], jump(ARRIVES), cause);
    writer.add(Raw, OUTPUT, [], jump(LEAVES), cause);
    let query = [udp(), mark(PROXY_MARK), port(DNS_PORT)];
    writer.add(Raw, LEAVES, query, SetZone(PROXY_ZONE), cause);
    let answer = [udp(), not_mark(PROXY_MARK), from_port(DNS_PORT)];
    writer.add(Raw, ARRIVES, answer, SetZone(PROXY_ZONE), cause);
}

/// Routing in ingress mode too, where ztunnel brings what came by its tunnel. It calls the application from the client's address; the
/// answer, marked, finds its way to ztunnel's socket by a table that delivers everything locally.
pub(super) fn routing(config: &CaptureConfig) -> BTreeSet<Object> {
    let preference = Some(PREFERENCE);
    let each = Family::captured(config.ipv6).flat_map(|family| {
        let route = Object::Route { family, table: TABLE };
        [route, Object::Rule { family, mark: CONNECTION_MARK, table: TABLE, preference }]
    });
    each.collect()
}
