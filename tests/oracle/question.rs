//! Queries about packets, as `explain` flags or library calls, and the packets that commands check.

use crate::oracle::configurations::raw;
use crate::oracle::grammar::PORTS;
use crate::oracle::packets::Packet;
use crate::support::address::Place;
use crate::support::pod::APP;
use crate::support::setting::Family;
use crate::support::traffic::{Identity, Protocol};
use diagnose::explain::{self, PodContext};
use diagnose::picture;
use mesh::sources::{Dialect, SettingReader};
use mesh::{Capture, Mesh};
use rules::simulate::Direction;
use std::net::{IpAddr, SocketAddr};

pub(crate) fn question(packet: &Packet, source: SocketAddr) -> Vec<(&'static str, String)> {
    let protocol = if packet.protocol == Protocol::Tcp { "tcp" } else { "udp" };
    let mut words = vec![
        ("destination", packet.to.to_string()),
        ("source", source.to_string()),
        ("proto", protocol.to_owned()),
    ];
    words.extend(match packet.is_inbound {
        true => vec![("sender", "external".to_owned())],
        false => vec![
            ("uid", packet.identity.uid.to_string()),
            ("gid", packet.identity.gid.to_string()),
            ("mark", packet.mark.to_string()),
        ],
    });
    words
}

pub(crate) fn simulated(packet: &Packet, source: SocketAddr, pod: &PodContext) -> rules::simulate::Packet {
    let words = question(packet, source);
    let raw = raw(words.iter().map(|(flag, value)| (*flag, value.as_str())), Mesh::default());
    let mut reader = SettingReader::new(&raw, Vec::new());
    let place = explain::QuestionContext { pod, routes: pod, names: &|_| None };
    let read = explain::packet(&mut reader, &place).map(|requested| requested.packet);
    read.unwrap_or_else(|| panic!("{words:?}: {:?}", reader.finish()))
}

/// Packets with which `diff` checks the mesh's rules, if their destination answers.
pub(crate) fn usual(capture: &Capture) -> Vec<Packet> {
    let addresses = Family::BOTH.map(|family| Place::Pod.ip(family));
    let pod = PodContext::new(addresses, Some(&**capture));
    let traffic = picture::of(capture, &Dialect::default(), &pod);
    let packets = traffic.panels.into_iter().flat_map(|panel| panel.examples);
    let reachable = |to: SocketAddr| {
        let answers = |ip: IpAddr| {
            let all = Family::BOTH.into_iter().flat_map(|family| destinations(family, false));
            all.chain(Family::BOTH.map(crate::oracle::elsewhere)).any(|one| one == ip)
        };
        PORTS.contains(&to.port()) && answers(to.ip())
    };
    let packet = |packet: rules::simulate::Packet| {
        let (is_inbound, identity) = match packet.direction {
            Direction::Inbound { .. } => (true, APP),
            Direction::Outbound { uid, gid, .. } => {
                (false, Identity { uid: uid.number(), gid: gid.number() })
            }
        };
        let protocol = if packet.protocol == rules::Protocol::Tcp { Protocol::Tcp } else { Protocol::Udp };
        let from = is_inbound.then(|| packet.source.ip());
        Packet { protocol, is_inbound, identity, mark: packet.mark, from, to: packet.destination }
    };
    let mut found: Vec<Packet> = Vec::new();
    let unmarked = |packet: &rules::simulate::Packet| packet.mark == 0 && reachable(packet.destination);
    for packet in packets.filter(unmarked).map(packet) {
        let is_from = packet.from.is_none_or(|from| Family::BOTH.map(crate::oracle::outside).contains(&from));
        if is_from && !found.contains(&packet) {
            found.push(packet);
        }
    }
    found
}

pub(crate) fn destinations(family: Family, is_inbound: bool) -> Vec<IpAddr> {
    let places: &[Place] = match is_inbound {
        true => &[Place::Pod],
        false => &[
            Place::Neighbour,
            Place::Service,
            Place::Elsewhere,
            Place::Resolver,
            Place::Pod,
            Place::Loopback,
        ],
    };
    places.iter().map(|place| place.ip(family)).collect()
}
pub(crate) fn family(packet: &Packet) -> rules::Family {
    match packet.family() {
        Family::V4 => rules::Family::V4,
        Family::V6 => rules::Family::V6,
    }
}
