//! Connections that processes of the pod make, and those of its virtual machines.

use super::config::OutboundCidrs;
use super::reason::Reason;
use super::words::{
    OUTBOUND, OUTPUT, PREROUTING, TO_OUTBOUND_LISTENER, each_port, from, from_interface, jump, tcp, to,
    to_loopback, udp,
};
use super::writer::Writer;
use rules::{Table, Target};

/// Exclusions that precede the owner of the connection.
pub(super) fn start(writer: &mut Writer<'_>) {
    let config = writer.config;
    writer.append(Table::Nat, OUTPUT, [], jump(OUTBOUND), Reason::Outbound.cause());
    let exclusion = Reason::ExcludedOutboundPort.cause();
    for port in each_port(&config.excluded_outbound_ports) {
        for protocol in [tcp(), udp()] {
            writer.append(Table::Nat, OUTBOUND, [protocol, port.clone()], Target::Return, exclusion);
        }
    }
    // The proxy hands connections to the application from this address; sending them back to the proxy
    // would be a loop.
    let cause = Reason::ProxyToApplication.cause();
    let source = writer.passthrough();
    writer.append(Table::Nat, OUTBOUND, [to_loopback(), from(source)], Target::Return, cause);
}

pub(super) fn finish(writer: &mut Writer<'_>) {
    let config = writer.config;
    let loopback = writer.loopback();
    writer.append(Table::Nat, OUTBOUND, [to(loopback)], Target::Return, Reason::Loopback.cause());
    let exclusion = Reason::ExcludedNetwork.cause();
    for cidr in writer.own_family(&config.excluded_cidrs) {
        writer.append(Table::Nat, OUTBOUND, [to(cidr)], Target::Return, exclusion);
    }
    let cause = Reason::OutboundPort.cause();
    for port in each_port(&config.outbound_ports) {
        writer.append(Table::Nat, OUTBOUND, [tcp(), port], jump(TO_OUTBOUND_LISTENER), cause);
    }
    let cause = Reason::OutboundNetwork.cause();
    let redirect = || jump(TO_OUTBOUND_LISTENER);
    match &config.outbound_cidrs {
        OutboundCidrs::All => {
            writer.append(Table::Nat, OUTBOUND, [], redirect(), cause);
            for interface in &config.vm_interfaces {
                writer.insert(Table::Nat, PREROUTING, 1, [from_interface(interface)], redirect(), cause);
            }
        }
        OutboundCidrs::Only(cidrs) => {
            for cidr in writer.own_family(cidrs) {
                for interface in &config.vm_interfaces {
                    let matches = [from_interface(interface), to(cidr)];
                    writer.insert(Table::Nat, PREROUTING, 1, matches, redirect(), cause);
                }
                writer.append(Table::Nat, OUTBOUND, [to(cidr)], redirect(), cause);
            }
        }
    }
}
