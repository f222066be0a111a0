//! The rules for one family, in upstream's order (`cni/pkg/iptables/iptables.go`).

use super::OWNERSHIP;
use super::config::CaptureConfig;
use super::defaults::{
    CONNECTION_MARK, DNS_LISTENER, DNS_PORT, INBOUND_LISTENER, OUTBOUND_LISTENER, PROXY_MARK, PROXY_ZONE,
    TUNNEL_PORT,
};
use super::reason::Reason;
use crate::writing::{
    self, ChainPlace, Comments, OUTPUT, PREROUTING, connmark, from, from_interface, from_port, jump, mark,
    not_mark, not_port, not_to, own, port, tcp, tcp_module, to, to_loopback, udp,
};
use rules::{Cidr, Family, InterfaceName, Match, Negatable, RuleSet, Table, Target};

/// Every table that has rules of ours has it.
pub(super) const INBOUND: &str = "ISTIO_PRERT";
/// The sidecar has one of the same name.
pub(super) const OUTBOUND: &str = "ISTIO_OUTPUT";

const ARRIVES: ChainPlace = own(INBOUND);
const LEAVES: ChainPlace = own(OUTBOUND);

type AmbientWriter<'a> = writing::RuleWriter<'a, CaptureConfig>;

pub(super) fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let mut writer = AmbientWriter::new(config, family, &OWNERSHIP, Comments::Last, None);
    connections(&mut writer);
    // The order of jumps is upstream's; each is alone in its base chain.
    let (inbound, outbound) = (Reason::Arriving.cause(), Reason::Leaving.cause());
    writer.append(Table::Nat, OUTPUT, [], jump(LEAVES), outbound);
    writer.append(Table::Nat, PREROUTING, [], jump(ARRIVES), inbound);
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

/// A connection of ztunnel's to the application is marked, and with it the answers, which would else leave the pod: they
/// go to the client, from whose address ztunnel has called. Table 100 brings them back.
fn connections(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::ProxyToApplication.cause();
    writer.append(Table::Mangle, PREROUTING, [], jump(ARRIVES), cause);
    writer.append(Table::Mangle, OUTPUT, [], jump(LEAVES), cause);
    let target = Target::SetConnmark(CONNECTION_MARK);
    writer.append(Table::Mangle, ARRIVES, [mark(PROXY_MARK)], target, cause);
    writer.append(Table::Mangle, LEAVES, [connmark(CONNECTION_MARK)], Target::RestoreMark, cause);
}

/// What comes from a machine behind the pod counts as outbound. The second rule of each is upstream's; all that it could
/// meet has gone to ztunnel.
fn machines(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::Machine.cause();
    for interface in &writer.config.interfaces {
        let from_machine = || [from_interface(interface), tcp()];
        writer.append(Table::Nat, ARRIVES, from_machine(), Target::Redirect(OUTBOUND_LISTENER.into()), cause);
        writer.append(Table::Nat, ARRIVES, from_machine(), Target::Return, cause);
    }
}

/// Calls of the host itself come from a separate address, and do not concern the mesh.
fn probes(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::Probe.cause();
    let address = Cidr::host(writer.config.probe_address(writer.family()));
    if !writer.config.ingress {
        writer.append(Table::Nat, ARRIVES, [from(address), tcp(), tcp_module()], Target::Accept, cause);
    }
    writer.append(Table::Nat, LEAVES, [to(address), tcp(), tcp_module()], Target::Accept, cause);
}

fn arriving(writer: &mut AmbientWriter<'_>) {
    let others = [not_to(loopback(writer)), tcp(), not_port(TUNNEL_PORT), not_mark(PROXY_MARK)];
    let target = Target::Redirect(INBOUND_LISTENER.into());
    writer.append(Table::Nat, ARRIVES, others, target, Reason::Inbound.cause());
}

/// DNS, to any server. What stays in the pod is excluded over UDP, and over TCP only what goes to the loopback network.
fn queries(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::Dns.cause();
    let target = || Target::Redirect(DNS_LISTENER.into());
    let by_udp = [not_to_loopback(), udp(), not_mark(PROXY_MARK), port(DNS_PORT)];
    writer.append(Table::Nat, LEAVES, by_udp, target(), cause);
    let by_tcp = [not_to(loopback(writer)), tcp(), port(DNS_PORT), not_mark(PROXY_MARK)];
    writer.append(Table::Nat, LEAVES, by_tcp, target(), cause);
}

fn leaving(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::ProxyToApplication.cause();
    writer.append(Table::Nat, LEAVES, [tcp(), mark(CONNECTION_MARK)], Target::Accept, cause);
    let away = not_to(loopback(writer));
    let own_pod = [away.clone(), to_loopback()];
    writer.append(Table::Nat, LEAVES, own_pod, Target::Accept, Reason::OwnPod.cause());
    let others = [away, tcp(), not_mark(PROXY_MARK)];
    let target = Target::Redirect(OUTBOUND_LISTENER.into());
    writer.append(Table::Nat, LEAVES, others, target, Reason::Outbound.cause());
}

/// ztunnel queries a server from a port that the application may use too. In one zone of conntrack the two would be one
/// connection, and the answer would go to the wrong one.
fn zones(writer: &mut AmbientWriter<'_>) {
    let cause = Reason::DnsZone.cause();
    writer.append(Table::Raw, PREROUTING, [], jump(ARRIVES), cause);
    writer.append(Table::Raw, OUTPUT, [], jump(LEAVES), cause);
    let query = [udp(), mark(PROXY_MARK), port(DNS_PORT)];
    writer.append(Table::Raw, LEAVES, query, Target::SetZone(PROXY_ZONE), cause);
    let answer = [udp(), not_mark(PROXY_MARK), from_port(DNS_PORT)];
    writer.append(Table::Raw, ARRIVES, answer, Target::SetZone(PROXY_ZONE), cause);
}

/// The one address that counts as loopback; of the others in 127.0.0.0/8 connections are captured.
fn loopback(writer: &AmbientWriter<'_>) -> Cidr {
    Cidr::host(crate::facts::loopback(writer.family()))
}

fn not_to_loopback() -> Match {
    Match::OutInterface(Negatable::Not(InterfaceName::loopback()))
}
