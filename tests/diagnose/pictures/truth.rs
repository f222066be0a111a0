//! Every row of every scenario's picture against the simulator, for each mesh: packets of all kinds that the rules ask for
//! end as the first row that fits them says, and no row is left without a packet.

use crate::support::catalogue::{Case, scenarios};
use diagnose::explain::VerdictKind;
use diagnose::explain::{PodContext, RuleView};
use diagnose::picture::{self, Panel, PictureFlow};
use mesh::Setting;
use mesh::settings::{self, Topic};
use mesh::sources::pflag::{Flags, PflagWord, word};
use mesh::sources::{Dialect, NullHost, Raw};
use mesh::{Capture, DNS_PORT, Mesh};
use rules::simulate::{Direction, Packet, walk};
use rules::{ConnState, Family, Gid, Match, PortRange, Protocol, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Addresses that no scenario names: others', or the pod's where it has none of the family.
const OUTSIDE: [&str; 2] = ["203.0.113.9", "2001:db8::99"];

/// A port of applications.
const USUAL_PORT: u16 = 8080;

/// What a scenario's call asks for, and the pod's addresses.
fn configuration(case: &Case) -> (Capture, Vec<IpAddr>) {
    let mesh: Mesh = case.mesh().map_or_else(Mesh::default, |name| name.parse().expect("a mesh"));
    let topics = [Topic::Capture, Topic::Facts];
    let flags = Flags::of(settings::of(mesh).filter(|row| topics.contains(&row.topic)));
    let (mut given, mut words) = (Vec::new(), case.flags().into_iter());
    while let Some(text) = words.next() {
        match word(&text, &flags) {
            PflagWord::Flags(found) => given.extend(found),
            PflagWord::NeedsValue(found, row) => {
                given.extend(found);
                given.push((row, words.next().expect("a value")));
            }
            PflagWord::End | PflagWord::Bare | PflagWord::Unknown { .. } => {
                panic!("{text} is not a flag of capture")
            }
        }
    }
    let addresses =
        given.iter().filter(|(row, _)| row.long == "pod-ips").flat_map(|(_, text)| text.split(','));
    let addresses = addresses.map(|text| text.parse().expect("an address")).collect();
    let variables = case.variables();
    let variable = |name: &str| variables.iter().find(|(own, _)| own == name).map(|(_, value)| value.into());
    let given = given.into_iter().map(|(row, text)| (row.setting, text));
    let given = given.chain([(Setting::Mesh, mesh.name().to_owned())]);
    let raw = Raw::new(given, |row| row.setting.is_for(mesh), variable);
    (mesh::resolve(&raw, &NullHost, Vec::new()).expect("scenarios are valid").capture, addresses)
}

/// What rules ask of packets, as values to try: of each kind of rule some, each value with its neighbour.
#[derive(Default)]
struct PacketQuestion {
    addresses: BTreeSet<IpAddr>,
    sources: BTreeSet<IpAddr>,
    ports: BTreeSet<u16>,
    uids: BTreeSet<u32>,
    gids: BTreeSet<u32>,
    interfaces: BTreeSet<String>,
}

impl PacketQuestion {
    /// Rules of a kind, and items of a rule, beyond which others say no more.
    const ENOUGH: usize = 6;

    fn of(config: &Capture, family: Family) -> Self {
        let (mut requested, mut met) = (Self::default(), BTreeMap::new());
        let rules = config.rules(family);
        for statement in &rules.rules().statements {
            let count: &mut usize =
                met.entry(statement.origin.map(|origin| (origin.name, origin.option))).or_default();
            *count += 1;
            if *count <= Self::ENOUGH {
                statement.rule.matches.iter().for_each(|one| requested.take(one));
            }
        }
        requested
    }

    fn take(&mut self, requested: &Match) {
        let ends = |range: &PortRange| [range.first().number(), range.last().number().saturating_add(1)];
        match requested {
            Match::Destination(network) => drop(self.addresses.insert(network.value().address())),
            Match::Source(network) => drop(self.sources.insert(network.value().address())),
            Match::DestinationPort(port) => self.ports.extend(ends(port.value())),
            Match::DestinationPorts(ports) => {
                self.ports.extend(ports.value().ranges().iter().take(Self::ENOUGH).flat_map(ends));
            }
            Match::UidOwner(uids) => {
                let (first, last) = (uids.value().first().number(), uids.value().last().number());
                self.uids.extend([first, last]);
            }
            Match::GidOwner(gid) => drop(self.gids.insert(gid.value().number())),
            Match::InInterface(name) | Match::OutInterface(name) => {
                self.interfaces.insert(name.value().as_str().replace('+', "7"));
            }
            Match::Protocol(_)
            | Match::ProtocolModule(_)
            | Match::SourcePort(_)
            | Match::Mark(_)
            | Match::Connmark(_)
            | Match::ConnState(_)
            | Match::Comment(_) => {}
        }
    }
}

/// Packets to the borders of all that the rules ask, of everybody whom they name, over every interface.
fn packets(config: &Capture, own: &[IpAddr], family: Family) -> Vec<Packet> {
    let id = |number: u32| (Uid::new(number).expect("an id"), Gid::new(number).expect("an id"));
    let of_family = |texts: &[&str]| -> Vec<IpAddr> {
        let all = texts.iter().map(|text| text.parse().expect("an address"));
        all.filter(|address| Family::of(*address) == family).collect()
    };
    let mut requested = PacketQuestion::of(config, family);
    let proxy = config.proxy();
    let mut senders = vec![id(1000), id(4242)];
    let uids = proxy.uids.iter().copied().chain(requested.uids.iter().map(|uid| id(*uid).0));
    senders.extend(uids.flat_map(|uid| [(uid, Gid::from(uid)), (uid, id(1000).1)]));
    let gids = proxy.gids.iter().copied().chain(requested.gids.iter().map(|gid| id(*gid).1));
    senders.extend(gids.map(|gid| (id(1000).0, gid)));
    senders.extend(proxy.uids.first().copied().zip(proxy.gids.first().copied()));
    senders.sort_unstable();
    senders.dedup();
    let marks: Vec<u32> = [0].into_iter().chain(proxy.mark.map(|mark| mark.value)).collect();
    requested.addresses.extend(own.iter().filter(|address| Family::of(**address) == family));
    requested.addresses.extend(of_family(&["127.0.0.1", "127.0.0.6", "127.9.9.9", "::1", "::6"]));
    requested.addresses.extend(of_family(&OUTSIDE));
    requested.sources.extend(own.iter().filter(|address| Family::of(**address) == family));
    requested.sources.extend(of_family(&["127.0.0.6", "::6", "192.0.2.1", "2001:db8::1"]));
    requested.ports.extend([DNS_PORT.number(), 80, USUAL_PORT]);
    requested.ports.extend(proxy.listeners.tunnel.map(|port| port.number()));
    // Rules of one family may name interfaces of which those of the other say nothing.
    requested
        .interfaces
        .extend(config.families().flat_map(|family| PacketQuestion::of(config, family).interfaces));
    requested.interfaces.extend(["eth0", "lo"].map(str::to_owned));
    let mut found = Vec::new();
    for (&address, &port) in
        requested.addresses.iter().flat_map(|address| requested.ports.iter().map(move |port| (address, port)))
    {
        let destination = SocketAddr::new(address, port);
        for (&source, protocol) in
            requested.sources.iter().flat_map(|one| [(one, Protocol::Tcp), (one, Protocol::Udp)])
        {
            let source = SocketAddr::new(source, 40_000);
            let packet = |direction, state, mark| Packet {
                direction,
                protocol,
                source,
                destination,
                mark,
                connmark: 0,
                state,
            };
            for interface in &requested.interfaces {
                if interface != "lo" {
                    // Those for others come from virtual machines.
                    for local in [own.is_empty() || own.contains(&address), false] {
                        let inbound = Direction::Inbound { interface: interface.clone(), local };
                        found.push(packet(inbound.clone(), ConnState::New, 0));
                        found.push(packet(inbound, ConnState::Invalid, 0));
                    }
                }
                for (&(uid, gid), &mark) in
                    senders.iter().flat_map(|one| marks.iter().map(move |mark| (one, mark)))
                {
                    let interface = interface.clone();
                    found.push(packet(Direction::Outbound { interface, uid, gid }, ConnState::New, mark));
                }
            }
        }
    }
    found
}

#[test]
fn rows_walked_in_order_tell_what_becomes_of_packets() {
    let (mut met, mut by_order) = (BTreeSet::new(), BTreeMap::<Mesh, usize>::new());
    for case in scenarios(|_| true) {
        let (config, own) = configuration(&case);
        met.insert(config.mesh());
        let mut pod = PodContext::with_placeholders(own.clone(), Some(&*config));
        pod.is_known = !own.is_empty();
        let picture = picture::of(&config, &Dialect::default(), &pod);
        let mut taken: Vec<&PictureFlow> = Vec::new();
        for family in config.families() {
            let scene = RuleView::of_config(&*config, family, &pod);
            let examples = picture.panels().iter().flat_map(Panel::examples).cloned();
            let examples = examples.filter(|packet| packet.family() == family);
            for packet in &packets(&config, &own, family).into_iter().chain(examples).collect::<Vec<_>>() {
                let Some(flow) = picture.flow_of(packet) else { continue };
                let verdict = VerdictKind::of(walk(&scene.view, &scene.routing, packet, &mut ()).verdict);
                let place = case.name();
                assert_eq!(flow.end(), verdict, "{place}: {packet:?}\n{flow:?}");
                let is_of = |panel: &&Panel| panel.flows().iter().any(|other| std::ptr::eq(other, flow));
                let panel = picture.panels().iter().find(is_of).expect("an arrow is of a panel");
                // As a reader walks: only what is shown, from the top.
                let mut fitting = panel.flows().iter().filter(|flow| flow.fits(packet));
                let first = fitting.next().unwrap_or_else(|| panic!("{place}: no row for {packet:?}"));
                assert_eq!(first.end(), verdict, "{place}: {packet:?}\n{first:?}");
                let is_decided_by_order = fitting.any(|later| later.end() != verdict);
                *by_order.entry(config.mesh()).or_default() += usize::from(is_decided_by_order);
                if !taken.iter().any(|known| std::ptr::eq(*known, first)) {
                    taken.push(first);
                }
            }
        }
        for flow in picture.panels().iter().flat_map(Panel::flows) {
            let is_taken = taken.iter().any(|known| std::ptr::eq(*known, flow));
            assert!(is_taken, "{}: no packet takes {flow:?}", case.name());
        }
    }
    assert_eq!(met, Mesh::ALL.iter().copied().collect(), "each mesh has scenarios");
    assert!(met.iter().all(|mesh| by_order[mesh] > 100), "the order of rows decides: {by_order:?}");
}
