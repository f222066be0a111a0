//! Demo scenarios: connections that show a configuration's effects, with an explanation of each.

use super::network::{POD_V4, POD_V6, WORLD_V4, WORLD_V6};
use super::users::Users;
use diagnose::explain::SOURCE_PORT;
use mesh::{CapturePolicy, DNS_PORT, ListItem, Proxy, Selector};
use rules::simulate::{Direction, Packet};
use rules::{Cidr, ConnState, Family, Gid, PortRange, Protocol, Uid};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScenarioCaller {
    App,
    Proxy,
    World,
}

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) title: &'static str,
    pub(super) caller: ScenarioCaller,
    pub(super) to: SocketAddr,
    /// Name to resolve over UDP; `None` for a request over HTTP.
    pub(super) name: Option<&'static str>,
    pub(super) mark: Option<u32>,
    pub(super) captured: String,
    pub(super) passing: String,
}

impl Scenario {
    fn http(
        title: &'static str,
        caller: ScenarioCaller,
        to: SocketAddr,
        captured: String,
        passing: String,
    ) -> Self {
        Self { title, caller, to, name: None, mark: None, captured, passing }
    }

    fn is_to_pod(&self) -> bool {
        [IpAddr::from(POD_V4), POD_V6.into()].contains(&self.to.ip())
    }

    pub(super) fn port_in_the_world(&self) -> Option<u16> {
        (!self.is_to_pod() && self.name.is_none()).then_some(self.to.port())
    }

    pub(super) fn port_in_the_pod(&self) -> Option<u16> {
        self.is_to_pod().then_some(self.to.port())
    }

    pub(super) fn packet(&self, users: &Users) -> Packet {
        let (pod, world): (IpAddr, IpAddr) = match self.to.is_ipv4() {
            true => (POD_V4.into(), WORLD_V4.into()),
            false => (POD_V6.into(), WORLD_V6.into()),
        };
        let interface = if self.to.ip() == pod { "lo" } else { "eth0" }.to_owned();
        let leaving = |(uid, gid)| Direction::Outbound {
            interface,
            uid: Uid::new(uid).expect("an existing user"),
            gid: Gid::new(gid).expect("an existing group"),
        };
        let (direction, source) = match self.caller {
            ScenarioCaller::App => (leaving(users.app), pod),
            ScenarioCaller::Proxy => (leaving(users.proxy), pod),
            ScenarioCaller::World => {
                (Direction::Inbound { interface: "eth0".to_owned(), local: true }, world)
            }
        };
        Packet {
            direction,
            protocol: if self.name.is_none() { Protocol::Tcp } else { Protocol::Udp },
            source: SocketAddr::new(source, SOURCE_PORT),
            destination: self.to,
            mark: self.mark.unwrap_or(0),
            connmark: 0,
            state: ConnState::New,
        }
    }
}

pub(super) fn scenarios(capture: &dyn CapturePolicy, users: &Users) -> Vec<Scenario> {
    let mut facts = ScenarioFacts {
        proxy: capture.proxy(),
        captures: !capture.facts().captures_nothing,
        captured: Listed::default(),
        excluded: Listed::default(),
    };
    for ListItem { selector, captured, .. } in capture.lists() {
        let items = if captured { &mut facts.captured } else { &mut facts.excluded };
        match selector {
            Selector::Destination(network) => items.networks.push(network),
            Selector::OutboundPort(ports, _) => items.outbound_ports.push(ports),
            Selector::InboundPort(ports) => items.inbound_ports.push(ports),
            Selector::Server(server) => items.servers.push(server),
            _ => {}
        }
    }
    let mut scenarios = outbound(&facts, users);
    scenarios.extend(inbound(&facts));
    if capture.ipv6() {
        scenarios.extend(over_ipv6(&facts));
    }
    scenarios
}

struct ScenarioFacts {
    proxy: Proxy,
    captures: bool,
    captured: Listed,
    excluded: Listed,
}

#[derive(Default)]
struct Listed {
    networks: Vec<Cidr>,
    outbound_ports: Vec<PortRange>,
    inbound_ports: Vec<PortRange>,
    servers: Vec<IpAddr>,
}

/// Port, or a range such as `15001-15010`; empty if there is none.
pub(super) fn dashed(ports: Option<PortRange>) -> String {
    ports.map(PortRange::dashed).unwrap_or_default()
}

fn outbound(facts: &ScenarioFacts, users: &Users) -> Vec<Scenario> {
    let port = outbound_port(facts);
    let service = SocketAddr::from((service(facts), port));
    let listener = dashed(facts.proxy.listeners.outbound);
    let gets = |to| {
        format!(
            "The application is not configured for a proxy. It calls {to}, and the kernel redirects the connection to \
             the proxy, on port {listener}. The proxy gets the original destination from the kernel, and connects to it."
        )
    };
    let past = |to| format!("The application calls {to} and reaches it: the connection bypasses the proxy.");
    let of_app = |title, to| Scenario::http(title, ScenarioCaller::App, to, gets(to), past(to));
    let mut scenarios = vec![of_app("The application calls a service", service)];
    if !users.shared && facts.captures {
        let (uid, gid) = users.proxy;
        let by = match facts.proxy.mark {
            Some(mark) => format!("their mark, {mark}"),
            None => format!("user or group, {uid} and {gid} here"),
        };
        let passing = format!(
            "The proxy's calls must leave the pod, or they would loop. The rules recognize them by {by}; \
             every other process in the pod counts as the application."
        );
        let title = "The proxy calls the same service";
        let by_proxy = Scenario::http(title, ScenarioCaller::Proxy, service, gets(service), passing);
        scenarios.push(Scenario { mark: facts.proxy.mark.map(|mark| mark.value), ..by_proxy });
    }
    if let Some(excluded) = facts.excluded.networks.iter().find_map(|cidr| host(cidr, &[])) {
        let to = SocketAddr::from((excluded, port));
        scenarios.push(of_app("The application calls a network that is excluded", to));
    }
    if let Some(excluded) = first_port(&facts.excluded.outbound_ports) {
        let to = SocketAddr::new(service.ip(), excluded);
        scenarios.push(of_app("The application calls a port that is excluded", to));
    }
    let only = !facts.captured.networks.is_empty();
    if let Some(named) = first_port(&facts.captured.outbound_ports).filter(|_| only) {
        let to = SocketAddr::from((WORLD_V4, named));
        scenarios.push(of_app("The application calls a port that is captured in all networks", to));
    }
    let servers = &facts.captured.servers;
    let server = match servers.is_empty() {
        true => Some(WORLD_V4.into()),
        false => servers.iter().copied().find(IpAddr::is_ipv4),
    };
    scenarios.extend(facts.proxy.listeners.dns.zip(server).map(|(agent, server)| {
        let to = SocketAddr::new(server, DNS_PORT.number());
        let captured = format!(
            "Before it calls a service by name, the application queries a DNS server. The query goes to an \
             agent beside the proxy, on port {agent}, which may resolve more names than the server."
        );
        Scenario { name: Some("reviews.example"), captured, ..of_app("The application resolves a name", to) }
    }));
    scenarios
}

fn inbound(facts: &ScenarioFacts) -> Vec<Scenario> {
    let (port, excluded) = inbound_ports(facts);
    let listener = dashed(facts.proxy.listeners.inbound);
    let to = SocketAddr::from((POD_V4, port));
    let (listeners, passthrough) = (&facts.proxy.listeners, facts.proxy.passthrough(Family::V4));
    let handed = match (listeners.transparent.or(facts.proxy.mark), passthrough) {
        (Some(_), _) => {
            "The proxy calls the application from the client's address, so that the application sees the \
             client; the rules exclude this call by a mark on the connection."
                .to_owned()
        }
        (None, Some(from)) => format!(
            "The proxy calls the application from {from}: the rules recognize the proxy's connection \
             by that address, and exclude it."
        ),
        (None, None) => "The proxy calls the application; the rules exclude the proxy's user.".to_owned(),
    };
    let captured = format!(
        "An external client calls the application at {to}. The kernel redirects the connection to the proxy, \
         on port {listener}. {handed}"
    );
    let past = |to| format!("An external client calls {to}, and reaches the listener there without a proxy.");
    let http = |title, caller, to, passing| Scenario::http(title, caller, to, captured.clone(), passing);
    let mut scenarios = vec![http("A client calls the application", ScenarioCaller::World, to, past(to))];
    if let Some(excluded) = excluded {
        let to = SocketAddr::from((POD_V4, excluded));
        scenarios.push(http("A client calls a port that is excluded", ScenarioCaller::World, to, past(to)));
    }
    let passing = format!(
        "A call to the pod's own address {} does not leave the pod: the application reaches itself, and the \
         connection bypasses the proxy.",
        to.ip()
    );
    scenarios.push(http("The application calls itself", ScenarioCaller::App, to, passing));
    scenarios
}

fn over_ipv6(facts: &ScenarioFacts) -> [Scenario; 2] {
    let out = SocketAddr::from((WORLD_V6, outbound_port(facts)));
    let back = SocketAddr::from((POD_V6, inbound_ports(facts).0));
    let of = |title, caller, to| {
        let passing = format!("{to} is an IPv6 address, with separate rules.");
        let captured = passing.replace("rules.", "rules, here the same.");
        Scenario::http(title, caller, to, captured, passing)
    };
    [
        of("The application calls a service over IPv6", ScenarioCaller::App, out),
        of("A client calls the application over IPv6", ScenarioCaller::World, back),
    ]
}

fn contains(ranges: &[PortRange], port: u16) -> bool {
    ranges.iter().any(|range| range.contains(port))
}

/// First port in a list, except DNS, whose server does not identify itself.
fn first_port(ranges: &[PortRange]) -> Option<u16> {
    ranges.iter().map(|range| range.first().number()).find(|port| *port != DNS_PORT.number())
}

fn outbound_port(facts: &ScenarioFacts) -> u16 {
    let is_free = |port: &u16| !contains(&facts.excluded.outbound_ports, *port);
    [80, 8080, 9080, 443].into_iter().find(is_free).unwrap_or(80)
}

/// Captured external service, if any.
fn service(facts: &ScenarioFacts) -> Ipv4Addr {
    let mut networks = facts.captured.networks.iter();
    networks.find_map(|cidr| host(cidr, &facts.excluded.networks)).unwrap_or(WORLD_V4)
}

/// Host address in a network that the world can use.
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

/// A captured application port if possible, and a port that is not captured, if any; neither is the proxy's.
fn inbound_ports(facts: &ScenarioFacts) -> (u16, Option<u16>) {
    const COMMON: [u16; 5] = [8080, 80, 3000, 9080, 8000];
    let listeners = &facts.proxy.listeners;
    let own = [listeners.outbound, listeners.inbound, listeners.dns.map(PortRange::from)];
    let free = |port: &u16| !own.iter().flatten().any(|ports| ports.contains(*port));
    let common = |but: &[PortRange]| COMMON.into_iter().filter(free).find(|port| !contains(but, *port));
    let any = COMMON.into_iter().find(free).unwrap_or(COMMON[0]);
    let (only, but) = (&facts.captured.inbound_ports, &facts.excluded.inbound_ports);
    if only.is_empty() {
        // Default port of the proxy's health check.
        let known = [15021].into_iter().filter(|port| contains(but, *port));
        let excluded = known.chain(but.iter().map(|range| range.first().number())).find(free);
        return (common(but).unwrap_or(any), excluded);
    }
    let captured = only.iter().map(|range| range.first().number()).find(free);
    (captured.unwrap_or(any), captured.and_then(|_| common(only)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh::Setting;
    use mesh::sources::{NullHost, Raw};

    #[test]
    fn a_proxy_calls_with_its_mark() {
        let raw = Raw::of_flags([(Setting::Mesh, "ambient")]);
        let resolved = mesh::resolve(&raw, &NullHost, Vec::new());
        let capture = resolved.expect("no problem").capture;
        let users = Users { app: (1000, 1000), proxy: (0, 0), root: (0, 0), shared: false };
        let scenarios = scenarios(&*capture, &users);
        let mark = |caller: ScenarioCaller| {
            let of_caller = scenarios.iter().find(|scenario| scenario.caller == caller);
            of_caller.expect("one of each").packet(&users).mark
        };
        assert_eq!((mark(ScenarioCaller::Proxy), mark(ScenarioCaller::App)), (0x539, 0));
    }
}
