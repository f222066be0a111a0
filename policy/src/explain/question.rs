//! The packet that somebody asks about, from words. Strict: every problem at once.

use super::pod::{OUTSIDE, Pod, Sender};
use crate::settings::Setting;
use crate::sources::{Reader, Source};
use rules::simulate::{Direction, Packet};
use rules::{ConnState, Family, Gid, InterfaceName, Port, Protocol, Uid, number::unsigned};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A port such as the kernel picks (`net.ipv4.ip_local_port_range` starts at 32768).
const SOURCE_PORT: u16 = 40_000;

/// Reads the packet; `None` if there is a problem.
pub fn packet(reader: &mut Reader<'_>, pod: &Pod) -> Option<Packet> {
    let before = reader.problem_count();
    let sender = reader.one_of(Setting::Sender, "app, proxy or external", |text| match text {
        "app" => Some(Sender::App),
        "proxy" => Some(Sender::Proxy),
        "external" => Some(Sender::External),
        _ => None,
    });
    let inbound = inbound(reader, sender);
    let destination = destination(reader, pod, inbound);
    let protocol = reader.one_of(Setting::Protocol, "tcp or udp", |text| match text {
        "tcp" => Some(Protocol::Tcp),
        "udp" => Some(Protocol::Udp),
        _ => None,
    });
    let mark = reader.one_of(Setting::PacketMark, "a number from 0 to 4294967295", unsigned);
    let state = reader.one_of(Setting::CtState, "new, established, related or invalid", |text| {
        ConnState::ALL.into_iter().find(|state| state.name().eq_ignore_ascii_case(text))
    });
    let source = reader.one_of(Setting::PacketSource, "an address, or ADDRESS:PORT", |text| {
        let given = text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse().ok()?, SOURCE_PORT)))?;
        Some(SocketAddr::new(given.ip().to_canonical(), given.port()))
    });
    let direction = match inbound {
        true => arriving(reader, pod, destination),
        false => leaving(reader, pod, sender, destination),
    };
    let destination = destination?;
    let source = source.or_else(|| {
        let found = default_source(pod, inbound, destination);
        if found.is_none() {
            let text = "is needed: no address of the pod in this family is known; --pod-ips would do too";
            reader.whole(&Source::Flag(Setting::PacketSource.row().long), text);
        }
        found
    });
    if let Some(source) = source.filter(|source| source.is_ipv4() != destination.is_ipv4()) {
        let text = format!("is of another family than the destination {destination}");
        reader.problem(&Source::Flag(Setting::PacketSource.row().long), &source.to_string(), text);
    }
    (reader.problem_count() == before).then_some(Packet {
        direction,
        protocol: protocol.unwrap_or(Protocol::Tcp),
        source: source?,
        destination,
        mark: mark.unwrap_or_else(|| pod.mark(sender.unwrap_or(Sender::App))),
        connmark: 0,
        state: state.unwrap_or(ConnState::New),
    })
}

/// A packet of the usual kind: new, marked by the proxy alone, from where such packets come. `None` where nothing is known
/// of the pod's address, or where nobody outside can send it.
pub(crate) fn usual(
    sender: Sender,
    pod: &Pod,
    protocol: Protocol,
    destination: SocketAddr,
) -> Option<Packet> {
    let inbound = sender == Sender::External;
    if inbound && !pod.addresses.contains(&destination.ip()) {
        return None;
    }
    let (uid, gid) = pod.owner(sender);
    let direction = match inbound {
        true => Direction::Inbound { interface: OUTSIDE.to_owned(), local: true },
        false => Direction::Outbound { interface: pod.route(destination.ip()).to_owned(), uid, gid },
    };
    let source = default_source(pod, inbound, destination)?;
    let mark = pod.mark(sender);
    Some(Packet { direction, protocol, source, destination, mark, connmark: 0, state: ConnState::New })
}

fn inbound(reader: &mut Reader<'_>, sender: Option<Sender>) -> bool {
    let given = reader.one_of(Setting::Direction, "outbound or inbound", |text| match text {
        "outbound" => Some(false),
        "inbound" => Some(true),
        _ => None,
    });
    let external = sender.map(|sender| sender == Sender::External);
    if let (Some(inbound), Some(external)) = (given, external)
        && inbound != external
    {
        let text = "contradicts --as: the pod's processes send outbound, others inbound";
        reader.whole(&Source::Flag(Setting::Direction.row().long), text);
    }
    let says =
        |setting, test: fn(&str) -> bool| reader.raw.get(setting).is_some_and(|given| test(&given.value));
    let to_own_port = says(Setting::Destination, |text| text.trim().parse::<Port>().is_ok());
    given.or(external).unwrap_or(to_own_port || says(Setting::InInterface, |_| true))
}

fn destination(reader: &mut Reader<'_>, pod: &Pod, inbound: bool) -> Option<SocketAddr> {
    if reader.raw.get(Setting::Destination).is_none() {
        let text = "is needed: where the packet goes, such as 10.0.0.5:443";
        reader.whole(&Source::Flag(Setting::Destination.row().long), text);
    }
    let expected = "ADDRESS:PORT with a port from 1 to 65535, such as 10.0.0.5:443 or [2001:db8::1]:443, or for a call from outside a port of the pod's";
    reader.one_of(Setting::Destination, expected, |text| {
        let own_port = || {
            let address = pod.addresses.first().filter(|_| inbound)?;
            Some(SocketAddr::new(*address, text.parse::<Port>().ok()?.number()))
        };
        let given = text.parse().ok().filter(|to: &SocketAddr| to.port() != 0);
        let address = |to: SocketAddr| if inbound { to.ip().to_canonical() } else { met(to.ip()) };
        given.map(|to| SocketAddr::new(address(to), to.port())).or_else(own_port)
    })
}

/// The address that rules meet when a process calls this one. An IPv4 address in an IPv6 one is called over IPv4 (RFC 4291,
/// 2.5.5.2), and the unspecified address is the pod itself (`ip_route_output_key_hash_rcu` in `net/ipv4/route.c`,
/// `tcp_v6_connect` in `net/ipv6/tcp_ipv6.c`).
fn met(called: IpAddr) -> IpAddr {
    match called.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

fn default_source(pod: &Pod, inbound: bool, destination: SocketAddr) -> Option<SocketAddr> {
    let to = destination.ip();
    let address = match to {
        // Nobody has these (RFC 5737, RFC 3849).
        IpAddr::V4(_) if inbound => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) if inbound => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        // The route of all of 127.0.0.0/8 names this source.
        IpAddr::V4(to) if to.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        to if pod.route(to) == "lo" => to,
        to => {
            let own = pod.addresses.iter().copied();
            own.filter(|a| !a.is_loopback()).find(|a| Family::of(*a) == Family::of(to))?
        }
    };
    Some(SocketAddr::new(address, SOURCE_PORT))
}

fn arriving(reader: &mut Reader<'_>, pod: &Pod, destination: Option<SocketAddr>) -> Direction {
    refuse(reader, &[Setting::SenderUid, Setting::SenderGid, Setting::OutInterface], "inbound");
    let local = destination.is_none_or(|to| pod.addresses.is_empty() || pod.route(to.ip()) == "lo");
    let interface = interface(reader, Setting::InInterface);
    Direction::Inbound { interface: interface.unwrap_or_else(|| OUTSIDE.to_owned()), local }
}

fn leaving(
    reader: &mut Reader<'_>,
    pod: &Pod,
    sender: Option<Sender>,
    destination: Option<SocketAddr>,
) -> Direction {
    refuse(reader, &[Setting::InInterface], "outbound");
    let (preset_uid, preset_gid) = pod.owner(sender.unwrap_or(Sender::App));
    let expected = "a number from 0 to 4294967294";
    let uid: Option<Uid> = reader.one_of(Setting::SenderUid, expected, |text| text.parse().ok());
    let gid: Option<Gid> = reader.one_of(Setting::SenderGid, expected, |text| text.parse().ok());
    let route = destination.map_or(OUTSIDE, |to| pod.route(to.ip()));
    let interface = interface(reader, Setting::OutInterface).unwrap_or_else(|| route.to_owned());
    Direction::Outbound {
        interface,
        uid: uid.unwrap_or(preset_uid),
        gid: gid.or(uid.map(Gid::from)).unwrap_or(preset_gid),
    }
}

fn interface(reader: &mut Reader<'_>, setting: Setting) -> Option<String> {
    reader.one_of(setting, "the name of an interface, up to 15 letters, digits, _ - . or @", |text| {
        let name: InterfaceName = text.parse().ok()?;
        name.prefix().is_none().then(|| text.to_owned())
    })
}

fn refuse(reader: &mut Reader<'_>, settings: &[Setting], direction: &str) {
    for setting in settings {
        if let Some(given) = reader.raw.get(*setting) {
            reader.whole(&given.source, format!("is nothing that an {direction} packet has"));
        }
    }
}
