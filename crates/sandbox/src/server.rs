//! Sandbox servers: the world's, and the demo's application.
//!
//! They answer HTTP with a sentence that names the server and the client's address as they see it, and echo all other data.
//! `CONNECT` makes the world call the pod. DNS queries are answered with the world's own addresses.

use super::proxy::{name, relay};
use super::serve;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::{collections::BTreeSet, time::Duration};
use sys::dial;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Application,
    World,
}

const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of a request before its first empty line.
const REQUEST: usize = 16 * 1024;
const METHODS: [&str; 8] = ["GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PATCH ", "CONNECT "];

/// Listens on all addresses of one or both families, and answers on new threads.
pub(super) fn start(server: Server, ports: &BTreeSet<u16>, ipv6: bool) -> io::Result<()> {
    let mut listeners = Vec::new();
    for host in serve::unspecified(ipv6) {
        for port in ports {
            listeners.push(((), serve::listen((host, *port).into(), false)?));
        }
    }
    serve::accept(listeners, move |(), client| {
        // The client sees a failure as the end of its connection.
        let _ = answer(server, client);
    })
}

fn answer(server: Server, mut client: &TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut request = vec![0; REQUEST];
    let mut length = client.read(&mut request)?;
    if !METHODS.iter().any(|method| begins(&request[..length], method.as_bytes())) {
        return echo(client, &request[..length]);
    }
    client.set_read_timeout(Some(TIMEOUT))?;
    while !request[..length].windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut request[length..])? {
            0 => return Ok(()),
            more => length += more,
        }
    }
    let text = String::from_utf8_lossy(&request[..length]).into_owned();
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some("CONNECT"), Some(to)) if server == Server::World => connect(client, to),
        (method, _) => hello(server, client, method == Some("HEAD")),
    }
}

/// True if one is a prefix of the other: more bytes may follow.
fn begins(received: &[u8], method: &[u8]) -> bool {
    let length = received.len().min(method.len());
    length > 0 && received[..length] == method[..length]
}

fn hello(server: Server, mut client: &TcpStream, head_only: bool) -> io::Result<()> {
    let who = match server {
        Server::Application => "the application",
        Server::World => "the test server",
    };
    let body = format!("{who}, called at {}, sees {}\n", client.local_addr()?, client.peer_addr()?);
    let status = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close";
    let head = format!("{status}\r\nContent-Length: {}\r\n\r\n", body.len());
    client.write_all(if head_only { head } else { head + &body }.as_bytes())?;
    client.shutdown(Shutdown::Write)?;
    // Unread bytes would reset the connection before the client has read the answer.
    io::copy(&mut client, &mut io::sink())?;
    Ok(())
}

fn connect(mut client: &TcpStream, to: &str) -> io::Result<()> {
    let to = to.parse().map_err(|_| "400 The test server calls only addresses".to_owned());
    let call = |to| dial::connect(dial::CallSource::default(), to, TIMEOUT);
    match to.and_then(|to| call(to).map_err(|error| format!("502 {error}"))) {
        Ok(server) => {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            client.set_read_timeout(None)?;
            relay(client, &server)
        }
        Err(status) => client.write_all(
            format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
        ),
    }
}

fn echo(mut client: &TcpStream, first: &[u8]) -> io::Result<()> {
    client.write_all(first)?;
    io::copy(&mut &*client, &mut &*client)?;
    client.shutdown(Shutdown::Write)
}

pub(super) fn start_names(servers: &[SocketAddr], answers: DnsAnswer) -> io::Result<()> {
    let mut listeners = Vec::new();
    for server in servers {
        listeners.push(((), dial::listen(*server, false)?));
        serve::receive(UdpSocket::bind(server)?, move |socket, query, client| {
            let _ = answers.answer(query).map(|answer| socket.send_to(&answer, client));
        })?;
    }
    serve::accept(listeners, move |(), client| {
        let _ = name_over_tcp(client, answers);
    })
}

/// Answers messages, each preceded by its length (RFC 1035, 4.2.2).
fn name_over_tcp(mut client: &TcpStream, answers: DnsAnswer) -> io::Result<()> {
    client.set_read_timeout(Some(TIMEOUT))?;
    loop {
        let mut length = [0; 2];
        client.read_exact(&mut length)?;
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        client.read_exact(&mut query)?;
        let Some(answer) = answers.answer(&query) else { return Ok(()) };
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        client.write_all(&[&length.to_be_bytes(), &answer[..]].concat())?;
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DnsAnswer {
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Option<Ipv6Addr>,
}

impl DnsAnswer {
    /// Answer to a query (RFC 1035, 4.1): the address for A and AAAA, else an empty answer.
    fn answer(self, query: &[u8]) -> Option<Vec<u8>> {
        const HEADER: usize = 12;
        const A: [u8; 2] = [0, 1];
        const AAAA: [u8; 2] = [0, 28];
        const SECONDS: [u8; 4] = [0, 0, 0, 60];
        // Pointer to the name in the query.
        const NAME: [u8; 2] = [0xc0, 12];
        const CLASS: [u8; 2] = [0, 1];
        let is_answer = query.get(2)? & 0x80 != 0;
        name(query).filter(|_| !is_answer)?;
        let end = HEADER + query[HEADER..].iter().position(|&byte| byte == 0)? + 5;
        let kind: [u8; 2] = query.get(end - 4..end - 2)?.try_into().ok()?;
        let address = match kind {
            A => Some(self.v4.octets().to_vec()),
            AAAA => self.v6.map(|address| address.octets().to_vec()),
            _ => None,
        };
        // Authoritative answer to one query.
        let mut answer =
            [&query[..2], &[0x85, 0x80, 0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]].concat();
        answer.extend(query.get(HEADER..end)?);
        if let Some(address) = address {
            let length = u16::try_from(address.len()).ok()?.to_be_bytes();
            answer.extend([&NAME[..], &kind, &CLASS, &SECONDS, &length, &address].concat());
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: DnsAnswer = DnsAnswer { v4: Ipv4Addr::new(10, 9, 0, 2), v6: None };

    fn query(kind: u8) -> Vec<u8> {
        [&[7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x01a\x02bc\x00", &[0, kind, 0, 1]].concat()
    }

    #[test]
    fn every_name_has_the_address_of_its_family() {
        assert_eq!(name(&query(1)).as_deref(), Some("a.bc"));
        let answer = NAMES.answer(&query(1)).expect("an answer");
        assert_eq!(answer[..8], [7, 7, 0x85, 0x80, 0, 1, 0, 1]);
        assert!(answer.ends_with(&[0, 4, 10, 9, 0, 2]), "{answer:?}");
        let none = NAMES.answer(&query(28)).expect("an answer");
        assert_eq!(none[6..8], [0, 0]);
    }

    #[test]
    fn invalid_queries_get_no_answer() {
        let whole = query(1);
        for cut in 0..whole.len() {
            assert_eq!(NAMES.answer(&whole[..cut]), None, "{cut}");
        }
        let mut answer = whole;
        answer[2] |= 0x80;
        assert_eq!(NAMES.answer(&answer), None);
    }
}
