//! Every arrow of every scenario's picture against the simulator: packets of all kinds that the configuration names end as
//! the first arrow that fits them says, and no arrow is left without a packet.

use crate::catalogue::{Case, scenarios};
use policy::explain::{Pod, Scene};
use policy::istio::{self, CaptureConfig, DnsCapture, InboundPorts, OutboundCidrs, OwnerGroups};
use policy::mesh::{self, Mesh};
use policy::picture::{self, Fate, Flow};
use policy::settings::{self, Topic};
use policy::sources::pflag::{Flags, Word, word};
use policy::sources::{Dialect, NoHost, Raw};
use rules::simulate::{Direction, Packet, walk};
use rules::{Cidr, ConnState, Family, Gid, PortRange, Protocol, Uid};
use std::net::{IpAddr, SocketAddr};

/// What a scenario's call asks for, and the pod's addresses.
fn configuration(case: &Case) -> (CaptureConfig, Vec<IpAddr>) {
    let topics = [Topic::Capture, Topic::Facts];
    let flags = Flags::of(settings::of(Mesh::default()).filter(|row| topics.contains(&row.topic)));
    let (mut given, mut words) = (Vec::new(), case.flags().into_iter());
    while let Some(text) = words.next() {
        match word(&text, &flags) {
            Word::Flags(found) => given.extend(found),
            Word::NeedsValue(found, row) => {
                given.extend(found);
                given.push((row, words.next().expect("a value")));
            }
            Word::End | Word::Bare | Word::Unknown { .. } => panic!("{text} is no flag of capture"),
        }
    }
    let addresses =
        given.iter().filter(|(row, _)| row.long == "pod-ips").flat_map(|(_, text)| text.split(','));
    let addresses = addresses.map(|text| text.parse().expect("an address")).collect();
    let variables = case.variables();
    let variable = |name: &str| variables.iter().find(|(own, _)| own == name).map(|(_, value)| value.into());
    let raw = Raw::new(given.into_iter().map(|(row, text)| (row.setting, text)), |_| true, variable);
    let resolved = mesh::resolve(&raw, &NoHost, Vec::new()).expect("scenarios are valid");
    (istio::of(&resolved.capture).expect("Istio's").clone(), addresses)
}

/// Packets to the borders of all that the lists name, of everybody that they name, over every interface.
fn packets(config: &CaptureConfig, own: &[IpAddr]) -> Vec<Packet> {
    let id = |number: u32| (Uid::new(number).expect("an id"), Gid::new(number).expect("an id"));
    let mut senders = vec![id(1000), id(4242)];
    senders.extend(config.proxy_uids.iter().flat_map(|uid| [(*uid, Gid::from(*uid)), (*uid, id(1000).1)]));
    let (OwnerGroups::AllBut(groups) | OwnerGroups::Only(groups)) = &config.owner_groups;
    senders.extend(config.proxy_gids.iter().chain(groups).map(|gid| (id(1000).0, *gid)));
    let mut addresses: Vec<IpAddr> = own.to_vec();
    for text in ["127.0.0.1", "127.0.0.6", "127.9.9.9", "203.0.113.9", "::1", "::6", "2001:db8::99"] {
        addresses.push(text.parse().expect("an address"));
    }
    addresses.extend(config.excluded_cidrs.iter().map(Cidr::address));
    if let OutboundCidrs::Only(networks) = &config.outbound_cidrs {
        addresses.extend(networks.iter().map(Cidr::address));
    }
    if let DnsCapture::Servers(servers) = &config.dns {
        addresses.extend(servers);
    }
    let (InboundPorts::AllBut(inbound) | InboundPorts::Only(inbound)) = &config.inbound_ports;
    let lists = [inbound, &config.outbound_ports, &config.excluded_outbound_ports];
    let ends = |range: &PortRange| [range.first().number(), range.last().number().saturating_add(1)];
    let mut ports: Vec<u16> = lists.into_iter().flat_map(|list| list.iter().take(4)).flat_map(ends).collect();
    ports.extend([53, 80, config.tunnel_port.number()]);
    let interfaces = config.excluded_interfaces.iter().chain(&config.vm_interfaces);
    let mut interfaces: Vec<String> = interfaces.map(|name| name.as_str().replace('+', "7")).collect();
    interfaces.push("eth0".to_owned());
    let mut found = Vec::new();
    for (&address, &port) in
        addresses.iter().flat_map(|address| ports.iter().map(move |port| (address, port)))
    {
        let destination = SocketAddr::new(address, port);
        let sources =
            ["127.0.0.6", "::6", "192.0.2.1", "2001:db8::1"].map(|text| text.parse::<IpAddr>().expect("one"));
        let sources = sources.into_iter().filter(|source| Family::of(*source) == Family::of(address));
        for source in sources.map(|source| SocketAddr::new(source, 40_000)) {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let packet = |direction, state| Packet {
                    direction,
                    protocol,
                    source,
                    destination,
                    mark: 0,
                    connmark: 0,
                    state,
                };
                for interface in &interfaces {
                    let inbound =
                        Direction::Inbound { interface: interface.clone(), local: own.contains(&address) };
                    found.push(packet(inbound.clone(), ConnState::New));
                    found.push(packet(inbound, ConnState::Invalid));
                    for &(uid, gid) in &senders {
                        let interface = interface.clone();
                        found.push(packet(Direction::Outbound { interface, uid, gid }, ConnState::New));
                    }
                }
                for &(uid, gid) in &senders {
                    let interface = "lo".to_owned();
                    found.push(packet(Direction::Outbound { interface, uid, gid }, ConnState::New));
                }
            }
        }
    }
    found
}

#[test]
fn every_arrow_of_every_scenario_tells_what_becomes_of_its_packets() {
    for folder in scenarios(|mesh| mesh.is_none()) {
        let (config, own) = configuration(&Case::read(&folder));
        let picture = picture::of(&config.clone().into(), &Dialect::default());
        let pod = Pod::new(own.clone(), Some(&config));
        let packets = packets(&config, &own);
        let mut told: Vec<&Flow> = Vec::new();
        for family in config.families() {
            let scene = Scene::of_config(&config, family, &pod);
            for packet in packets.iter().filter(|packet| packet.family() == family) {
                let Some(flow) = picture.flow_of(packet) else { continue };
                let verdict = walk(&scene.view, &scene.routing, packet, &mut ()).verdict;
                assert_eq!(flow.fate(), Fate::from(verdict), "{}: {packet:?}\n{flow:?}", folder.display());
                if !told.iter().any(|known| std::ptr::eq(*known, flow)) {
                    told.push(flow);
                }
            }
        }
        for flow in picture.panels().iter().flat_map(picture::Panel::shown) {
            let is_told = told.iter().any(|known| std::ptr::eq(*known, flow));
            assert!(is_told, "{}: no packet takes {flow:?}", folder.display());
        }
    }
}
