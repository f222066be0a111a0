//! The packet that `explain` is asked about, from its flags. Strict: every problem at once.

use super::options::Options;
use policy::Problem;
use rules::simulate::{Direction, Packet};
use rules::{ConnState, Family, Gid, InterfaceName, Protocol, Uid, number::unsigned};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What the flags do not say.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    /// Its addresses; none if they are not known.
    pub(super) addresses: Vec<IpAddr>,
    /// The proxy's user and group.
    pub(super) proxy: (Uid, Gid),
}

/// The user and group of an application that nobody describes.
pub(super) const APPLICATION: u32 = 1000;

/// Who sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// The application.
    App,
    /// The proxy.
    Proxy,
    /// Somebody outside the pod.
    External,
}

/// Reads the packet; `None` if there is a problem.
pub(super) fn read(options: &Options, pod: &Pod, problems: &mut Vec<Problem>) -> Option<Packet> {
    let before = problems.len();
    let sender = options.read("as", "app, proxy or external", problems, |text| match text {
        "app" => Some(Sender::App),
        "proxy" => Some(Sender::Proxy),
        "external" => Some(Sender::External),
        _ => None,
    });
    let inbound = inbound(options, sender, problems);
    let destination = destination(options, pod, inbound, problems);
    let protocol = options.read("proto", "tcp or udp", problems, |text| match text {
        "tcp" => Some(Protocol::Tcp),
        "udp" => Some(Protocol::Udp),
        _ => None,
    });
    let mark = options.read("mark", "a number from 0 to 4294967295", problems, unsigned);
    let state = options.read("ct-state", "new, established, related or invalid", problems, |text| {
        ConnState::ALL.into_iter().find(|state| state.name().eq_ignore_ascii_case(text))
    });
    let source = options.read("source", "an address, or ADDRESS:PORT", problems, |text| {
        text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse().ok()?, SOURCE_PORT)))
    });
    let direction = match inbound {
        true => arriving(options, pod, destination, problems),
        false => leaving(options, pod, sender, destination, problems),
    };
    let destination = destination?;
    let source = source.or_else(|| default_source(pod, inbound, destination, problems));
    if let Some(source) = source.filter(|source| source.is_ipv4() != destination.is_ipv4()) {
        let text = format!("is of another family than the destination {destination}");
        problems.push(Problem::with_item("--source", &source.to_string(), text));
    }
    (problems.len() == before).then_some(Packet {
        direction,
        protocol: protocol.unwrap_or(Protocol::Tcp),
        source: source?,
        destination,
        mark: mark.unwrap_or(0),
        connmark: 0,
        state: state.unwrap_or(ConnState::New),
    })
}

/// A packet of the usual kind: new, unmarked, from where such packets come. `None` where nothing is known
/// of the pod's address, or where nobody outside can send it.
pub(super) fn usual(
    sender: Sender,
    pod: &Pod,
    protocol: Protocol,
    destination: SocketAddr,
) -> Option<Packet> {
    let inbound = sender == Sender::External;
    if inbound && !pod.addresses.contains(&destination.ip()) {
        return None;
    }
    let (uid, gid) = owner(sender, pod);
    let direction = match inbound {
        true => Direction::Inbound { interface: OUTSIDE.to_owned(), local: true },
        false => Direction::Outbound { interface: route(pod, destination.ip()).to_owned(), uid, gid },
    };
    let source = default_source(pod, inbound, destination, &mut Vec::new())?;
    Some(Packet { direction, protocol, source, destination, mark: 0, connmark: 0, state: ConnState::New })
}

/// A port such as the kernel picks (`net.ipv4.ip_local_port_range` starts at 32768).
const SOURCE_PORT: u16 = 40_000;

/// The interface of a pod, as container runtimes name it.
const OUTSIDE: &str = "eth0";

fn owner(sender: Sender, pod: &Pod) -> (Uid, Gid) {
    let app = Uid::new(APPLICATION).expect("the number is valid");
    match sender {
        Sender::App | Sender::External => (app, app.into()),
        Sender::Proxy => pod.proxy,
    }
}

fn route(pod: &Pod, destination: IpAddr) -> &'static str {
    let six = IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6));
    let own = destination.is_loopback() || destination == six || pod.addresses.contains(&destination);
    if own { "lo" } else { OUTSIDE }
}

fn inbound(options: &Options, sender: Option<Sender>, problems: &mut Vec<Problem>) -> bool {
    let given = options.read("direction", "outbound or inbound", problems, |text| match text {
        "outbound" => Some(false),
        "inbound" => Some(true),
        _ => None,
    });
    let external = sender.map(|sender| sender == Sender::External);
    if let (Some(inbound), Some(external)) = (given, external)
        && inbound != external
    {
        let text = "contradicts --as: the pod's processes send outbound, others inbound";
        problems.push(Problem::of("--direction", text));
    }
    given.or(external).unwrap_or(options.get("in-interface").is_some())
}

fn destination(
    options: &Options,
    pod: &Pod,
    inbound: bool,
    problems: &mut Vec<Problem>,
) -> Option<SocketAddr> {
    if options.get("destination").is_none() {
        problems.push(Problem::of("--destination", "is needed: where the packet goes, such as 10.0.0.5:443"));
    }
    let expected = "ADDRESS:PORT with a port from 1 to 65535, such as 10.0.0.5:443 or [2001:db8::1]:443";
    options.read("destination", expected, problems, |text| {
        let own_port = || {
            let address = pod.addresses.first().filter(|_| inbound)?;
            Some(SocketAddr::new(*address, text.parse::<rules::Port>().ok()?.number()))
        };
        text.parse().ok().filter(|to: &SocketAddr| to.port() != 0).or_else(own_port)
    })
}

fn default_source(
    pod: &Pod,
    inbound: bool,
    destination: SocketAddr,
    problems: &mut Vec<Problem>,
) -> Option<SocketAddr> {
    let to = destination.ip();
    let address = match to {
        // Nobody has these (RFC 5737, RFC 3849).
        IpAddr::V4(_) if inbound => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) if inbound => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        // The route of all of 127.0.0.0/8 names this source.
        IpAddr::V4(to) if to.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        to if route(pod, to) == "lo" => to,
        to => {
            let own = pod.addresses.iter().copied();
            let found = own.filter(|a| !a.is_loopback()).find(|a| Family::of(*a) == Family::of(to));
            if found.is_none() {
                let text = "is needed: no address of the pod in this family is known; --pod-ips would do too";
                problems.push(Problem::of("--source", text));
            }
            found?
        }
    };
    Some(SocketAddr::new(address, SOURCE_PORT))
}

fn arriving(
    options: &Options,
    pod: &Pod,
    destination: Option<SocketAddr>,
    problems: &mut Vec<Problem>,
) -> Direction {
    refuse(options, &["uid", "gid", "out-interface"], "inbound", problems);
    let local = destination.is_none_or(|to| pod.addresses.is_empty() || route(pod, to.ip()) == "lo");
    let interface = interface(options, "in-interface", problems);
    Direction::Inbound { interface: interface.unwrap_or_else(|| OUTSIDE.to_owned()), local }
}

fn leaving(
    options: &Options,
    pod: &Pod,
    sender: Option<Sender>,
    destination: Option<SocketAddr>,
    problems: &mut Vec<Problem>,
) -> Direction {
    refuse(options, &["in-interface"], "outbound", problems);
    let (preset_uid, preset_gid) = owner(sender.unwrap_or(Sender::App), pod);
    let expected = "a number from 0 to 4294967294";
    let uid: Option<Uid> = options.read("uid", expected, problems, |text| text.parse().ok());
    let gid: Option<Gid> = options.read("gid", expected, problems, |text| text.parse().ok());
    let route = destination.map_or(OUTSIDE, |to| route(pod, to.ip()));
    let interface = interface(options, "out-interface", problems).unwrap_or_else(|| route.to_owned());
    Direction::Outbound {
        interface,
        uid: uid.unwrap_or(preset_uid),
        gid: gid.or(uid.map(Gid::from)).unwrap_or(preset_gid),
    }
}

fn interface(options: &Options, long: &str, problems: &mut Vec<Problem>) -> Option<String> {
    let expected = "the name of an interface, up to 15 letters, digits, _ - . or @";
    options.read(long, expected, problems, |text| {
        let name: InterfaceName = text.parse().ok()?;
        name.prefix().is_none().then(|| text.to_owned())
    })
}

fn refuse(options: &Options, longs: &[&str], way: &str, problems: &mut Vec<Problem>) {
    for long in longs.iter().filter(|long| options.get(long).is_some()) {
        problems.push(Problem::of(&format!("--{long}"), format!("is nothing that an {way} packet has")));
    }
}
