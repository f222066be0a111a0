//! Draws the picture of a configuration from its rules: an arrow is what a rule does to packets, in the order in which rules
//! decide, and names the setting that makes the rule.

use super::flow::{FlowDisposition, FlowEndpoint, Is, PictureFlow, with_option};
use super::label::Label;
use super::model::{Picture, option};
use super::panel::{Panel, TrafficPart};
use super::walk::{Arrow, Assumptions, arrows};
use super::words::{Before, Known};
use super::{exceptions, join};
use crate::explain::{PodContext, RuleView};
use crate::pod_packets::samples;
use crate::unnamed::unnamed_user;
use mesh::sources::Dialect;
use mesh::{Capture, DNS_PORT, Proxy, RuleReason, Selector};
use rules::nft::Intervals;
use rules::simulate::{Direction, Packet};
use rules::{Checked, Cidr, ConnState, Family, Gid, InterfaceName, Mark, Match, Negatable, Protocol, Uid};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What becomes of the traffic that a configuration describes, with settings named as their author writes them.
pub fn draw(capture: &Capture, dialect: &Dialect) -> Picture {
    let known = Known { proxy: capture.proxy(), program: capture.mesh().proxy_program() };
    let proxy = &known.proxy;
    let machines: Vec<InterfaceName> = capture.lists().into_iter().filter_map(machine).collect();
    let marks: Vec<Mark> = proxy.mark.into_iter().collect();
    let rules: Vec<Checked> = capture.families().map(|family| capture.rules(family)).collect();
    let parts = [TrafficPart::Inbound, TrafficPart::Machines, TrafficPart::Outbound, TrafficPart::Within];
    let panels =
        parts.into_iter().filter(|part| *part != TrafficPart::Machines || !machines.is_empty()).map(|part| {
            // What arrives has no mark yet.
            let marks = if part.is_sent_here() { &marks[..] } else { &[] };
            let assumed = Assumptions { part, machines: &machines, marks };
            let of_family = |rules: &Checked| {
                let resolved = exceptions::resolved(join::joined(arrows(rules.rules(), &assumed)));
                // Twice: arrows that the first pass merges may then be like their neighbours.
                join::joined(join::joined(resolved))
            };
            let arrows = match &rules[..] {
                [v4, v6] => join::both(&of_family(v4), &of_family(v6)),
                only => only.iter().flat_map(of_family).collect(),
            };
            Panel { part, flows: flows(arrows, &known, part, dialect) }
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
        false => format!("{}: {families}{mode}.", capture.mesh().ownership().name),
    };
    let proxy = known.program.name;
    let picture = Picture { marks, proxy, ..Picture::new(note, panels, capture.ipv6(), machines) };
    shown(picture, &rules, &known)
}

fn machine(listed: mesh::ListItem) -> Option<InterfaceName> {
    match listed.selector {
        Selector::VmInterface(name) => Some(name),
        _ => None,
    }
}

fn flows(arrows: Vec<Arrow>, known: &Known, part: TrafficPart, dialect: &Dialect) -> Vec<PictureFlow> {
    let flow = |Arrow { needs, disposition, origin }: Arrow| {
        let setting = origin.and_then(RuleReason::setting_of).filter(|setting| dialect.is_given(*setting));
        let option = setting.map(|setting| option(setting, dialect));
        let (from, to) = (known.sender(&needs, part), known.recipient(&needs, part, disposition));
        // `shown` sets the label, which depends on the arrows that are shown before this one.
        PictureFlow { needs, from, to, disposition, label: Label::default(), option, shown: false }
    };
    let mut flows: Vec<PictureFlow> = Vec::new();
    for flow in arrows.into_iter().map(flow) {
        match flows.last_mut() {
            Some(last) if is_of_proxy(last) && is_of_proxy(&flow) => take_in(last, flow),
            _ => flows.push(flow),
        }
    }
    flows
}

/// Whether it lets pass all that the proxy's users or groups send.
fn is_of_proxy(flow: &PictureFlow) -> bool {
    flow.from == FlowEndpoint::Proxy
        && flow.disposition == FlowDisposition::Passing
        && matches!(flow.needs[..], [Is::Of(..)])
}

/// Users and groups of the proxy are one sender, though two settings name them.
fn take_in(flow: &mut PictureFlow, other: PictureFlow) {
    for (need, more) in flow.needs.iter_mut().zip(other.needs) {
        if let (Is::Of(users, groups), Is::Of(more_users, more_groups)) = (need, more) {
            users.extend(more_users);
            groups.extend(more_groups);
        }
    }
    flow.option = with_option(flow.option.take(), other.option);
}

/// Shows the arrows that some packet takes, and names them: of traffic within the pod, those of usual calls.
fn shown(mut picture: Picture, rules: &[Checked], known: &Known) -> Picture {
    let names = picture.machines.iter().cloned().map(|name| Match::InInterface(Negatable::Is(name)));
    let machines: Vec<Intervals> = names.filter_map(|name| Some(name.condition()?.values)).collect();
    let packets = rules.iter().flat_map(|rules| {
        let pod = PodContext::new([pod_address(rules)], None);
        samples(&RuleView::alone(rules.rules(), &pod), &pod, &machines)
    });
    let packets = packets.chain(calls_across_border(rules, &picture.machines, &known.proxy));
    let mut taken: Vec<(usize, usize)> = packets.filter_map(|packet| picture.at(&packet)).collect();
    taken.sort_unstable();
    taken.dedup();
    for (panel, flow) in taken {
        picture.panels[panel].flows[flow].shown = picture.panels[panel].part != TrafficPart::Within;
    }
    let calls = calls_within_pod(rules, &known.proxy);
    for panel in picture.panels.iter_mut().filter(|panel| panel.part == TrafficPart::Within) {
        panel.keep_what_matters(&calls);
    }
    for Panel { part, flows } in &mut picture.panels {
        let mut before = Before::default();
        for flow in flows {
            flow.label = known.label(flow, *part, before);
            if flow.shown {
                before.see(flow);
            }
        }
    }
    picture
}

/// A port of applications.
const PORT: u16 = 8080;

/// Addresses of others: for documentation (RFC 5737, RFC 3849, RFC 9637), for benchmarks (RFC 2544), and a unique local one
/// (RFC 4193). There are several, as exceptions rarely name all.
const OTHERS: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)),
    IpAddr::V4(Ipv4Addr::new(198, 18, 0, 9)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9)),
    IpAddr::V6(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 9)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 9)),
];

/// Calls and DNS queries from others, from virtual machines, and to others. They are tried beside `probes`, which are made
/// from the conditions of rules: those may not name virtual machines in one of the families, for example.
fn calls_across_border(rules: &[Checked], machines: &[InterfaceName], proxy: &Proxy) -> Vec<Packet> {
    let machines = machines.iter().map(|machine| machine.as_str().replace('+', "0"));
    let inbound =
        machines.chain(["eth0".to_owned()]).map(|interface| Direction::Inbound { interface, local: false });
    let user = other_user(proxy);
    let outbound = Direction::Outbound { interface: "eth0".to_owned(), uid: user, gid: Gid::from(user) };
    let directions: Vec<Direction> = inbound.chain([outbound]).collect();
    let mut packets = Vec::new();
    for rules in rules {
        let family = rules.rules().family;
        let own = pod_address(rules);
        for other in OTHERS.into_iter().filter(|other| Family::of(*other) == family) {
            for direction in &directions {
                let (source, destination) = match direction {
                    Direction::Inbound { .. } => (other, own),
                    Direction::Outbound { .. } => (own, other),
                };
                for (protocol, port) in [Protocol::Tcp, Protocol::Udp]
                    .into_iter()
                    .flat_map(|protocol| [PORT, DNS_PORT.number()].map(|port| (protocol, port)))
                {
                    packets.push(Packet {
                        direction: direction.clone(),
                        protocol,
                        source: SocketAddr::new(source, 40_000),
                        destination: SocketAddr::new(destination, port),
                        mark: 0,
                        connmark: 0,
                        state: ConnState::New,
                    });
                }
            }
        }
    }
    packets
}

/// A user and a group that are not the proxy's.
fn other_user(proxy: &Proxy) -> Uid {
    let named = proxy.uids.iter().map(|uid| uid.number()).chain(proxy.gids.iter().map(|gid| gid.number()));
    unnamed_user(named, |uid| proxy.uids.contains(&uid) || proxy.gids.contains(&Gid::from(uid)))
}

/// An address for documentation (RFC 5737, RFC 3849) in place of the pod's own: one that no rule names.
fn pod_address(rules: &Checked) -> IpAddr {
    let family = rules.rules().family;
    let matches = || rules.rules().statements.iter().flat_map(|statement| &statement.rule.matches);
    let is_named = |address: IpAddr| {
        matches().any(|one| match one {
            Match::Source(network) | Match::Destination(network) => *network.value() == Cidr::host(address),
            _ => false,
        })
    };
    let address = |last: u8| -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::new(198, 51, 100, last).into(),
            Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, last.into()).into(),
        }
    };
    (1..=u8::MAX).map(address).find(|address| !is_named(*address)).unwrap_or_else(|| address(1))
}

/// What a pod usually sends to its own address and to loopback: calls and DNS queries of the application, those of the
/// proxy, and what the proxy forwards.
fn calls_within_pod(rules: &[Checked], proxy: &Proxy) -> Vec<Packet> {
    let other_user = other_user(proxy);
    let mark = proxy.mark.map_or(0, |mark| mark.value);
    let user = proxy.uids.first().copied().unwrap_or(other_user);
    let group = proxy.gids.first().copied().unwrap_or(Gid::from(other_user));
    let mut packets = Vec::new();
    for rules in rules {
        let (own, family) = (pod_address(rules), rules.rules().family);
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
        for (address, protocol) in
            [own, loopback].into_iter().flat_map(|to| [Protocol::Tcp, Protocol::Udp].map(|by| (to, by)))
        {
            put(protocol, application, address, (address, PORT));
            put(protocol, application, address, (address, DNS_PORT.number()));
        }
        put(Protocol::Tcp, (user, group, mark), own, (own, PORT));
        put(Protocol::Tcp, (user, group, mark), loopback, (loopback, PORT));
        put(Protocol::Udp, (user, group, mark), loopback, (loopback, DNS_PORT.number()));
        if let Some(passthrough) = proxy.passthrough(family) {
            put(Protocol::Tcp, (user, group, mark), passthrough, (own, PORT));
        }
    }
    packets
}
