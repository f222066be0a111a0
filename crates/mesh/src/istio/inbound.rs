//! Connections that arrive from outside.

use super::config::{InboundPorts, Interception};
use super::reason::Reason;
use super::words::{
    INBOUND, PREROUTING, TO_INBOUND_LISTENER, TO_OUTBOUND_LISTENER, each_port, jump, not_to, own, port,
    state, tcp,
};
use super::writer::Writer;
use rules::{ConnState, Mark, Match, Table, Target};

pub(super) fn write(writer: &mut Writer<'_>) {
    let config = writer.config;
    let tunnel = Reason::TunnelPort.cause();
    writer.append(Table::Nat, INBOUND, [tcp(), port(config.tunnel_port)], Target::Return, tunnel);
    let outbound = Reason::ToOutboundListener.cause();
    let target = Target::Redirect(config.outbound_listener);
    writer.append(Table::Nat, TO_OUTBOUND_LISTENER, [tcp()], target, outbound);
    let inbound = Reason::ToInboundListener.cause();
    let target = Target::Redirect(config.inbound_listener);
    writer.append(Table::Nat, TO_INBOUND_LISTENER, [tcp()], target, inbound);
    if !config.captures_inbound() {
        return;
    }
    let capture = match config.interception {
        Interception::Redirect | Interception::None => InboundCapture::Redirect,
        Interception::Tproxy { mark, .. } => {
            transparent_chains(writer, mark);
            InboundCapture::Tproxy
        }
    };
    let ports = Reason::InboundPort.cause();
    writer.append(capture.table(), PREROUTING, [tcp()], jump(INBOUND), ports);
    match &config.inbound_ports {
        InboundPorts::AllBut(excluded) => {
            let exclusion = Reason::ExcludedInboundPort.cause();
            for port in each_port(excluded) {
                writer.append(capture.table(), INBOUND, [tcp(), port], Target::Return, exclusion);
            }
            capture.write(writer, None);
        }
        InboundPorts::Only(included) => {
            for port in each_port(included) {
                capture.write(writer, Some(&port));
            }
        }
    }
}

#[derive(Clone, Copy)]
enum InboundCapture {
    Redirect,
    Tproxy,
}

impl InboundCapture {
    fn table(self) -> Table {
        match self {
            Self::Redirect => Table::Nat,
            Self::Tproxy => Table::Mangle,
        }
    }

    fn write(self, writer: &mut Writer<'_>, port: Option<&Match>) {
        let cause = Reason::InboundPort.cause();
        let matches = || [tcp()].into_iter().chain(port.cloned());
        match self {
            Self::Redirect => {
                writer.append(Table::Nat, INBOUND, matches(), jump(TO_INBOUND_LISTENER), cause);
            }
            Self::Tproxy => {
                // Packets of a connection that the proxy has accepted find its socket by themselves; they
                // need the mark to be routed locally.
                let known = state([ConnState::Related, ConnState::Established]);
                writer.append(Table::Mangle, INBOUND, matches().chain([known]), jump(DIVERT), cause);
                writer.append(Table::Mangle, INBOUND, matches(), jump(TPROXY), cause);
            }
        }
    }
}

const DIVERT: super::words::ChainPlace = own("ISTIO_DIVERT");
const TPROXY: super::words::ChainPlace = own("ISTIO_TPROXY");

fn transparent_chains(writer: &mut Writer<'_>, mark: Mark) {
    let cause = Reason::TproxyMark.cause();
    writer.append(Table::Mangle, DIVERT, [], Target::SetMark(mark), cause);
    writer.append(Table::Mangle, DIVERT, [], Target::Accept, cause);
    let cause = Reason::ToInboundListener.cause();
    let target = Target::Tproxy { port: writer.config.inbound_listener.first(), mark };
    let loopback = writer.loopback();
    writer.append(Table::Mangle, TPROXY, [not_to(loopback), tcp()], target, cause);
}
