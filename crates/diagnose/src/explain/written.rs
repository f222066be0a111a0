//! A packet as the words that ask about it, so that a front end can offer it.

use super::pod::{OUTSIDE, PodContext, Sender};
use super::question::{default_source, outsider};
use crate::pod_packets::SOURCE_PORT;
use mesh::settings::Setting;
use rules::simulate::{Direction, Packet};
use rules::{ConnState, Protocol};
use std::net::SocketAddr;

/// The destination and the flags that [`super::packet`] reads as this packet. `None` where words can't describe it: to the
/// pod itself while its address is unknown, or in a connection with a mark. The source is left out unless `source_matters`.
pub fn written(packet: &Packet, pod: &PodContext, source_matters: bool) -> Option<String> {
    if packet.connmark != 0 {
        return None;
    }
    let to = packet.destination;
    let is_own = pod.addresses.contains(&to.ip());
    let mut words = Vec::new();
    let mut flag = |setting: Setting, value: &dyn ToString| {
        words.push(format!("{} {}", setting.row().option(), value.to_string()));
    };
    let mut sender = Sender::App;
    let (destination, source) = match &packet.direction {
        Direction::Outbound { interface, uid, gid } => {
            if is_own && !pod.is_known {
                return None;
            }
            let is_proxys =
                (*uid, *gid) == pod.owner(Sender::Proxy) && packet.mark == pod.mark(Sender::Proxy);
            if is_proxys {
                sender = Sender::Proxy;
                flag(Setting::Sender, &"proxy");
            } else if (*uid, *gid) != pod.owner(Sender::App) {
                flag(Setting::SenderUid, uid);
                flag(Setting::SenderGid, gid);
            }
            if interface != pod.route(to.ip()) {
                flag(Setting::OutInterface, interface);
            }
            (to.to_string(), default_source(pod, to.ip()).map(|(source, _)| source))
        }
        Direction::Inbound { interface, .. } => {
            let is_first = pod.addresses.first() == Some(&to.ip());
            if !is_first {
                sender = Sender::External;
                flag(Setting::Sender, &"external");
            }
            if interface != OUTSIDE {
                flag(Setting::InInterface, interface);
            }
            let destination = if is_first { to.port().to_string() } else { to.to_string() };
            (destination, Some(outsider(to.ip())))
        }
    };
    if packet.protocol == Protocol::Udp {
        flag(Setting::Protocol, &"udp");
    }
    if source_matters && source.map(|source| SocketAddr::new(source, SOURCE_PORT)) != Some(packet.source) {
        flag(Setting::PacketSource, &packet.source);
    }
    if packet.mark != pod.mark(sender) {
        flag(Setting::PacketMark, &packet.mark);
    }
    if packet.state != ConnState::New {
        flag(Setting::CtState, &packet.state.name().to_lowercase());
    }
    words.insert(0, destination);
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_mark_has_no_words() {
        let pod = PodContext::new(["10.1.0.9".parse().expect("an address")], None);
        let (uid, gid) = pod.owner(Sender::App);
        let packet = |connmark| Packet {
            direction: Direction::Outbound { interface: OUTSIDE.to_owned(), uid, gid },
            protocol: Protocol::Tcp,
            source: "10.1.0.9:40000".parse().expect("an address"),
            destination: "192.0.2.10:80".parse().expect("an address"),
            mark: 0,
            connmark,
            state: ConnState::Established,
        };
        let expected = format!("192.0.2.10:80 {} established", Setting::CtState.row().option());
        assert_eq!(written(&packet(0), &pod, true), Some(expected));
        assert_eq!(written(&packet(0x111), &pod, true), None);
    }
}
