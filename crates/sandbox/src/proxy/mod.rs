//! Small proxy for a sandbox: accepts connections that the rules redirect to it, logs them, and forwards them to their
//! original destination.
//!
//! [`ExpectedProxy`] contains the differences between meshes' proxies, so this one can replace any proxy. It parses no protocol.

use super::{network::name_servers, serve};
use rules::{Family, Port, PortRange, Protocol};
use std::io::{self, PipeWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{thread, time::Duration};
use sys::{dial, listener::user_of, namespace::OpenNamespace};

pub(super) struct ExpectedProxy {
    pub(super) known: mesh::Proxy,
    pub(super) ipv6: bool,
    /// Network namespace that the proxy calls from if its user is also the application's.
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
enum ConnectionKind {
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

/// Listens on all ports, and serves on new threads.
pub(super) fn start(facts: ExpectedProxy, log: PipeWriter) -> io::Result<()> {
    let mut listeners = Vec::new();
    let mut agents = Vec::new();
    for host in serve::unspecified(facts.ipv6) {
        let known = &facts.known.listeners;
        for (kind, range, transparent) in [
            (ConnectionKind::Outbound, known.outbound, false),
            (ConnectionKind::Inbound, known.inbound, known.transparent.is_some()),
        ] {
            for port in range.into_iter().flat_map(|range| range.first().number()..=range.last().number()) {
                listeners.push((kind, serve::listen((host, port).into(), transparent)?));
            }
        }
        if let Some(agent) = facts.agent() {
            // Only the rules send queries to loopback.
            let loopback =
                if host.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { IpAddr::from(Ipv6Addr::LOCALHOST) };
            let agent = SocketAddr::from((loopback, agent));
            listeners.push((ConnectionKind::Names, serve::listen(agent, false)?));
            agents.push(serve::listening(agent, UdpSocket::bind(agent))?);
        }
    }
    let proxy = Arc::new(SandboxProxy { facts, log });
    for agent in agents {
        let proxy = Arc::clone(&proxy);
        serve::receive(agent, move |socket, query, client| answer(&proxy, socket, query, client))?;
    }
    serve::accept(listeners, move |kind, client| proxy.serve(kind, client))
}

impl SandboxProxy {
    fn serve(&self, kind: ConnectionKind, client: &TcpStream) {
        let ends = (client.peer_addr(), client.local_addr(), dial::destination_or_own(client));
        let (Ok(peer), Ok(own), Ok(to)) = ends else { return };
        let (name, from) = match kind {
            ConnectionKind::Outbound | ConnectionKind::Names => {
                let uid = user_of(Protocol::Tcp, peer)
                    .map_or("unknown user".to_owned(), |uid| format!("uid {uid}"));
                (if kind == ConnectionKind::Outbound { "outbound" } else { "dns over tcp" }, uid)
            }
            ConnectionKind::Inbound => ("inbound", peer.to_string()),
        };
        // The local port of a transparent connection is the original port.
        let port = if to == own { self.listener_of(kind) } else { own.port() };
        let log = |note: &str| self.log_line(&format!("{name} {to} -> {port}, from {from}{note}"));
        match self.call(kind, client, to) {
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

    fn listener_of(&self, kind: ConnectionKind) -> u16 {
        let known = &self.facts.known.listeners;
        let port = match kind {
            ConnectionKind::Outbound => known.outbound.map(PortRange::first),
            ConnectionKind::Inbound => known.inbound.map(PortRange::first),
            ConnectionKind::Names => known.dns,
        };
        port.map_or(0, Port::number)
    }

    fn call(&self, kind: ConnectionKind, client: &TcpStream, to: SocketAddr) -> io::Result<TcpStream> {
        let known = &self.facts.known;
        let mark = known.mark.map(|mark| mark.value);
        let transparent = known.listeners.transparent.map(|mark| mark.value);
        let is_own = |range: Option<PortRange>| range.is_some_and(|range| range.contains(to.port()));
        let calls_itself = match kind {
            ConnectionKind::Outbound => is_own(known.listeners.outbound) && client.local_addr()? == to,
            ConnectionKind::Inbound => is_own(known.listeners.inbound),
            ConnectionKind::Names => false,
        };
        if calls_itself {
            return Err(io::Error::other("the proxy itself was called, so there is no original destination"));
        }
        let own = dial::CallSource { address: None, transparent: mark };
        // With TPROXY, or if rules recognize a mark, the proxy calls from the client's address, with that mark.
        let (from, to) = match (kind, transparent.or(mark)) {
            (ConnectionKind::Outbound, _) => (own, to),
            (ConnectionKind::Names, _) => (own, self.facts.name_server(to)),
            (ConnectionKind::Inbound, Some(mark)) => {
                // The client's port is in use by its own connection.
                let address = SocketAddr::new(client.peer_addr()?.ip(), 0);
                (dial::CallSource { address: Some(address), transparent: Some(mark) }, to)
            }
            (ConnectionKind::Inbound, None) => {
                let address = known.passthrough(Family::of(to.ip())).map(|ip| SocketAddr::new(ip, 0));
                (dial::CallSource { address, transparent: None }, to)
            }
        };
        self.leave(kind)?;
        dial::connect(from, to, TIMEOUT)
    }

    /// Moves this thread into the namespace from which connections of this kind are forwarded.
    fn leave(&self, kind: ConnectionKind) -> io::Result<()> {
        match &self.facts.world {
            Some(world) if kind != ConnectionKind::Inbound => world.enter(),
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
    proxy.leave(ConnectionKind::Outbound)?;
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

/// Relays bytes between two connections until both have ended. The end of one direction is forwarded while the other continues;
/// resets are forwarded too. Fails if a side resets its connection or becomes unreachable; the other is then reset too.
pub(crate) fn relay(one: &TcpStream, other: &TcpStream) -> io::Result<()> {
    for stream in [one, other] {
        // Small responses are not delayed for more data.
        stream.set_nodelay(true)?;
    }
    let has_failed = AtomicBool::new(false);
    let forward = |mut from: &TcpStream, mut to: &TcpStream| {
        let done = io::copy(&mut from, &mut to).and_then(|_| {
            let ended = if has_failed.load(Ordering::SeqCst) { Ok(()) } else { to.shutdown(Shutdown::Write) };
            // A side that has gone has closed both directions.
            ended.or_else(
                |error| if error.kind() == io::ErrorKind::NotConnected { Ok(()) } else { Err(error) },
            )
        });
        if done.is_err() && !has_failed.swap(true, Ordering::SeqCst) {
            for stream in [one, other] {
                dial::reset_at_end(stream);
                let _ = stream.shutdown(Shutdown::Read);
            }
        }
        done
    };
    thread::scope(|scope| {
        let back = scope.spawn(|| forward(other, one));
        forward(one, other).and(back.join().expect("it does not panic"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::net::TcpListener;
    use sys::{link::NamespaceLinks, namespace};

    /// Connection in a new network namespace, which ends with it.
    fn pair() -> (TcpStream, TcpStream) {
        let made = namespace::within_new(|| {
            NamespaceLinks::open()
                .and_then(|mut links| links.up("lo"))
                .expect("a link that every namespace has");
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let near =
                TcpStream::connect(listener.local_addr().expect("bound")).expect("the listener accepts");
            (near, listener.accept().expect("a client connects").0)
        });
        made.expect("tests run as root")
    }

    fn with_relay<Kept>(ends: impl FnOnce(TcpStream, TcpStream) -> Kept) -> io::Result<()> {
        let ((client, front), (back, server)) = (pair(), pair());
        let relayed = thread::spawn(move || relay(&front, &back));
        let kept = ends(client, server);
        let done = relayed.join().expect("it does not panic");
        drop(kept);
        done
    }

    #[test]
    fn a_direction_may_end_before_the_other() {
        let done = with_relay(|mut client, mut server| {
            client.write_all(b"question").expect("written");
            client.shutdown(Shutdown::Write).expect("shut down");
            let mut question = String::new();
            server.read_to_string(&mut question).expect("read to its end");
            assert_eq!(question, "question");
            server.write_all(b"answer").expect("the other direction is open");
            drop(server);
            let mut answer = String::new();
            client.read_to_string(&mut answer).expect("read to its end");
            assert_eq!(answer, "answer");
        });
        done.expect("both have ended well");
    }

    #[test]
    fn a_reset_is_passed_on() {
        for client_resets in [true, false] {
            let done = with_relay(|client, server| {
                let (resets, mut other) = if client_resets { (client, server) } else { (server, client) };
                dial::reset_at_end(&resets);
                drop(resets);
                let error = other.read(&mut [0]).expect_err("no orderly end");
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            });
            assert_eq!(done.expect_err("reset").kind(), ErrorKind::ConnectionReset);
        }
    }

    #[test]
    fn a_side_that_does_not_read_blocks_the_writer() {
        let done = with_relay(|client, mut server| {
            client.set_nonblocking(true).expect("a flag");
            let (mut written, chunk) = (0, [7; 64 * 1024]);
            let mut waits = 0;
            while waits < 20 {
                match (&client).write(&chunk) {
                    Ok(count) => (written, waits) = (written + count, 0),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        waits += 1;
                        thread::sleep(std::time::Duration::from_millis(5));
                    }
                }
                assert!(written < 64 << 20, "the peer does not read");
            }
            client.shutdown(Shutdown::Write).expect("shut down");
            let mut read = Vec::new();
            server.read_to_end(&mut read).expect("read");
            assert_eq!(read.len(), written);
        });
        done.expect("both have ended well");
    }
}
