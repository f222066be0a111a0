//! Rules for one family in upstream's order (`cni/pkg/iptables/iptables.go`), their reasons and their routing.

use super::config::{CaptureConfig, INBOUND, OUTBOUND, OWNERSHIP};
use super::defaults::{
    CONNECTION_MARK, DNS_LISTENER, DNS_PORT, INBOUND_LISTENER, OUTBOUND_LISTENER, PREFERENCE, PROXY_MARK,
    PROXY_ZONE, TABLE, TUNNEL_PORT,
};
use super::settings::Ambient;
use crate::reason::reasons;
use crate::writing::{
    ChainPlace, Comments, OUTPUT, PREROUTING, RuleWriter, add_rules, connmark, from, from_interface,
    from_port, jump, mark, not_mark, not_port, not_to, own, port, redirect, tcp, tcp_module, to, to_loopback,
    udp,
};
use rules::Table::{Mangle, Nat, Raw};
use rules::Target::{Accept, RestoreMark, Return, SetConnmark, SetZone};
use rules::{Cidr, Family, InterfaceName, Match, Negatable, RuleSet, routing::Object};
use std::collections::BTreeSet;

reasons! {
    Ambient of Ambient;
    Arriving "ambient-arriving" Inbound [];
    Dns "ambient-dns" Dns [DnsCapture], "{option} sends DNS queries for any server to ztunnel";
    DnsZone "ambient-dns-zone" DnsZone [DnsCapture],
        "ztunnel's and the application's DNS queries have separate conntrack zones";
    Inbound "ambient-inbound" InboundPort [Ingress],
        "all inbound TCP goes to ztunnel, except its tunnel and its own calls";
    Leaving "ambient-leaving" Outbound [];
    Machine "ambient-machine" VirtualMachine [RerouteInterfaces],
        "{option} lists its interface as a virtual machine's", of "{option} lists {value} as a virtual machine's";
    Outbound "ambient-outbound" OutboundNetwork [],
        "all outbound TCP goes to ztunnel, except its own";
    OwnPod "ambient-own-pod" ApplicationLoopback [], "the pod's calls to itself are not captured";
    Probe "ambient-probe" ExcludedSource [ProbeAddress],
        "the host's calls are not captured ({option})", of "the host's calls come from {value} ({option}) and are not captured";
    ProxyToApplication "ambient-proxy-to-application" ProxyToApplication [],
        "its connection is ztunnel's call to the application";
}

const ARRIVES: ChainPlace = own(INBOUND);
const LEAVES: ChainPlace = own(OUTBOUND);

pub(crate) fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let mut writer = RuleWriter::new(config, family, &OWNERSHIP, Comments::Last, None);
    let (dns, not_ingress) = (config.dns, !config.ingress);
    let (localhost, probes) = (writer.localhost(), Cidr::host(*config.probes.get(family)));
    let leaves = Match::OutInterface(Negatable::Not(InterfaceName::loopback()));
    add_rules! { writer:
        // The application addresses its replies to the client; table 100 delivers them to ztunnel.
        Mangle PREROUTING [] => jump(ARRIVES), Reason::ProxyToApplication;
        Mangle OUTPUT [] => jump(LEAVES), Reason::ProxyToApplication;
        Mangle ARRIVES [mark(PROXY_MARK)] => SetConnmark(CONNECTION_MARK), Reason::ProxyToApplication;
        Mangle LEAVES [connmark(CONNECTION_MARK)] => RestoreMark, Reason::ProxyToApplication;
        // Jumps are in upstream's order, each alone in its base chain.
        Nat OUTPUT [] => jump(LEAVES), Reason::Leaving;
        Nat PREROUTING [] => jump(ARRIVES), Reason::Arriving;
    }
    for interface in &config.interfaces {
        add_rules! { writer:
            // Traffic from a machine behind the pod counts as outbound. The second rule is upstream's and never reached.
            Nat ARRIVES [from_interface(interface), tcp()] => redirect(OUTBOUND_LISTENER), Reason::Machine;
            Nat ARRIVES [from_interface(interface), tcp()] => Return, Reason::Machine;
        }
    }
    add_rules! { writer:
        // The host's own calls come from a separate address and do not concern the mesh.
        Nat ARRIVES [from(probes), tcp(), tcp_module()] => Accept, Reason::Probe, if not_ingress;
        Nat LEAVES [to(probes), tcp(), tcp_module()] => Accept, Reason::Probe;
        Nat ARRIVES [not_to(localhost), tcp(), not_port(TUNNEL_PORT), not_mark(PROXY_MARK)] => redirect(INBOUND_LISTENER), Reason::Inbound,
            if not_ingress;
        // DNS to any server. UDP queries within the pod are excluded, as are TCP queries to the loopback address.
        Nat LEAVES [leaves, udp(), not_mark(PROXY_MARK), port(DNS_PORT)] => redirect(DNS_LISTENER), Reason::Dns, if dns;
        Nat LEAVES [not_to(localhost), tcp(), port(DNS_PORT), not_mark(PROXY_MARK)] => redirect(DNS_LISTENER), Reason::Dns, if dns;
        Nat LEAVES [tcp(), mark(CONNECTION_MARK)] => Accept, Reason::ProxyToApplication;
        Nat LEAVES [not_to(localhost), to_loopback()] => Accept, Reason::OwnPod;
        Nat LEAVES [not_to(localhost), tcp(), not_mark(PROXY_MARK)] => redirect(OUTBOUND_LISTENER), Reason::Outbound;
        Raw PREROUTING [] => jump(ARRIVES), Reason::DnsZone, if dns;
        Raw OUTPUT [] => jump(LEAVES), Reason::DnsZone, if dns;
        Raw LEAVES [udp(), mark(PROXY_MARK), port(DNS_PORT)] => SetZone(PROXY_ZONE), Reason::DnsZone, if dns;
        Raw ARRIVES [udp(), not_mark(PROXY_MARK), from_port(DNS_PORT)] => SetZone(PROXY_ZONE), Reason::DnsZone, if dns;
    }
    writer.finish()
}

/// Routing, in ingress mode too, where ztunnel delivers tunnelled connections. ztunnel calls the application from the client's
/// address; the marked reply reaches ztunnel through a table that delivers everything locally.
pub(super) fn routing(config: &CaptureConfig) -> BTreeSet<Object> {
    let preference = Some(PREFERENCE);
    let each = Family::captured(config.ipv6).flat_map(|family| {
        let route = Object::Route { family, table: TABLE };
        [route, Object::Rule { family, mark: CONNECTION_MARK, table: TABLE, preference }]
    });
    each.collect()
}
