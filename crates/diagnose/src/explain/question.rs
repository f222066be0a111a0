//! Packet of a question, from settings. Reports all problems at once.

use super::destination::destination;
use super::pod::{Arrival, IncomingPacket, OUTSIDE, OutgoingPacket, PodContext, Route, Routes, Sender};
use crate::pod_packets::{PodPackets, SOURCE_PORT, local_addresses, outside_addresses, without_owners};
use mesh::settings::{Setting, alternatives};
use mesh::sources::{SettingReader, Source};
use rules::nft::{Field, Interval, interface_number};
use rules::simulate::{Direction, LOOPBACK, Outcome, Packet, PacketSet, Verdict};
use rules::{ConnState, Family, Gid, InterfaceName, Port, Protocol, Uid, number::unsigned};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub struct QuestionContext<'a> {
    pub pod: &'a PodContext,
    pub routes: &'a dyn Routes,
    pub names: &'a dyn Fn(&str) -> Option<io::Result<Vec<IpAddr>>>,
}

#[derive(Clone, Debug)]
pub struct PacketQuery {
    pub packet: Packet,
    pub endpoint_names: EndpointNames,
    /// Reason, as a clause, why no such packet is sent or accepted; `None` for a packet with a route.
    pub no_route: Option<String>,
    pub is_apps: bool,
    /// All packets that the question may concern, if it leaves properties open.
    pub(crate) open: Option<PacketSet>,
}

/// Names shown instead of a packet's source and destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointNames {
    /// `Some` if the source address is a placeholder.
    source: Option<&'static str>,
    destination: Option<String>,
    stands_in: bool,
    interface_unknown: bool,
    pub(super) user_remark: &'static str,
}

impl EndpointNames {
    /// Address, with the port if the question names one.
    pub fn source(&self, packet: &Packet) -> String {
        match (self.source, packet.source.port()) {
            (None, 0) => packet.source.ip().to_string(),
            (None, _) => packet.source.to_string(),
            (Some(name), 0) => name.to_owned(),
            (Some(name), port) => format!("{name}:{port}"),
        }
    }

    pub fn destination(&self, packet: &Packet) -> String {
        match &self.destination {
            Some(name) => format!("{name}:{}", packet.destination.port()),
            None => packet.destination.to_string(),
        }
    }

    pub fn addresses(&self, packet: &Packet) -> (Option<IpAddr>, Option<IpAddr>) {
        let known = |end: SocketAddr, stands_in: bool| (!stands_in).then_some(end.ip());
        (known(packet.source, self.source.is_some()), known(packet.destination, self.stands_in))
    }

    pub fn user(&self, packet: &Packet) -> Option<u32> {
        match &packet.direction {
            Direction::Outbound { uid, .. } if self.user_remark.is_empty() => Some(uid.number()),
            Direction::Outbound { .. } | Direction::Inbound { .. } => None,
        }
    }

    pub fn interface<'a>(&self, packet: &'a Packet) -> Option<&'a str> {
        let (Direction::Outbound { interface, .. } | Direction::Inbound { interface, .. }) =
            &packet.direction;
        (!self.interface_unknown).then_some(interface)
    }

    pub(crate) fn of_example(example: &Packet, packets: &PodPackets, pod: &PodContext) -> Self {
        let name = |address: IpAddr| match address {
            address if packets.is_outside_example(address) => Some(OUTSIDE_ADDRESS_NAME),
            address => (pod.addresses.contains(&address) && !pod.is_known).then_some(POD_ADDRESS_NAME),
        };
        let (source, named) = (name(example.source.ip()), name(example.destination.ip()));
        let destination = named.map(str::to_owned);
        Self { source, destination, stands_in: named.is_some(), ..Self::default() }
    }
}

pub(super) const POD_ADDRESS_NAME: &str = "POD_IP";
const OUTSIDE_ADDRESS_NAME: &str = "external";

pub fn packet(reader: &mut SettingReader<'_>, context: &QuestionContext<'_>) -> Option<PacketQuery> {
    let before = reader.problem_count();
    let senders = [("app", Sender::App), ("proxy", Sender::Proxy), ("external", Sender::External)];
    let sender = choice(reader, Setting::Sender, &senders);
    let inbound = inbound(reader, sender);
    let destination = destination(reader, context, inbound);
    let protocol = choice(reader, Setting::Protocol, &[("tcp", Protocol::Tcp), ("udp", Protocol::Udp)]);
    let mark = reader.one_of(Setting::PacketMark, "a number from 0 to 4294967295", unsigned);
    let state = reader.one_of(Setting::CtState, "new, established, related or invalid", |text| {
        ConnState::ALL.into_iter().find(|state| state.name().eq_ignore_ascii_case(text))
    });
    let from = reader.one_of(Setting::PacketSource, "an address, or ADDRESS:PORT", |text| {
        let whole = text.parse::<SocketAddr>().map(|given| (given.ip(), Some(given.port())));
        let (address, port) = whole.ok().or_else(|| Some((text.parse().ok()?, None)))?;
        Some((address.to_canonical(), port))
    });
    let (from, source_port) = from.unzip();
    let source_port = source_port.flatten();
    let sender = sender.unwrap_or(Sender::App);
    let (uid, gid) = owner(reader, context.pod, sender, inbound);
    let interface = given_interface(reader, inbound);
    let destination = destination?;
    let to = destination.address;
    let protocol = protocol.unwrap_or(Protocol::Tcp);
    let mark = mark.unwrap_or_else(|| context.pod.mark(sender));
    let given = OutgoingPacket { to, from, source_port, protocol, uid, mark };
    let question = Question { given, gid, interface, of_pod: destination.stands_in };
    if let Some(source) = question.source().filter(|source| source.is_ipv4() != to.is_ipv4()) {
        let text = format!("is not of the same family as the destination {to}");
        reader.problem(&Source::Flag(Setting::PacketSource.row().long), &source.to_string(), text);
    }
    if reader.problem_count() != before {
        return None;
    }
    let found = if inbound { Some(question.arriving(context)) } else { question.leaving(context) };
    let Some(PacketRoute { direction, source, no_route, others }) = found else {
        let text = "is required, or --pod-ips: no pod address of this family is known";
        reader.whole(&Source::Flag(Setting::PacketSource.row().long), text);
        return None;
    };
    let is_apps = !inbound && sender == Sender::App && reader.raw.get(Setting::SenderUid).is_none();
    let endpoint_names = EndpointNames {
        source: source.1,
        destination: destination.name,
        stands_in: destination.stands_in,
        interface_unknown: no_route.is_some() && question.interface.is_none(),
        user_remark: if is_apps { context.pod.user_remark } else { "" },
    };
    let (source, state) = (source.0, state.unwrap_or(ConnState::New));
    let packet = Packet { direction, protocol, source, destination: to, mark, connmark: 0, state };
    let is_open = (from.is_none() && inbound, source_port.is_none(), is_apps && !context.pod.is_user_known);
    let open = around(&packet, context, is_open, &others);
    Some(PacketQuery { packet, endpoint_names, no_route, is_apps, open })
}

/// All packets that differ from `packet` only in open properties: source address, source port, user and group, or the interface,
/// which depends on the source port; `None` if none is open.
fn around(
    packet: &Packet,
    context: &QuestionContext<'_>,
    (source, source_port, user): (bool, bool, bool),
    others: &[String],
) -> Option<PacketSet> {
    let pod = context.pod;
    let family = packet.family();
    let mut set = PacketSet::one(packet);
    if source {
        set = set
            .with_any(Field::Source(family))
            .without(Field::Source(family), &local_addresses(family, &pod.addresses));
    }
    if source_port {
        set = set.with_any(Field::SourcePort);
        if let Direction::Outbound { .. } = packet.direction {
            let (first, last) = context.routes.local_ports();
            let ports = Interval { first: first.into(), last: last.into() };
            set = set.with(Field::SourcePort, &ports.into());
        }
    }
    if user {
        let (uids, gids) = &pod.proxy_ids;
        set = set.with_any(Field::Uid);
        set = match pod.user_remark.is_empty() {
            true => without_owners(set.with_any(Field::Gid), uids, gids),
            false => without_owners(set, uids, &[]),
        };
    }
    if let (Direction::Outbound { interface, .. }, [_, ..]) = (&packet.direction, others) {
        let names = others.iter().chain([interface]);
        let values = names.map(|name| Interval::one(interface_number(name))).collect();
        set = set.with_any(Field::OutInterface).with(Field::OutInterface, &values);
    }
    (source || source_port || user).then_some(set)
}

impl PacketQuery {
    /// Reason why the packet is not sent or accepted. NAT in PREROUTING precedes routing, so the new destination needs a route.
    pub fn no_route_by(&self, outcome: &Outcome, routes: &dyn Routes) -> Option<String> {
        let no_route = self.no_route.clone()?;
        let Direction::Inbound { interface, .. } = &self.packet.direction else { return Some(no_route) };
        let to = match (outcome.translated, outcome.verdict) {
            (Some(to), _) => Ok(to.address),
            (None, Verdict::Redirect(_)) => routes.address_at(interface, self.packet.family()),
            (None, _) => Err(no_route),
        };
        let (from, _) = self.endpoint_names.addresses(&self.packet);
        let incoming = |to| IncomingPacket { to, from, at: Some(interface), mark: self.packet.mark };
        to.and_then(|to| routes.arriving(&incoming(to))).err()
    }
}

struct Question {
    /// Packet settings; the user matters only for outbound packets.
    given: OutgoingPacket,
    gid: Gid,
    interface: Option<String>,
    /// True if the destination is a placeholder: the pod's own address is unknown.
    of_pod: bool,
}

struct PacketRoute {
    direction: Direction,
    source: (SocketAddr, Option<&'static str>),
    no_route: Option<String>,
    others: Vec<String>,
}

impl Question {
    fn source(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.given.from?, self.given.source_port.unwrap_or(SOURCE_PORT)))
    }

    fn arriving(&self, context: &QuestionContext<'_>) -> PacketRoute {
        let Self { given: OutgoingPacket { to, from, mark, .. }, interface, of_pod, .. } = self;
        let arriving = IncomingPacket { to: to.ip(), from: *from, at: interface.as_deref(), mark: *mark };
        let found = context.routes.arriving(&arriving);
        let no_route = found.as_ref().err().cloned();
        let Arrival { interface: at, local } =
            found.unwrap_or_else(|_| Arrival { interface: OUTSIDE.to_owned(), local: false });
        // A declared address of the pod counts as its own, even if no interface has it.
        let local = local || *of_pod || context.pod.route(to.ip()) == LOOPBACK;
        let outsider = || (SocketAddr::new(outsider(to.ip()), SOURCE_PORT), Some(OUTSIDE_ADDRESS_NAME));
        let source = self.source().map_or_else(outsider, |source| (source, None));
        let direction = Direction::Inbound { interface: interface.clone().unwrap_or(at), local };
        PacketRoute { direction, source, no_route, others: Vec::new() }
    }

    fn leaving(&self, context: &QuestionContext<'_>) -> Option<PacketRoute> {
        let Self { given: given @ OutgoingPacket { to, protocol, uid, .. }, gid, interface, .. } = self;
        // Packets to a declared address of the pod stay in it, even if no interface has the address.
        let routes: &dyn Routes =
            if context.pod.addresses.contains(&to.ip()) { context.pod } else { context.routes };
        let found = routes.leaving(given);
        let no_route = match &found {
            // `tcp_v4_connect` in the kernel's `net/ipv4/tcp_ipv4.c`, and `tcp_v6_connect`.
            Ok(route) if route.is_group && *protocol == Protocol::Tcp => {
                Some(format!("no packet is sent: TCP connects to one host, not to the group {}", to.ip()))
            }
            found => found.as_ref().err().cloned(),
        };
        let route = found.unwrap_or_else(|_| Route::by(context.pod.route(to.ip()).to_owned()));
        let of_route = route.source.map(|source| SocketAddr::new(source, SOURCE_PORT));
        let source = match self.source().or(of_route) {
            Some(source) => (source, None),
            None => {
                let any = || no_route.is_some().then(|| (context.pod.address(Family::of(to.ip())).0, false));
                let (source, is_known) = default_source(context.pod, to.ip()).or_else(any)?;
                (SocketAddr::new(source, SOURCE_PORT), (!is_known).then_some(POD_ADDRESS_NAME))
            }
        };
        let others = if interface.is_none() { route.others } else { Vec::new() };
        let interface = interface.clone().unwrap_or(route.interface);
        let direction = Direction::Outbound { interface, uid: *uid, gid: *gid };
        Some(PacketRoute { direction, source, no_route, others })
    }
}

#[cfg(test)]
pub(crate) fn usual_packet(
    sender: Sender,
    pod: &PodContext,
    protocol: Protocol,
    destination: SocketAddr,
) -> Packet {
    let to = destination.ip();
    let (direction, source) = if sender == Sender::External {
        (Direction::Inbound { interface: OUTSIDE.to_owned(), local: true }, outsider(to))
    } else {
        let ((uid, gid), interface) = (pod.owner(sender), pod.route(to).to_owned());
        (Direction::Outbound { interface, uid, gid }, default_source(pod, to).expect("an address").0)
    };
    let (source, mark) = (SocketAddr::new(source, SOURCE_PORT), pod.mark(sender));
    Packet { direction, protocol, source, destination, mark, connmark: 0, state: ConnState::New }
}

fn choice<T: Copy>(reader: &mut SettingReader<'_>, setting: Setting, choices: &[(&str, T)]) -> Option<T> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let named = |text: &str| choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    reader.one_of(setting, &alternatives(&names), named)
}

fn inbound(reader: &mut SettingReader<'_>, sender: Option<Sender>) -> bool {
    let given = choice(reader, Setting::Direction, &[("outbound", false), ("inbound", true)]);
    let external = sender.map(|sender| sender == Sender::External);
    if let (Some(inbound), Some(external)) = (given, external)
        && inbound != external
    {
        let text = "contradicts --sender: the pod's processes send outbound, others inbound";
        reader.whole(&Source::Flag(Setting::Direction.row().long), text);
    }
    let says =
        |setting, test: fn(&str) -> bool| reader.raw.get(setting).is_some_and(|given| test(&given.value));
    let to_own_port = says(Setting::Destination, |text| text.trim().parse::<Port>().is_ok());
    given.or(external).unwrap_or(to_own_port || says(Setting::InInterface, |_| true))
}

pub(super) fn outsider(to: IpAddr) -> IpAddr {
    outside_addresses(Family::of(to))[0]
}

/// Source address of the pod's packets, and true if it is known; `None` if the pod has none in the family.
pub(crate) fn default_source(pod: &PodContext, to: IpAddr) -> Option<(IpAddr, bool)> {
    match to {
        // The route of 127.0.0.0/8 sets this source.
        IpAddr::V4(to) if to.is_loopback() => Some((Ipv4Addr::LOCALHOST.into(), true)),
        to if pod.route(to) == LOOPBACK => Some((to, pod.is_known || !pod.addresses.contains(&to))),
        to => {
            let of_family = |own: &IpAddr| Family::of(*own) == Family::of(to);
            let is_determined = !pod.is_known || pod.addresses.iter().any(of_family);
            is_determined.then(|| pod.address(Family::of(to)))
        }
    }
}

fn owner(reader: &mut SettingReader<'_>, pod: &PodContext, sender: Sender, inbound: bool) -> (Uid, Gid) {
    let preset = pod.owner(sender);
    if inbound {
        refuse(reader, &[Setting::SenderUid, Setting::SenderGid], "inbound");
        return preset;
    }
    let expected = "a number from 0 to 4294967294";
    let uid: Option<Uid> = reader.one_of(Setting::SenderUid, expected, |text| text.parse().ok());
    let gid: Option<Gid> = reader.one_of(Setting::SenderGid, expected, |text| text.parse().ok());
    (uid.unwrap_or(preset.0), gid.or(uid.map(Gid::from)).unwrap_or(preset.1))
}

fn given_interface(reader: &mut SettingReader<'_>, inbound: bool) -> Option<String> {
    let (own, other, direction) = match inbound {
        true => (Setting::InInterface, Setting::OutInterface, "inbound"),
        false => (Setting::OutInterface, Setting::InInterface, "outbound"),
    };
    refuse(reader, &[other], direction);
    reader.one_of(own, "the name of an interface, up to 15 letters, digits, _ - . or @", |text| {
        let name: InterfaceName = text.parse().ok()?;
        name.prefix().is_none().then(|| text.to_owned())
    })
}

fn refuse(reader: &mut SettingReader<'_>, settings: &[Setting], direction: &str) {
    for setting in settings {
        if let Some(given) = reader.raw.get(*setting) {
            reader.whole(&given.source, format!("does not apply to {direction} packets"));
        }
    }
}
