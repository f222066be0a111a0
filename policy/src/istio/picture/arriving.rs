//! Arrows of what arrives: from the network, and from virtual machines of the pod.

use super::writer::Writer;
use crate::Setting;
use crate::istio::{CaptureConfig, InboundPorts, Interception, OutboundCidrs, Reason};
use crate::picture::{Fate, Is, Label, PORTS, Panel, Part, Place, TCP_PORTS};
use crate::sources::Dialect;

/// What others send to the pod.
pub(super) fn inbound(config: &CaptureConfig, dialect: &Dialect) -> Panel {
    let mut writer = Writer::new(config, dialect, Part::Inbound);
    let nothing = config.interception == Interception::None;
    if nothing {
        writer.rest("everything", Some(Setting::InterceptionMode));
        return writer.finish();
    }
    first(&mut writer);
    if !config.captures_inbound() {
        writer.rest("everything: no port is listed", Some(Setting::InboundPorts));
        return writer.finish();
    }
    let tunnel = vec![config.tunnel_port.into()];
    let reaches_tunnel = |ports: &InboundPorts| match ports {
        InboundPorts::AllBut(_) => true,
        InboundPorts::Only(ports) => ports.iter().any(|range| range.contains(config.tunnel_port.number())),
    };
    // TPROXY knows no such exception.
    if !writer.is_tproxy() {
        let label = Label::ports("", TCP_PORTS, &tunnel).with(", the mesh's tunnel");
        writer.pass(Reason::TunnelPort, label, [Is::Tcp, Is::ports(&tunnel)]).shown =
            reaches_tunnel(&config.inbound_ports);
    }
    if writer.is_tproxy() {
        writer.pass_loopback();
    }
    match &config.inbound_ports {
        InboundPorts::AllBut(excluded) => {
            if !excluded.is_empty() {
                let label = Label::ports("", TCP_PORTS, excluded);
                writer.pass(Reason::ExcludedInboundPort, label, [Is::Tcp, Is::ports(excluded)]);
            }
            writer.capture_inbound(Reason::InboundPort, Label::plain("all other TCP ports"), [Is::Tcp]);
            writer.rest("all else, such as UDP: only TCP is captured", None);
        }
        InboundPorts::Only(included) => {
            let label = Label::ports("", TCP_PORTS, included);
            writer.capture_inbound(Reason::InboundPort, label, [Is::Tcp, Is::ports(included)]);
            writer.rest("all other TCP ports, and UDP", None);
        }
    }
    writer.finish()
}

/// What comes before all ports: interfaces that are left alone, and what belongs to no connection. Which of the two
/// comes first is the mode's affair.
fn first(writer: &mut Writer<'_>) {
    let config = writer.config;
    let transparent = writer.is_tproxy();
    let interfaces = |writer: &mut Writer<'_>| {
        if !config.excluded_interfaces.is_empty() {
            let label =
                Label::list("what arrives by ", ("interface", "interfaces"), &config.excluded_interfaces);
            writer.pass(Reason::ExcludedInterface, label, [Is::Over(config.excluded_interfaces.clone())]);
        }
    };
    if transparent {
        interfaces(writer);
    }
    drop_invalid(writer);
    if !transparent {
        interfaces(writer);
    }
}

fn drop_invalid(writer: &mut Writer<'_>) {
    if writer.config.drop_invalid {
        let label = Label::plain("packets that belong to no connection");
        writer.put(Fate::Dropped, Some(Reason::DropInvalid), label, [Is::Invalid]);
    }
}

/// What virtual machines send, wherever to.
pub(super) fn machines(config: &CaptureConfig, dialect: &Dialect) -> Option<Panel> {
    let interfaces = &config.vm_interfaces;
    if interfaces.is_empty() || config.interception == Interception::None {
        return None;
    }
    let mut writer = Writer::new(config, dialect, Part::Machines);
    let excluded = Is::Over(config.excluded_interfaces.clone());
    if writer.is_tproxy() {
        if config.drop_invalid {
            let label = Label::plain("packets that belong to no connection");
            writer.put(
                Fate::Dropped,
                Some(Reason::DropInvalid),
                label,
                [Is::Invalid, excluded.clone().not()],
            );
        }
        // Its rules come before those of virtual machines and know none of them.
        if let Some(ports) = inbound_ports(config) {
            let label = match &config.inbound_ports {
                InboundPorts::AllBut(ports) if ports.is_empty() => {
                    Label::plain("all TCP, as if it came from outside")
                }
                InboundPorts::AllBut(ports) => Label::ports("all TCP but ", PORTS, ports),
                InboundPorts::Only(ports) => Label::ports("", TCP_PORTS, ports),
            };
            let needs = [Is::Tcp, excluded.not(), writer.loopback().not()].into_iter().chain(ports);
            writer.capture_inbound(Reason::InboundPort, label, needs).to = Place::Network;
        }
    } else {
        drop_invalid(&mut writer);
    }
    match &config.outbound_cidrs {
        OutboundCidrs::All => {
            let label = Label::list("all TCP from ", ("interface", "interfaces"), interfaces);
            writer.capture_outbound(Reason::OutboundNetwork, label, [Is::Tcp]);
            writer.rest("all else, such as UDP", Some(Setting::VmInterfaces));
        }
        OutboundCidrs::Only(networks) => {
            let networks = writer.of_families(networks);
            if !networks.is_empty() {
                let label = Label::networks("TCP to ", &networks);
                writer.capture_outbound(Reason::OutboundNetwork, label, [Is::Tcp, Is::To(networks)]);
            }
            let label = Label::list("all else from ", ("interface", "interfaces"), interfaces);
            writer.put(Fate::Passing, Some(Reason::VmInterface), label, []);
        }
    }
    writer.finish().into()
}

/// What says that an inbound port is captured; `None` if none is.
pub(super) fn inbound_ports(config: &CaptureConfig) -> Option<Option<Is>> {
    match &config.inbound_ports {
        InboundPorts::AllBut(ports) if ports.is_empty() => Some(None),
        InboundPorts::AllBut(ports) => Some(Some(Is::ports(ports).not())),
        InboundPorts::Only(ports) if ports.is_empty() => None,
        InboundPorts::Only(ports) => Some(Some(Is::ports(ports))),
    }
}
