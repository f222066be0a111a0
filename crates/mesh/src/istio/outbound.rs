//! Connections that processes of the pod make, and those of its virtual machines.

use super::config::OutboundCidrs;
use super::reason::Reason;
use super::words::{
    OUTBOUND, OUTPUT, PREROUTING, TO_OUTBOUND_LISTENER, each_port, from, from_interface, jump, tcp, to,
    to_loopback, udp,
};
use super::writer::Writer;
use rules::{Table, Target};

/// What is excluded before the owner of the connection matters.
pub(super) fn start(writer: &mut Writer<'_>) {
    let config = writer.config;
    writer.append(Table::Nat, OUTPUT, [], jump(OUTBOUND), Reason::Outbound.origin());
    let exclusion = Reason::ExcludedOutboundPort.origin();
    for port in each_port(&config.excluded_outbound_ports) {
        for protocol in [tcp(), udp()] {
            writer.append(Table::Nat, OUTBOUND, [protocol, port.clone()], Target::Return, exclusion);
        }
    }
    // The proxy hands connections to the application from this address; sending them back to the proxy
    // would be a loop.
    let origin = Reason::ProxyToApplication.origin();
    let source = writer.passthrough();
    writer.append(Table::Nat, OUTBOUND, [to_loopback(), from(source)], Target::Return, origin);
}

/// What is captured of everybody else's connections.
pub(super) fn finish(writer: &mut Writer<'_>) {
    let config = writer.config;
    let loopback = writer.loopback();
    writer.append(Table::Nat, OUTBOUND, [to(loopback)], Target::Return, Reason::Loopback.origin());
    let exclusion = Reason::ExcludedNetwork.origin();
    for cidr in writer.own_family(&config.excluded_cidrs) {
        writer.append(Table::Nat, OUTBOUND, [to(cidr)], Target::Return, exclusion);
    }
    let origin = Reason::OutboundPort.origin();
    for port in each_port(&config.outbound_ports) {
        writer.append(Table::Nat, OUTBOUND, [tcp(), port], jump(TO_OUTBOUND_LISTENER), origin);
    }
    let origin = Reason::OutboundNetwork.origin();
    let redirect = || jump(TO_OUTBOUND_LISTENER);
    match &config.outbound_cidrs {
        OutboundCidrs::All => {
            writer.append(Table::Nat, OUTBOUND, [], redirect(), origin);
            for interface in &config.vm_interfaces {
                writer.insert(Table::Nat, PREROUTING, 1, [from_interface(interface)], redirect(), origin);
            }
        }
        OutboundCidrs::Only(cidrs) => {
            for cidr in writer.own_family(cidrs) {
                for interface in &config.vm_interfaces {
                    let matches = [from_interface(interface), to(cidr)];
                    writer.insert(Table::Nat, PREROUTING, 1, matches, redirect(), origin);
                }
                writer.append(Table::Nat, OUTBOUND, [to(cidr)], redirect(), origin);
            }
        }
    }
}
