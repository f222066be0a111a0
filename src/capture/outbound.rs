//! Connections that processes of the pod make, and those of its virtual machines.

use super::words::{
    OUTBOUND, OUTPUT, PREROUTING, TO_OUTBOUND_LISTENER, because, each_port, from, from_interface, jump, tcp,
    to, to_loopback, udp,
};
use super::writer::Writer;
use crate::config::OutboundCidrs;
use rules::{Table, Target};

/// What is left alone before it matters whose connection it is.
pub(super) fn start(writer: &mut Writer<'_>) {
    let config = writer.config;
    writer.append(Table::Nat, OUTPUT, [], jump(OUTBOUND), because("outbound", ""));
    let exclusion = because("excluded-outbound-port", "istio-local-outbound-ports-exclude");
    for port in each_port(&config.excluded_outbound_ports) {
        for protocol in [tcp(), udp()] {
            writer.append(Table::Nat, OUTBOUND, [protocol, port.clone()], Target::Return, exclusion);
        }
    }
    // The proxy hands connections to the application from this address; sending them back to the proxy
    // would be a loop.
    let origin = because("proxy-to-application", "");
    let source = writer.passthrough();
    writer.append(Table::Nat, OUTBOUND, [to_loopback(), from(source)], Target::Return, origin);
}

/// What is captured of everybody else's connections.
pub(super) fn finish(writer: &mut Writer<'_>) {
    let config = writer.config;
    let loopback = writer.loopback();
    writer.append(Table::Nat, OUTBOUND, [to(loopback)], Target::Return, because("loopback", ""));
    let exclusion = because("excluded-network", "istio-service-exclude-cidr");
    for cidr in writer.own_family(&config.excluded_cidrs) {
        writer.append(Table::Nat, OUTBOUND, [to(cidr)], Target::Return, exclusion);
    }
    let origin = because("outbound-port", "istio-outbound-ports");
    for port in each_port(&config.outbound_ports) {
        writer.append(Table::Nat, OUTBOUND, [tcp(), port], jump(TO_OUTBOUND_LISTENER), origin);
    }
    let origin = because("outbound-network", "istio-service-cidr");
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
