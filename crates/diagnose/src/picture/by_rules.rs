//! Draws the picture of a configuration from its rules: an arrow is what a rule does to packets, in the order in which rules
//! decide, and names the setting that makes the rule.

use super::flow::Flow;
use super::label::Label;
use super::panel::{Panel, Part};
use super::walk::{Arrow, Assumptions, arrows};
use super::{Picture, join, option, words};
use crate::lint::probes;
use mesh::sources::Dialect;
use mesh::{Capture, DNS_PORT, Mesh, Proxy, Reason, Selector};
use rules::simulate::{Direction, Packet};
use rules::{Checked, ConnState, Family, Gid, InterfaceName, Mark, Protocol, Uid};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What becomes of the traffic that a configuration describes, with settings named as their author writes them.
pub fn draw(capture: &Capture, dialect: &Dialect) -> Picture {
    let proxy = capture.proxy();
    let machines: Vec<InterfaceName> = capture.lists().into_iter().filter_map(machine).collect();
    let marks: Vec<Mark> = proxy.mark.into_iter().collect();
    let rules: Vec<Checked> = capture.families().map(|family| capture.rules(family)).collect();
    let parts = [Part::Inbound, Part::Machines, Part::Outbound, Part::Within];
    let panels =
        parts.into_iter().filter(|part| *part != Part::Machines || !machines.is_empty()).map(|part| {
            // What arrives has no mark yet.
            let marks = if part.is_sent_here() { &marks[..] } else { &[] };
            let ground = Assumptions { part, machines: &machines, marks };
            let of_family = |rules: &Checked| join::joined(arrows(rules.rules(), &ground));
            let arrows = match &rules[..] {
                [v4, v6] => join::both(&of_family(v4), &of_family(v6)),
                only => only.iter().flat_map(of_family).collect(),
            };
            Panel { part, flows: flows(arrows, &proxy, part, dialect) }
        });
    let panels: Vec<Panel> = panels.collect();
    let families = match capture.ipv6() {
        true => "IPv4 and IPv6".to_owned(),
        false => "IPv4 only; IPv6 is not captured".to_owned(),
    };
    let mode = match proxy.listeners.transparent {
        Some(_) => ", inbound by TPROXY",
        None => "",
    };
    let note = match capture.captures_nothing() {
        true => "Nothing is captured.".to_owned(),
        false => format!("Mesh {}, {families}{mode}.", capture.mesh()),
    };
    let proxy_name = match capture.mesh() {
        Mesh::Istio | Mesh::Kuma => "Envoy",
        Mesh::Linkerd => "linkerd-proxy",
        Mesh::Ambient => "ztunnel",
    };
    let picture =
        Picture::new(note, panels, capture.ipv6(), machines).and_marked(marks).with_proxy(proxy_name);
    shown(picture, &rules, &proxy)
}

fn machine(listed: mesh::ListItem) -> Option<InterfaceName> {
    match listed.selector {
        Selector::Machine(name) => Some(name),
        _ => None,
    }
}

fn flows(arrows: Vec<Arrow>, proxy: &Proxy, part: Part, dialect: &Dialect) -> Vec<Flow> {
    let flow = |Arrow { needs, disposition, origin }: Arrow| {
        let option = origin.and_then(Reason::setting_of).map(|setting| option(setting, dialect));
        let (from, to) = (words::sender(&needs, proxy, part), part.ends().1);
        // What it is called depends on what is shown before it.
        Flow { needs, from, to, disposition, label: Label::default(), option, shown: false }
    };
    arrows.into_iter().map(flow).collect()
}

/// Shows the arrows that some packet takes, and names them: of traffic within the pod, those of usual calls.
fn shown(mut picture: Picture, rules: &[Checked], proxy: &Proxy) -> Picture {
    let packets: Vec<Packet> = rules
        .iter()
        .flat_map(|rules| {
            let family = rules.rules().family;
            probes(rules, &[own(family)], family)
        })
        .collect();
    let mut taken: Vec<(usize, usize)> = packets.iter().filter_map(|packet| picture.at(packet)).collect();
    taken.sort_unstable();
    taken.dedup();
    for (panel, flow) in taken {
        picture.panels[panel].flows[flow].shown = picture.panels[panel].part != Part::Within;
    }
    let usual = usual(rules, proxy);
    for panel in picture.panels.iter_mut().filter(|panel| panel.part == Part::Within) {
        panel.keep_what_matters(&usual);
    }
    for Panel { part, flows } in &mut picture.panels {
        let mut is_first = true;
        for flow in flows {
            flow.label = words::label(&flow.needs, proxy, *part, is_first);
            is_first &= !flow.shown;
        }
    }
    picture
}

/// An address for documentation, as the pod's own (RFC 5737, RFC 3849).
fn own(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 51, 100, 7).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7).into(),
    }
}

/// What a pod usually sends to itself: the application to the pod's address and to loopback, the proxy to the pod's address
/// and what it hands on, and DNS to a resolver in the pod.
fn usual(rules: &[Checked], proxy: &Proxy) -> Vec<Packet> {
    const PORT: u16 = 8080;
    let other_user = (1000..)
        .filter_map(Uid::new)
        .find(|uid| !proxy.uids.contains(uid) && !proxy.gids.contains(&Gid::from(*uid)));
    let other_user = other_user.expect("a proxy has few users");
    let mark = proxy.mark.map_or(0, |mark| mark.value);
    let user = proxy.uids.first().copied().unwrap_or(other_user);
    let group = proxy.gids.first().copied().unwrap_or(Gid::from(other_user));
    let mut packets = Vec::new();
    for family in rules.iter().map(|rules| rules.rules().family) {
        let own = own(family);
        let loopback = mesh::loopback(family);
        let mut put = |protocol, (uid, gid, mark), source, (address, port)| {
            let interface = InterfaceName::loopback().to_string();
            let (source, destination) = (SocketAddr::new(source, 40_000), SocketAddr::new(address, port));
            packets.push(Packet {
                direction: Direction::Outbound { interface, uid, gid },
                protocol,
                source,
                destination,
                mark,
                connmark: 0,
                state: ConnState::New,
            });
        };
        let application = (other_user, Gid::from(other_user), 0);
        put(Protocol::Tcp, application, own, (own, PORT));
        put(Protocol::Tcp, application, loopback, (loopback, PORT));
        put(Protocol::Udp, application, loopback, (loopback, PORT));
        put(Protocol::Udp, application, loopback, (loopback, DNS_PORT.number()));
        put(Protocol::Tcp, (user, group, mark), own, (own, PORT));
        if let Some(passthrough) = proxy.passthrough(family) {
            put(Protocol::Tcp, (user, group, mark), passthrough, (own, PORT));
        }
    }
    packets
}
