//! What the tour shows: connections that tell something about a configuration, and what a reader should know of each.

use super::caller::Question;
use super::ground::{POD_V4, POD_V6, WORLD_V4, WORLD_V6};
use super::users::Users;
use mesh::{DNS_PORT, ListItem, Policy, Proxy, Selector};
use rules::simulate::{Direction, Packet};
use rules::{Cidr, ConnState, Family, Gid, PortRange, Protocol, Uid};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    App,
    Proxy,
    World,
}

/// A connection to be shown.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) title: &'static str,
    pub(super) caller: Caller,
    pub(super) to: SocketAddr,
    pub(super) question: Question,
    /// What happens where the proxy gets it, and where it does not.
    pub(super) captured: String,
    pub(super) passing: String,
}

/// A port such as the kernel picks.
const SOURCE_PORT: u16 = 40_000;

impl Story {
    /// Where the world has to listen for it.
    pub(super) fn port_in_the_world(&self) -> Option<u16> {
        let to_pod = [IpAddr::from(POD_V4), POD_V6.into()].contains(&self.to.ip());
        (!to_pod && self.question == Question::Hello).then_some(self.to.port())
    }

    /// Where the application has to listen for it.
    pub(super) fn port_in_the_pod(&self) -> Option<u16> {
        let to_pod = [IpAddr::from(POD_V4), POD_V6.into()].contains(&self.to.ip());
        to_pod.then_some(self.to.port())
    }

    /// The first packet of the connection, as rules see it.
    pub(super) fn packet(&self, users: &Users) -> Packet {
        let pod: IpAddr = if self.to.is_ipv4() { POD_V4.into() } else { POD_V6.into() };
        let world: IpAddr = if self.to.is_ipv4() { WORLD_V4.into() } else { WORLD_V6.into() };
        let interface = if self.to.ip() == pod { "lo" } else { "eth0" }.to_owned();
        let leaving = |(uid, gid)| Direction::Outbound {
            interface: interface.clone(),
            uid: Uid::new(uid).expect("a user that there is"),
            gid: Gid::new(gid).expect("a group that there is"),
        };
        let (direction, source) = match self.caller {
            Caller::App => (leaving(users.app), pod),
            Caller::Proxy => (leaving(users.proxy), pod),
            Caller::World => (Direction::Inbound { interface: "eth0".to_owned(), local: true }, world),
        };
        Packet {
            direction,
            protocol: if self.question == Question::Hello { Protocol::Tcp } else { Protocol::Udp },
            source: SocketAddr::new(source, SOURCE_PORT),
            destination: self.to,
            mark: 0,
            connmark: 0,
            state: ConnState::New,
        }
    }
}

/// The stories that a configuration has to tell.
pub(super) fn stories(capture: &dyn Policy, users: &Users) -> Vec<Story> {
    let told = Told { proxy: capture.proxy(), lists: capture.lists(), captures: !capture.captures_nothing() };
    let mut stories = outbound(&told, users);
    stories.extend(inbound(&told));
    if capture.ipv6() {
        stories.extend(over_ipv6(&told));
    }
    stories
}

/// What stories are made of.
struct Told {
    proxy: Proxy,
    lists: Vec<ListItem>,
    /// Whether anything is captured.
    captures: bool,
}

impl Told {
    /// What lists name to be captured, or to be left alone.
    fn named(&self, captured: bool) -> impl Iterator<Item = &Selector> {
        self.lists.iter().filter(move |listed| listed.captured == captured).map(|listed| &listed.selector)
    }

    fn networks(&self, captured: bool) -> Vec<Cidr> {
        let network = |selector: &Selector| match selector {
            Selector::Destination(network) => Some(*network),
            _ => None,
        };
        self.named(captured).filter_map(network).collect()
    }

    fn outbound_ports(&self, captured: bool) -> Vec<PortRange> {
        let port = |selector: &Selector| match selector {
            Selector::OutboundPort(ports, _) => Some(*ports),
            _ => None,
        };
        self.named(captured).filter_map(port).collect()
    }

    fn inbound_ports(&self, captured: bool) -> Vec<PortRange> {
        let port = |selector: &Selector| match selector {
            Selector::InboundPort(ports) => Some(*ports),
            _ => None,
        };
        self.named(captured).filter_map(port).collect()
    }
}

/// Ports in words.
pub(super) fn dashed(ports: Option<PortRange>) -> String {
    ports.map(|ports| ports.dashed().to_string()).unwrap_or_default()
}

fn outbound(capture: &Told, users: &Users) -> Vec<Story> {
    let port = outbound_port(capture);
    let service = SocketAddr::from((service(capture), port));
    let listener = dashed(capture.proxy.listeners.outbound);
    let hello = |title, caller, to, captured, passing| Story {
        title,
        caller,
        to,
        question: Question::Hello,
        captured,
        passing,
    };
    let gets = |to| {
        format!(
            "The application knows nothing of a proxy. It calls {to}, and the kernel gives the connection to the proxy, at \
             port {listener}. The proxy asks the kernel where it was meant to go, and passes it on."
        )
    };
    let past =
        |to| format!("The application calls {to}, and that is where it gets: the proxy hears nothing of it.");
    let of_app = |title, to| hello(title, Caller::App, to, gets(to), past(to));
    let mut stories = vec![of_app("The application calls a service", service)];
    if !users.shared && capture.captures {
        let title = "The proxy calls the same service";
        let (uid, gid) = users.proxy;
        let by = match capture.proxy.mark {
            Some(mark) => format!("the mark of its packets, {mark}"),
            None => format!("its user or group, {uid} and {gid} here"),
        };
        let passing = format!(
            "What the proxy calls has to get out, or it would be given its own calls for ever. The rules know it by {by}; \
             everybody else in the pod is the application to them."
        );
        stories.push(hello(title, Caller::Proxy, service, gets(service), passing));
    }
    if let Some(excluded) = capture.networks(false).iter().find_map(|cidr| host(cidr, &[])) {
        let to = SocketAddr::from((excluded, port));
        stories.push(of_app("The application calls a network that is left alone", to));
    }
    if let Some(excluded) = said(&capture.outbound_ports(false)) {
        let to = SocketAddr::new(service.ip(), excluded);
        stories.push(of_app("The application calls a port that is left alone", to));
    }
    let only = !capture.networks(true).is_empty();
    if let Some(named) = said(&capture.outbound_ports(true)).filter(|_| only) {
        let to = SocketAddr::from((WORLD_V4, named));
        stories.push(of_app("The application calls a port that is captured wherever it goes", to));
    }
    let server = |selector: &Selector| match selector {
        Selector::Server(server) => Some(*server),
        _ => None,
    };
    let servers: Vec<IpAddr> = capture.named(true).filter_map(server).collect();
    let server = match servers.is_empty() {
        true => Some(WORLD_V4.into()),
        false => servers.into_iter().find(IpAddr::is_ipv4),
    };
    stories.extend(capture.proxy.listeners.dns.zip(server).map(|(agent, server)| {
        let to = SocketAddr::new(server, DNS_PORT.number());
        Story {
            title: "The application asks for a name",
            caller: Caller::App,
            to,
            question: Question::Name("reviews.example"),
            captured: format!(
                "Before it can call anybody by name, the application asks a name server. The question goes to an agent \
                 beside the proxy, at port {agent}, which may know more names than the server does."
            ),
            passing: past(to),
        }
    }));
    stories
}

fn inbound(capture: &Told) -> Vec<Story> {
    let (port, plain) = inbound_ports(capture);
    let listener = dashed(capture.proxy.listeners.inbound);
    let to = SocketAddr::from((POD_V4, port));
    let (listeners, passthrough) = (&capture.proxy.listeners, capture.proxy.passthrough(Family::V4));
    let handed = match (listeners.transparent.or(capture.proxy.mark), passthrough) {
        (Some(_), _) => {
            "It calls the application from the client's own address, so that the application sees who calls; a mark on the \
             connection tells the rules to let it through."
                .to_owned()
        }
        (None, Some(from)) => format!(
            "It calls the application from {from}: by that address the rules know that the proxy has had the connection \
             already, and let it through."
        ),
        (None, None) => "It calls the application, and the rules know by its user that they are to let that through.".to_owned(),
    };
    let captured = format!(
        "A client out in the world calls the application at {to}. The kernel gives the connection to the proxy, at port \
         {listener}. {handed}"
    );
    let past = |to| {
        format!("A client out in the world calls {to}, and whoever listens there gets it, without a proxy.")
    };
    let hello = |title, caller, to, captured: &str, passing| Story {
        title,
        caller,
        to,
        question: Question::Hello,
        captured: captured.to_owned(),
        passing,
    };
    let mut stories = vec![hello("A client calls the application", Caller::World, to, &captured, past(to))];
    if let Some(plain) = plain {
        let to = SocketAddr::from((POD_V4, plain));
        stories.push(hello(
            "A client calls a port that is left alone",
            Caller::World,
            to,
            &captured,
            past(to),
        ));
    }
    let passing = format!(
        "Not even a call to the pod's own address {} has to leave the pod: the application gets to itself, and the proxy \
         hears nothing of it.",
        to.ip()
    );
    stories.push(hello("The application calls itself", Caller::App, to, &captured, passing));
    stories
}

fn over_ipv6(capture: &Told) -> Vec<Story> {
    let out = SocketAddr::from((WORLD_V6, outbound_port(capture)));
    let back = SocketAddr::from((POD_V6, inbound_ports(capture).0));
    let of = |title, caller, to| Story {
        title,
        caller,
        to,
        question: Question::Hello,
        captured: format!(
            "{to} is an address of IPv6, whose packets meet rules of their own: the same ones here."
        ),
        passing: format!("{to} is an address of IPv6, whose packets meet rules of their own."),
    };
    vec![
        of("The application calls a service over IPv6", Caller::App, out),
        of("A client calls the application over IPv6", Caller::World, back),
    ]
}

fn contains(ranges: &[PortRange], port: u16) -> bool {
    ranges.iter().any(|range| range.contains(port))
}

/// The first port that a list says, but for that of names: who answers there says nothing of itself.
fn said(ranges: &[PortRange]) -> Option<u16> {
    ranges.iter().map(|range| range.first().number()).find(|port| *port != DNS_PORT.number())
}

/// A port that services have and that is not left alone.
fn outbound_port(capture: &Told) -> u16 {
    let excluded = capture.outbound_ports(false);
    let free = |port: &u16| !contains(&excluded, *port);
    [80, 8080, 9080, 443].into_iter().find(free).unwrap_or(80)
}

/// A service outside that is captured, if any is.
fn service(capture: &Told) -> Ipv4Addr {
    let excluded = capture.networks(false);
    let found = capture.networks(true).iter().find_map(|cidr| host(cidr, &excluded));
    found.unwrap_or(WORLD_V4)
}

/// A host of a network that the world can stand for.
fn host(network: &Cidr, but: &[Cidr]) -> Option<Ipv4Addr> {
    let IpAddr::V4(first) = network.address() else { return None };
    let near = |offset: u32| first.to_bits().checked_add(offset).map(Ipv4Addr::from_bits);
    let candidates = [Some(WORLD_V4), near(10), near(1), near(0)].into_iter().flatten();
    let is_of_world = |ip: &Ipv4Addr| {
        let special = ip.is_loopback() || ip.is_multicast() || ip.is_broadcast() || ip.octets()[0] == 0;
        !special && (*ip == WORLD_V4 || ip.octets()[..3] != WORLD_V4.octets()[..3])
    };
    let fits =
        |ip: &Ipv4Addr| network.contains((*ip).into()) && !but.iter().any(|but| but.contains((*ip).into()));
    candidates.into_iter().find(|ip| is_of_world(ip) && fits(ip))
}

/// A port of the application's that is captured, if any is, and one that is not. The proxy's own are neither.
fn inbound_ports(capture: &Told) -> (u16, Option<u16>) {
    const USUAL: [u16; 5] = [8080, 80, 3000, 9080, 8000];
    let listeners = &capture.proxy.listeners;
    let own = [listeners.outbound, listeners.inbound, listeners.dns.map(PortRange::from)];
    let free = |port: &u16| !own.iter().flatten().any(|ports| ports.contains(*port));
    let usual = |but: &[PortRange]| USUAL.into_iter().filter(free).find(|port| !contains(but, *port));
    let any = USUAL.into_iter().find(free).unwrap_or(USUAL[0]);
    let (only, but) = (capture.inbound_ports(true), capture.inbound_ports(false));
    if only.is_empty() {
        // The proxy's health is asked for at this one, as a rule.
        let known = [15021].into_iter().filter(|port| contains(&but, *port));
        let plain = known.chain(but.iter().map(|range| range.first().number())).find(free);
        return (usual(&but).unwrap_or(any), plain);
    }
    let captured = only.iter().map(|range| range.first().number()).find(free);
    (captured.unwrap_or(any), captured.and_then(|_| usual(&only)))
}
