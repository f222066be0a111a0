//! A small proxy for a sandbox: accepts what the rules send to it, logs it, and passes it on to its original destination.
//!
//! [`ExpectedProxy`] holds the differences between the proxies of meshes, so this one can replace any of them. It parses no protocol.

mod names;
mod owner;
mod relay;

pub(super) use names::name;
pub(super) use relay::relay;

use super::serve;
use sidecar_init::sys::{namespace::OpenNamespace, tcp};
use std::{
    fs::File,
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The proxy as the rules expect it.
pub(super) struct ExpectedProxy {
    /// Its ports for connections from the pod.
    pub(super) outbound: Option<RangeInclusive<u16>>,
    /// Its ports for connections to the pod.
    pub(super) inbound: Option<RangeInclusive<u16>>,
    /// The port of the agent that answers DNS queries; `None` if it does not run.
    pub(super) agent: Option<u16>,
    /// Upstream resolvers, one per address family.
    pub(super) name_servers: Vec<SocketAddr>,
    /// The addresses that it calls the application from, where the rules recognise such calls by them.
    pub(super) passthrough: Option<(Ipv4Addr, Ipv6Addr)>,
    /// With TPROXY it calls from the client's address instead, with this mark, and the inbound ports listen transparently.
    pub(super) transparent: Option<u32>,
    /// The mark of all its calls, where the rules recognise them by it; those for clients come from the client's address.
    pub(super) mark: Option<u32>,
    /// Whether it listens in IPv6 too.
    pub(super) ipv6: bool,
    /// The network namespace that it calls from, where its user does not distinguish it from the application.
    pub(super) world: Option<OpenNamespace>,
}

impl ExpectedProxy {
    fn name_server(&self, like: SocketAddr) -> SocketAddr {
        let same = self.name_servers.iter().find(|server| server.is_ipv4() == like.is_ipv4());
        same.copied().unwrap_or(self.name_servers[0])
    }

    fn hosts(&self) -> impl Iterator<Item = IpAddr> {
        [Ipv4Addr::UNSPECIFIED.into()].into_iter().chain(self.ipv6.then_some(Ipv6Addr::UNSPECIFIED.into()))
    }
}

/// The direction of a connection, as seen from the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionDirection {
    Outbound,
    Inbound,
    /// A DNS query over TCP.
    Names,
}

struct SandboxProxy {
    facts: ExpectedProxy,
    log: Mutex<File>,
}

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Listens at all ports, and serves on threads from then on.
pub(super) fn start(facts: ExpectedProxy, log: File) -> io::Result<()> {
    let mut listeners = Vec::new();
    let mut agents = Vec::new();
    for host in facts.hosts() {
        let transparent = facts.transparent.is_some();
        let outbound = facts.outbound.clone().into_iter().flatten();
        let outbound = outbound.map(|port| (ConnectionDirection::Outbound, host, port, false));
        let inbound = facts.inbound.clone().into_iter().flatten();
        let inbound = inbound.map(|port| (ConnectionDirection::Inbound, host, port, transparent));
        for (direction, host, port, transparent) in outbound.chain(inbound) {
            listeners.push((direction, listen((host, port).into(), transparent)?));
        }
        if let Some(agent) = facts.agent {
            // Only the rules send queries there.
            let loopback =
                if host.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { IpAddr::from(Ipv6Addr::LOCALHOST) };
            let agent = SocketAddr::from((loopback, agent));
            listeners.push((ConnectionDirection::Names, listen(agent, false)?));
            agents.push(UdpSocket::bind(agent).map_err(|error| at(agent, &error))?);
        }
    }
    let proxy = Arc::new(SandboxProxy { facts, log: Mutex::new(log) });
    agents.into_iter().try_for_each(|agent| names::serve(&proxy, agent))?;
    serve::start(listeners, move |direction, client| {
        let proxy = Arc::clone(&proxy);
        serve::on_thread(move || proxy.serve(direction, &client));
    })
}

fn listen(address: SocketAddr, transparent: bool) -> io::Result<TcpListener> {
    tcp::listen(address, transparent).map_err(|error| at(address, &error))
}

fn at(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("it can't listen at {address}: {error}"))
}

impl SandboxProxy {
    fn serve(&self, direction: ConnectionDirection, client: &TcpStream) {
        let Ok((peer, own, to)) = ends(client) else { return };
        let (name, from) = match direction {
            ConnectionDirection::Outbound | ConnectionDirection::Names => {
                let uid =
                    owner::of("tcp", peer).map_or("unknown user".to_owned(), |uid| format!("uid {uid}"));
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
                tcp::reset_at_end(client);
            }
        }
    }

    fn listener_of(&self, direction: ConnectionDirection) -> u16 {
        match direction {
            ConnectionDirection::Outbound => self.facts.outbound.as_ref().map_or(0, |ports| *ports.start()),
            ConnectionDirection::Inbound => self.facts.inbound.as_ref().map_or(0, |ports| *ports.start()),
            ConnectionDirection::Names => self.facts.agent.unwrap_or(0),
        }
    }

    /// Connects to the client's original destination.
    fn call(
        &self,
        direction: ConnectionDirection,
        client: &TcpStream,
        to: SocketAddr,
    ) -> io::Result<TcpStream> {
        let is_own = |range: &Option<RangeInclusive<u16>>| {
            range.as_ref().is_some_and(|range| range.contains(&to.port()))
        };
        let calls_itself = match direction {
            ConnectionDirection::Outbound => is_own(&self.facts.outbound) && client.local_addr()? == to,
            ConnectionDirection::Inbound => is_own(&self.facts.inbound),
            ConnectionDirection::Names => false,
        };
        if calls_itself {
            return Err(io::Error::other(
                "the proxy itself was called, so there is nowhere to pass it on to",
            ));
        }
        let own = tcp::From { address: None, transparent: self.facts.mark };
        let from = match (direction, self.facts.transparent.or(self.facts.mark)) {
            (ConnectionDirection::Outbound, _) => own,
            (ConnectionDirection::Names, _) => {
                self.leave(direction)?;
                return tcp::call(own, self.facts.name_server(to), TIMEOUT);
            }
            (ConnectionDirection::Inbound, Some(mark)) => {
                // The client's port is in use by its own connection.
                let address = SocketAddr::new(client.peer_addr()?.ip(), 0);
                tcp::From { address: Some(address), transparent: Some(mark) }
            }
            (ConnectionDirection::Inbound, None) => {
                let of_family = |(v4, v6): (Ipv4Addr, Ipv6Addr)| match to {
                    SocketAddr::V4(_) => IpAddr::from(v4),
                    SocketAddr::V6(_) => v6.into(),
                };
                let address = self.facts.passthrough.map(|both| (of_family(both), 0).into());
                tcp::From { address, transparent: None }
            }
        };
        self.leave(direction)?;
        tcp::call(from, to, TIMEOUT)
    }

    /// Moves this thread into the namespace from which connections of this direction are forwarded.
    fn leave(&self, direction: ConnectionDirection) -> io::Result<()> {
        match &self.facts.world {
            Some(world) if direction != ConnectionDirection::Inbound => world.enter(),
            Some(_) | None => Ok(()),
        }
    }

    /// Logs a connection, in one write.
    fn log_line(&self, line: &str) {
        let mut log = self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A connection is served even if it can't be logged.
        let _ = log.write_all(format!("proxy: {line}\n").as_bytes());
    }
}

/// The peer, local and original destination addresses of a connection.
fn ends(client: &TcpStream) -> io::Result<(SocketAddr, SocketAddr, SocketAddr)> {
    Ok((client.peer_addr()?, client.local_addr()?, tcp::original_destination(client)?))
}
