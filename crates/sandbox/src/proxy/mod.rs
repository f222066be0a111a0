//! Small proxy for a sandbox: accepts connections that the rules redirect to it, logs them, and forwards them to their
//! original destination.
//!
//! [`ExpectedProxy`] contains the differences between the proxies of meshes, so this one can replace any of them. It parses
//! no protocol.

mod relay;

use super::{network::name_servers, serve};
pub(super) use relay::relay;
use rules::{Family, Port, PortRange, Protocol};
use std::io::{self, PipeWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::{sync::Arc, time::Duration};
use sys::{dial, listener::user_of, namespace::OpenNamespace};

/// Proxy that the rules expect.
pub(super) struct ExpectedProxy {
    pub(super) known: mesh::Proxy,
    pub(super) ipv6: bool,
    /// Network namespace that it calls from if its user does not distinguish it from the application.
    pub(super) world: Option<OpenNamespace>,
}

impl ExpectedProxy {
    fn name_server(&self, like: SocketAddr) -> SocketAddr {
        let servers = name_servers(self.ipv6);
        let same = servers.iter().find(|server| server.is_ipv4() == like.is_ipv4());
        *same.unwrap_or(&servers[0])
    }

    fn agent(&self) -> Option<u16> {
        self.known.listeners.dns.map(Port::number)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionDirection {
    Outbound,
    Inbound,
    /// DNS query over TCP.
    Names,
}

struct SandboxProxy {
    facts: ExpectedProxy,
    log: PipeWriter,
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// Listens at all ports, and serves on threads from then on.
pub(super) fn start(facts: ExpectedProxy, log: PipeWriter) -> io::Result<()> {
    let mut listeners = Vec::new();
    let mut agents = Vec::new();
    for host in serve::unspecified(facts.ipv6) {
        let known = &facts.known.listeners;
        for (direction, range, transparent) in [
            (ConnectionDirection::Outbound, known.outbound, false),
            (ConnectionDirection::Inbound, known.inbound, known.transparent.is_some()),
        ] {
            for port in range.into_iter().flat_map(|range| range.first().number()..=range.last().number()) {
                listeners.push((direction, serve::listen((host, port).into(), transparent)?));
            }
        }
        if let Some(agent) = facts.agent() {
            // Only the rules send DNS queries there.
            let loopback =
                if host.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { IpAddr::from(Ipv6Addr::LOCALHOST) };
            let agent = SocketAddr::from((loopback, agent));
            listeners.push((ConnectionDirection::Names, serve::listen(agent, false)?));
            agents.push(serve::listening(agent, UdpSocket::bind(agent))?);
        }
    }
    let proxy = Arc::new(SandboxProxy { facts, log });
    for agent in agents {
        let proxy = Arc::clone(&proxy);
        serve::receive(agent, move |socket, query, client| answer(&proxy, socket, query, client))?;
    }
    serve::accept(listeners, move |direction, client| proxy.serve(direction, client))
}

impl SandboxProxy {
    fn serve(&self, direction: ConnectionDirection, client: &TcpStream) {
        let ends = (client.peer_addr(), client.local_addr(), dial::destination_or_own(client));
        let (Ok(peer), Ok(own), Ok(to)) = ends else { return };
        let (name, from) = match direction {
            ConnectionDirection::Outbound | ConnectionDirection::Names => {
                let uid = user_of(Protocol::Tcp, peer)
                    .map_or("unknown user".to_owned(), |uid| format!("uid {uid}"));
                (if direction == ConnectionDirection::Outbound { "outbound" } else { "dns over tcp" }, uid)
            }
            ConnectionDirection::Inbound => ("inbound", peer.to_string()),
        };
        // The local port of a transparent connection is the original one.
        let port = if to == own { self.listener_of(direction) } else { own.port() };
        let log = |note: &str| self.log_line(&format!("{name} {to} -> {port}, from {from}{note}"));
        match self.call(direction, client, to) {
            Ok(server) => {
                log("");
                let _ = relay(client, &server);
            }
            Err(error) => {
                log(&format!(": {error}"));
                dial::reset_at_end(client);
            }
        }
    }

    fn listener_of(&self, direction: ConnectionDirection) -> u16 {
        let known = &self.facts.known.listeners;
        let port = match direction {
            ConnectionDirection::Outbound => known.outbound.map(PortRange::first),
            ConnectionDirection::Inbound => known.inbound.map(PortRange::first),
            ConnectionDirection::Names => known.dns,
        };
        port.map_or(0, Port::number)
    }

    fn call(
        &self,
        direction: ConnectionDirection,
        client: &TcpStream,
        to: SocketAddr,
    ) -> io::Result<TcpStream> {
        let known = &self.facts.known;
        let mark = known.mark.map(|mark| mark.value);
        let transparent = known.listeners.transparent.map(|mark| mark.value);
        let is_own = |range: Option<PortRange>| range.is_some_and(|range| range.contains(to.port()));
        let calls_itself = match direction {
            ConnectionDirection::Outbound => is_own(known.listeners.outbound) && client.local_addr()? == to,
            ConnectionDirection::Inbound => is_own(known.listeners.inbound),
            ConnectionDirection::Names => false,
        };
        if calls_itself {
            return Err(io::Error::other("the proxy itself was called, so there is no original destination"));
        }
        let own = dial::CallSource { address: None, transparent: mark };
        // With TPROXY, or if rules recognize it by a mark, it calls from the client's address, with that mark.
        let (from, to) = match (direction, transparent.or(mark)) {
            (ConnectionDirection::Outbound, _) => (own, to),
            (ConnectionDirection::Names, _) => (own, self.facts.name_server(to)),
            (ConnectionDirection::Inbound, Some(mark)) => {
                // The client's port is in use by its own connection.
                let address = SocketAddr::new(client.peer_addr()?.ip(), 0);
                (dial::CallSource { address: Some(address), transparent: Some(mark) }, to)
            }
            (ConnectionDirection::Inbound, None) => {
                let address = known.passthrough(Family::of(to.ip())).map(|ip| SocketAddr::new(ip, 0));
                (dial::CallSource { address, transparent: None }, to)
            }
        };
        self.leave(direction)?;
        dial::connect(from, to, TIMEOUT)
    }

    /// Moves this thread into the namespace from which connections of this direction are forwarded.
    fn leave(&self, direction: ConnectionDirection) -> io::Result<()> {
        match &self.facts.world {
            Some(world) if direction != ConnectionDirection::Inbound => world.enter(),
            Some(_) | None => Ok(()),
        }
    }

    /// Logs a line in one write.
    fn log_line(&self, line: &str) {
        // A connection is served even if it can't be logged.
        let _ = (&self.log).write_all(format!("proxy: {line}\n").as_bytes());
    }
}

const NAME_TIMEOUT: Duration = Duration::from_secs(5);

fn answer(proxy: &SandboxProxy, socket: &UdpSocket, query: &[u8], client: SocketAddr) {
    let of = name(query).map(|name| format!(" for {name}")).unwrap_or_default();
    let from = user_of(Protocol::Udp, client).map_or(String::new(), |uid| format!(", from uid {uid}"));
    let log = |note: &str| {
        proxy.log_line(&format!("dns query{of} -> {}{from}{note}", proxy.facts.agent().unwrap_or(0)));
    };
    match ask(proxy, query, client) {
        Ok(answer) => {
            log("");
            let _ = socket.send_to(&answer, client);
        }
        Err(error) => log(&format!(": {error}")),
    }
}

fn ask(proxy: &SandboxProxy, query: &[u8], client: SocketAddr) -> io::Result<Vec<u8>> {
    proxy.leave(ConnectionDirection::Outbound)?;
    let server = proxy.facts.name_server(client);
    let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    if let Some(mark) = proxy.facts.known.mark {
        dial::mark(&socket, mark.value)?;
    }
    socket.connect(server)?;
    socket.set_read_timeout(Some(NAME_TIMEOUT))?;
    socket.send(query)?;
    let mut answer = vec![0; serve::DATAGRAM];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// Parses the name in a DNS query (RFC 1035, 4.1.2).
pub(crate) fn name(query: &[u8]) -> Option<String> {
    const HEADER: usize = 12;
    let (mut rest, mut labels) = (query.get(HEADER..)?, Vec::new());
    loop {
        let (&length, after) = rest.split_first()?;
        if length == 0 {
            return Some(labels.join("."));
        }
        let (label, after) = after.split_at_checked(usize::from(length))?;
        // The name is printed on a terminal, so control characters are escaped.
        labels.push(String::from_utf8_lossy(label).escape_default().to_string());
        rest = after;
    }
}
